"""What is kept of a fault on a node of Kubernetes, whose provider cordons the node and replaces it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gpuassay.evidence.item import Item
from gpuassay.facts import fault_trial as facts
from gpuassay.facts.fault_audited import AUDIT
from gpuassay.facts.fault_kube import NOTHING
from recorded import kubernetes
from recorded.faults import ARMED, BACK, BEGAN, BROKEN, ENDED, PRODUCT, SEEN, act, audits, loads, of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MANAGER = "node-health-controller"
_TOLERATED = [{"key": "nvidia.com/gpu", "operator": "Exists"}, {"key": "amd.com/gpu", "operator": "Exists"}]
_TAINT = {"key": "example.com/unhealthy", "effect": "NoSchedule"}
_GPUS = {"name": "nvidia.com/gpu", "count": kubernetes.GPUS}
_GONE = 64.5  # when the node was deleted
_JOINED = BACK - 41.3  # when another machine joined under its name, whose GPUs are not yet given out


def on_kubernetes(names: Sequence[str], answers: Sequence[Item]) -> list[Item]:
    """Return the trial of a kubelet that was frozen: its node is cordoned, deleted, and comes anew.

    ``answers`` are those of the machine that comes.
    """
    bounds = {"watch_s": 600, "mend_s": 240, "replace_s": 3600, "smoke": PRODUCT}
    what = {"fault": "service", "args": {"service": "kubelet", "how": "freeze", **bounds}}
    where = {"node": names[0], "ticket": "CHG-0000", "mark": "00000000", "wall": 1796025600.0}
    items = [
        Item(facts.TRIAL, 0, asked={**what, "method": facts.METHOD, **where, AUDIT: True}),
        act("plan", BEGAN, {"does": ["…"], "undoes": ["…"], "expects": "…", "state": {}, "boot": "made up"}),
        act("arm", ARMED, {"by": f"systemd's timer gpuassay-undo-{where['mark']}"}),
        *_sights(names, ARMED, _node(names[0], "a")),
        act("inject", BROKEN, {"proof": "kubelet (4712) is stopped"}),
        *_sights(names, SEEN, _cordoned(names[0])),
        act("stand_down", ENDED, {"failed": "no pod starts on the node"}),
        Item(facts.END, 0, asked={"state": facts.HANDED_OVER, "watched_until_s": ENDED}),
        *_replaced(names),
        act("look", BACK + 2, {"proof": f"booted since, with {kubernetes.GPUS} GPUs on its bus"}),
        *audits(names[0], answers),
        *loads(names[0], kubernetes.GPUS),
        Item(facts.OVER, 0, asked={"watched_until_s": BACK + 3}),
    ]
    return [of("frozen_kubelet", item) for item in items]


def _replaced(names: Sequence[str]) -> Iterator[Item]:
    """Yield what is seen where the node is deleted, and another machine joins and gives out its GPUs."""
    asked = _asked(names, _GONE)
    yield Item("watch/kube-node", 0, "not_found", asked, why=f'404: nodes "{names[0]}" not found')
    yield _fleet(names[1:], _GONE)
    joined = _node(names[0], "b")
    joined["status"]["allocatable"] = {"cpu": "224"}
    yield Item("watch/kube-node", 0, asked=_asked(names, _JOINED), out=_text(joined))
    yield Item("watch/kube-node", 0, asked=_asked(names, BACK), out=_text(_node(names[0], "b")))
    yield _fleet(names, BACK)


def _sights(names: Sequence[str], at_s: float, node: dict[str, Any]) -> Iterator[Item]:
    """Yield what all eyes see of the first node, and of the others beside it."""
    taken = "unschedulable" in node["spec"]
    others = f"{len(names) - 1} node(s) didn't match Pod's node affinity/selector"
    why = "1 node(s) were unschedulable" if taken else f"1 Insufficient {NOTHING}"
    said = {"status": "False", "reason": "Unschedulable", "message": f"0/{len(names)} nodes are available: "}
    said["message"] += f"{why}, {others}."
    told: dict[str, Any] = {"watch/kube-node": node, "watch/kube-canary": said, "watch/kube-events": _NONE}
    for name, document in told.items():
        yield Item(name, 0, asked=_asked(names, at_s), out=_text(document))
    yield _fleet(names, at_s, node)


_NONE: dict[str, Any] = {"items": []}


def _fleet(names: Sequence[str], at_s: float, *changed: dict[str, Any]) -> Item:
    nodes = {name: kubernetes.node(name) for name in names}
    nodes |= {one["metadata"]["name"]: one for one in changed}
    return Item("watch/kube-fleet", 0, asked=_asked(names, at_s), out=_text({"items": [*nodes.values()]}))


def _asked(names: Sequence[str], at_s: float) -> dict[str, Any]:
    times = {"at_s": at_s, "since_s": round(at_s - 1.1, 1)}
    return {"node": names[0], "tolerations": _TOLERATED, "gpus": _GPUS, **times}


def _node(name: str, machine: str) -> dict[str, Any]:
    """Return a node that is one machine or another."""
    made = kubernetes.node(name)
    made["spec"]["providerID"] = f"example://machine-{machine}"
    identity = ("machineID", "systemUUID", "bootID")
    made["status"]["nodeInfo"] |= {key: f"{key} of machine-{machine}" for key in identity}
    return made


def _cordoned(name: str) -> dict[str, Any]:
    """Return a node that was taken out of service: cordoned and tainted."""
    made = _node(name, "a")
    made["spec"] |= {"unschedulable": True, "taints": [_TAINT]}
    wrote: dict[str, Any] = {"f:spec": {"f:taints": {}, "f:unschedulable": {}}}
    entry = {"manager": MANAGER, "time": "2026-11-30T08:00:31Z", "fieldsV1": wrote}
    made["metadata"]["managedFields"] = [entry]
    return made


def _text(document: object) -> bytes:
    return json.dumps(document).encode()
