"""The accounting of a real Slurm, as sacctmgr prints it, against terms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuassay.sla.moments import zone_of
from gpuassay.sla.outages import Actor
from gpuassay.sla.readers import Reading
from gpuassay.sla.readers.any import read
from nodes import Rack
from slurmd import LOGIN
from slurmdbd import Accounted, needs_accounts

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = needs_accounts()
ZONE = "Asia/Tokyo"
SHOW = ("env", f"TZ={ZONE}", "sacctmgr", "show", "event", "Start=2020-01-01")


def test_what_a_real_slurm_keeps_of_a_node(tmp_path: Path) -> None:
    """An outage that ended and one that lasts are the same in every form in which sacctmgr prints them."""
    with Rack(tmp_path, LOGIN, "n1", "n2") as rack:
        slurm = Accounted(rack, tmp_path / "slurm", {"batch": "Nodes=n[1-2] Default=YES MaxTime=1:00:00"})
        slurm.start()
        slurm.run("scontrol", "update", "node=n1", "state=drain", "reason=bad | pipe")
        slurm.wait("scontrol show node n1", lambda shown: "DRAIN" in shown)
        slurm.run("scontrol", "update", "node=n1", "state=resume")
        slurm.run("scontrol", "update", "node=n2", "state=down", "reason=xid 79")
        slurm.wait(
            "sacctmgr --parsable2 --noheader show event Start=2020-01-01",
            lambda shown: "xid 79" in shown and "pipe|root" in shown and shown.count("Unknown") == 2,
        )
        forms = {
            "parsable": (*SHOW, "--parsable"),
            "parsable2": (*SHOW, "--parsable2"),
            "seconds": ("env", "SLURM_TIME_FORMAT=%s", *SHOW, "--parsable2"),
        }
        for name, command in forms.items():
            (tmp_path / name).write_text(slurm.run(*command).stdout, encoding="utf-8")
    found = [read(tmp_path / name, Reading(zone_of(ZONE))) for name in forms]
    for history in found:
        first, second = history.outages
        assert (first.node, first.reason, first.by) == ("n1", "bad | pipe", Actor.PROVIDER)
        assert first.until is not None
        assert (second.node, second.reason, second.until) == ("n2", "xid 79", None)
        assert not history.notes
    assert len({(one.begin, one.until) for history in found for one in history.outages}) == 2
