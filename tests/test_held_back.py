"""Nodes that whoever runs a cluster takes out of service, and what the tier makes of them."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from gpuassay.session import Request, context, prepare
from recorded.build import build
from recorded.judge import ROOT, judge

if TYPE_CHECKING:
    from pathlib import Path


def test_what_a_scheduler_holds_back_bars_the_tier_unless_a_contract_counts(tmp_path: Path) -> None:
    """Who sells the nodes could otherwise drain the sick ones, and have the rest of them win the tier."""
    drained = build("slurm-drained-without-a-word")
    declared = (drained / "site.toml").read_text()
    site = tmp_path / "site.toml"

    def barred(contracted: str) -> list[str]:
        site.write_text(declared.replace("gpus        = 8", f"gpus = 8\n{contracted}"))
        bars: list[str] = context(prepare(Request(ROOT, site=site), drained))["barred"]
        return bars

    [why] = barred("")
    assert why.startswith("the scheduler holds gpu004 out of service, and the site file does not say")
    assert barred("contracted = 4") == []


def test_a_cluster_of_which_every_node_is_held_back_passes_nothing(tmp_path: Path) -> None:
    """Nobody is left to judge, which is an error of every check, and the reason says where they all are."""
    drained = tmp_path / "recording"
    shutil.copytree(ROOT / "fixtures/recorded/slurm-b200-4/recording", drained)
    told = (drained / "cluster.jsonl").read_text()
    (drained / "cluster.jsonl").write_text(told.replace("State=IDLE", "State=IDLE+DRAIN"))
    found = judge(drained)

    asked_by_rating = {"skip"}  # the checks that only a profile asks for
    never_tried = {"not_run"}  # what nobody has broken or stormed there needs no node to be so
    assert {*found.verdicts.values()} - asked_by_rating - never_tried == {"error"}
    assert found.results["tier"]["state"] == "unavailable"
    why = found.results["checks"]["audit.hardware.gpu_count"]["reason"]
    assert why == "there is no node to judge: all 4 are out of service"
