"""What was seen of a node in Slurm while it was watched."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gpuassay.facts.fault_sights import OURS, Sight, times
from gpuassay.facts.slurm import NODES, Slurm, SlurmNode
from gpuassay.facts.slurm_state import Standing, read_state
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read

if TYPE_CHECKING:
    from gpuassay.evidence.item import Item

SCHEDULER = "slurmctld"
_GONE = (Standing.OUT, Standing.GONE, Standing.ASLEEP)


def node_of(item: Item) -> SlurmNode | None:
    """Read the node that was shown; None where Slurm did not show one."""
    nodes = Slurm(_Shown(item)).nodes
    return next(iter(nodes.value.values())) if isinstance(nodes, Read) else None


def node_sight(item: Item, ref: str) -> Sight:
    """Read what Slurm said of the node; one that it knows no more is out of service."""
    at_s, since_s = times(item)
    node = node_of(item)
    if node is None:
        gone = item.status == "failed" and "not found" in item.err
        words = (
            "Slurm lists the node no more" if gone else f"Slurm did not say: {brief(item.why or item.err)}"
        )
        return Sight(at_s, since_s, "slurm-node", words, ref, out=True if gone else None)
    out = node.state.standing in _GONE
    by = _who(node, out=out)
    words = node.says + (" (slurmctld itself, by no tooling)" if by == SCHEDULER and out else "")
    booted_s = _clock(node.boot_time)
    known = identity(item)
    return Sight(at_s, since_s, "slurm-node", words, ref, out=out, by=by, identity=known, booted_s=booted_s)


def identity(item: Item) -> str:
    """Read what the provider's own interface calls the machine; empty where Slurm was not told."""
    found = re.search(rb"\bInstanceId=(\S+)", item.out)
    return found[1].decode(errors="replace") if found else ""


def _who(node: SlurmNode, *, out: bool) -> str:
    if node.reason.startswith("gpuassay"):
        return OURS
    if node.reason_by:
        return node.reason_by.partition("@")[0]
    return SCHEDULER if out else ""


def _clock(text: str) -> float | None:
    """Read a time of Slurm's, as seconds; only differences mean anything."""
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def canary_sight(item: Item, ref: str) -> Sight:
    """Read whether a job pinned to the node would have been let in."""
    at_s, since_s = times(item)
    refused = item.status == "failed" and "allocation failure" in item.err
    known = refused or item.status == "ok"
    words = "a pinned job is " + (("refused" if refused else "let in") if known else "asked about in vain")
    said = f": {brief(item.err.strip())}" if item.err.strip() else ""
    return Sight(at_s, since_s, "canary", f"{words}{said}", ref, lets_in=not refused if known else None)


def fleet_sight(item: Item, ref: str) -> Sight:
    """Read which nodes are in service."""
    at_s, since_s = times(item)
    if item.status != "ok":
        return Sight(at_s, since_s, "slurm-fleet", f"Slurm did not say: {brief(item.why)}", ref)
    pairs = (line.split("|", 1) for line in item.out.decode(errors="replace").splitlines() if "|" in line)
    states = {name.strip(): read_state(word.strip()) for name, word in pairs}
    fit = frozenset(name for name, state in states.items() if state and state.standing not in _GONE)
    words = f"{len(fit)} of {len(states)} nodes are in service"
    return Sight(at_s, since_s, "slurm-fleet", words, ref, in_service=fit)


class _Shown:
    """One answer as evidence."""

    problems = ()

    def __init__(self, item: Item) -> None:
        self._item = replace(item, id=NODES)

    def item(self, item_id: str, /) -> Item | None:
        return self._item if item_id == NODES else None

    def ref(self, item: Item, /) -> str:
        return item.id
