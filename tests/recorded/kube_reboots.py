"""What is kept of nodes of Kubernetes that were rebooted together, and came back as they were: made up."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gpuassay.evidence.item import Item
from gpuassay.facts import reboot as facts
from gpuassay.facts.fault_trial import END, PLAN
from gpuassay.rebooted import REBOOT
from recorded import kubernetes
from recorded.items import dashed, encode, made_up
from recorded.reboots import BACK, DOWN, LOOKED, ORDERED, PLANNED, SEEN, act, afterwards, begun

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_GONE = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}


def on_node(name: str, items: Sequence[Item]) -> Iterator[Item]:
    """Yield the story of a node, and what the probe brings home of it afterwards."""
    (boot,) = (item.out.decode().strip() for item in items if item.id == "boot-id")
    for item in _story(name, boot):
        yield replace(item, id=f"measure/{REBOOT}/{item.id}")
    yield from afterwards(name, items)


def _story(name: str, boot: str) -> Iterator[Item]:
    """Yield all steps of a reboot by the node itself, which is held until it is back."""
    kept = made_up("kept", name)
    yield begun(made_up("wave", 0)[:8])
    yield act(PLAN, PLANNED, {"verb": "plan", "host": name, "boot": boot, "marks": []})
    yield act(facts.CLAIM, PLANNED, {"node": name, "state": "ended", "wrote": kept})
    yield _sight(name, SEEN, SEEN - 1, boot)
    yield act(facts.ORDER, ORDERED, {"verb": "restart", "by": "systemctl reboot in 3 s"})
    yield _sight(name, DOWN, ORDERED, boot, _GONE)
    yield _sight(name, BACK, BACK - 1, dashed(made_up(name, "again")))
    yield Item(END, 0, asked={"state": facts.RETURNED, "watched_until_s": BACK + 1})
    yield act(facts.CLAIM_AGAIN, LOOKED, {"node": name, "state": "ended", "read": kept})


def _sight(name: str, at_s: float, since_s: float, boot: str, *taints: dict[str, Any]) -> Item:
    made = kubernetes.node(name)
    made["spec"] |= {"taints": [*taints]} if taints else {}
    made["status"]["nodeInfo"] |= {"bootID": boot}
    gpus = {"name": "nvidia.com/gpu", "count": kubernetes.GPUS}
    asked = {"node": name, "tolerations": [], "gpus": gpus, "at_s": at_s, "since_s": since_s}
    return Item("watch/kube-node", 0, asked=asked, out=encode(made))
