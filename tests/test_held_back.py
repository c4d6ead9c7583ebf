"""Nodes that whoever runs a cluster takes out of service, and what the tier makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuassay.session import Request, context, prepare
from recorded.build import build
from recorded.judge import ROOT

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
    assert why.startswith("gpu004 is held out of service by the scheduler")
    assert barred("contracted = 4") == []
