"""What is kept of nodes that were rebooted in waves of two, and came back as they were: made up."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from gpuassay.evidence.item import Item
from gpuassay.facts import reboot as facts
from gpuassay.facts.fault_trial import END, LOOK, PLAN
from gpuassay.judge.catalog import load_catalog
from gpuassay.rebooted import AFTER, REBOOT
from recorded.items import dashed, made_up

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpuassay.judge.catalog import Measurement

PLANNED, SEEN, ORDERED, DOWN, BACK, LOOKED = 0.9, 1.4, 2.3, 4.1, 412.6, 415.0
"""When each step was, in seconds after a wave began."""

# Of all that the probe asks, what is compared.
_KEPT = frozenset(
    {
        *("host", "boot-id", "uptime", "pci", "infiniband", "net", "nccl", "nvml", "nvidia-module"),
        *("nvidia-sysfs-version", "proc-version", "version-signature", "packages", "storage"),
    }
)
_TOLD = frozenset({"kubernetes/nodes", "slurm/nodes", "slurm/topology"})
_BOOTED, _BOOTED_AGAIN = "2026-11-16T07:55:24", "2026-11-30T08:06:41"
_WAVE = 2


@cache
def measurement() -> Measurement:
    """Return the measurement as the catalogue has it."""
    root = Path(__file__).parents[2]
    return load_catalog(root / "thresholds.toml", root / "advisories.toml").measurements[REBOOT]


def on_node(name: str, index: int, items: Sequence[Item]) -> Iterator[Item]:
    """Yield the story of a node, and what the probe brings home of it afterwards."""
    (boot,) = (item.out.decode().strip() for item in items if item.id == "boot-id")
    for item in _story(name, index, boot):
        yield replace(item, id=f"measure/{REBOOT}/{item.id}")
    yield from afterwards(name, items)


def afterwards(name: str, items: Sequence[Item]) -> Iterator[Item]:
    """Yield what the probe brings home of a node that has booted since."""
    for item in items:
        if item.id in _KEPT:
            yield replace(_later(name, item), id=f"measure/{REBOOT}{AFTER}/{item.id}")


def begun(mark: str) -> Item:
    """Return how the story of each node begins."""
    args = dict(measurement().args)
    about = {"args": args, "method": facts.METHOD, "ticket": "CHG-0000", "mark": mark, "wave": _WAVE}
    return Item(facts.BEGIN, 0, asked={**about, "wall": 1796025600.0})


def of_cluster(told: Sequence[Item]) -> Iterator[Item]:
    """Yield what the scheduler says of the nodes afterwards; ``told`` is what it said before."""
    for item in told:
        if item.id in _TOLD:
            out = item.out.replace(_BOOTED.encode(), _BOOTED_AGAIN.encode())
            yield replace(item, id=f"survey/{REBOOT}{AFTER}/{item.id}", out=out)


def _story(name: str, index: int, boot: str) -> Iterator[Item]:
    """Yield all steps of a reboot by Slurm."""
    mark = made_up("wave", (index - 1) // _WAVE)[:8]
    content = {
        "mount": "/home",
        "file": f"/home/user/.gpuassay-reboot-{mark}-{name}",
        "sha256": made_up(mark, name),
    }
    yield begun(mark)
    yield act(PLAN, PLANNED, {"verb": "plan", "host": name, "boot": boot, "marks": [content]})
    yield _sight(name, SEEN, SEEN - 1, "ALLOCATED", _BOOTED)
    order = f"scontrol reboot ASAP nextstate=RESUME reason=gpuassay: a reboot on purpose {name}"
    yield Item(facts.ORDER, 0, asked={"at_s": ORDERED, "since_s": ORDERED - 0.1, "way": order}, exit=0)
    yield _sight(name, DOWN, ORDERED, "DOWN+DRAIN+REBOOT_ISSUED", _BOOTED)
    yield _sight(name, BACK, BACK - 1, "IDLE", _BOOTED_AGAIN)
    yield Item(END, 0, asked={"state": facts.RETURNED, "watched_until_s": BACK + 1})
    yield act(LOOK, LOOKED, {"verb": "look", "boot": dashed(made_up(name, "again")), "marks": [content]})


def act(item_id: str, at_s: float, document: object) -> Item:
    """Return what came of an act."""
    out = json.dumps(document).encode() + b"\n"
    return Item(item_id, 0, asked={"at_s": at_s, "since_s": at_s, "way": "python3"}, exit=0, out=out)


def _sight(name: str, at_s: float, since_s: float, state: str, booted: str) -> Item:
    why = "   Reason=gpuassay: a reboot on purpose [root@2026-11-30T08:00:02]\n" if "DRAIN" in state else ""
    shown = f"NodeName={name} Arch=x86_64\n   State={state} ThreadsPerCore=2\n   BootTime={booted}\n{why}"
    times = {"at_s": at_s, "since_s": since_s}
    return Item("watch/slurm-node", 0, asked=times, exit=0, out=shown.encode())


def _later(name: str, item: Item) -> Item:
    """Return an answer as it is after the boot."""
    if item.id == "boot-id":
        return replace(item, out=f"{dashed(made_up(name, 'again'))}\n".encode())
    return replace(item, out=b"431.07 90124.55\n") if item.id == "uptime" else item
