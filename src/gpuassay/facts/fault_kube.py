"""What was seen of a node in Kubernetes while it was watched."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gpuassay.facts.fault_sights import NOT_THEIRS, OURS, TENANT, Sight, number, times
from gpuassay.facts.kube_words import mapping, records, text
from gpuassay.facts.kubernetes import GPU_RESOURCES, KubeNode, quantity
from gpuassay.facts.record import Record
from gpuassay.facts.text import brief

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpuassay.evidence.item import Item

NOTHING = "gpuassay/nothing"
"""What the canary asks for and no node has: where only that is missing, the scheduler would let a pod in."""

_ITSELF = ("kube-controller-manager", "cloud-controller-manager")
_MACHINE = ("machineID", "systemUUID", "bootID")
_BARS = ("NoSchedule", "NoExecute")
_CORDON = "node.kubernetes.io/unschedulable"
_SHUT = ("untolerated taint", "were unschedulable", "didn't match", "had taint")


def node_sight(item: Item, ref: str) -> Sight:
    """Read what Kubernetes said of the node; one that it knows no more is out of service."""
    at_s, since_s = times(item)
    shown = document(item)
    if shown is None:
        gone = item.status == "not_found"
        words = "Kubernetes lists the node no more" if gone else f"Kubernetes did not say: {brief(item.why)}"
        return Sight(at_s, since_s, "kube-node", words, ref, out=True if gone else None)
    record = Record(shown, ref)
    node = KubeNode(record)
    barred = list(bars(node, item.asked.get("tolerations")))
    out = bool(node.cordoned or barred)
    by, how = _actor(record, item, cordoned=bool(node.cordoned), tainted=bool(barred)) if out else ("", "")
    words = "; ".join(filter(None, [*_said(node, barred), how, *_conditions(record), _gpus(node)]))
    known, whole = _identity(record), _whole(node, item)
    return Sight(at_s, since_s, "kube-node", words, ref, out=out, by=by, identity=known, whole=whole)


def canary_sight(item: Item, ref: str) -> Sight:
    """Read whether the scheduler found more against a pod pinned to the node than that it wants too much."""
    at_s, since_s = times(item)
    told = document(item) or {}
    said = str(told.get("message") or "")
    open_ = f"Insufficient {NOTHING}" in said
    known = open_ or any(word in said for word in _SHUT)
    words = "a pinned pod is " + (("let in" if open_ else "refused") if known else "asked about in vain")
    why = said or item.why
    words += f": {brief(why)}" if why and not open_ else ""
    return Sight(at_s, since_s, "canary", words, ref, lets_in=open_ if known else None)


def fleet_sight(item: Item, ref: str) -> Sight:
    """Read which nodes are in service: ready, with all GPUs, not cordoned, and barred by no taint."""
    at_s, since_s = times(item)
    shown = document(item)
    if shown is None:
        return Sight(at_s, since_s, "kube-fleet", f"Kubernetes did not say: {brief(item.why)}", ref)
    nodes = [KubeNode(one) for one in records(Record(shown, ref), "items")]
    tolerated = item.asked.get("tolerations")
    free = [node for node in nodes if not node.shut and not any(bars(node, tolerated))]
    fit = frozenset(node.name for node in free if _whole(node, item) is not False)
    words = f"{len(fit)} of {len(nodes)} nodes are in service"
    return Sight(at_s, since_s, "kube-fleet", words, ref, in_service=fit)


def event_sight(item: Item, ref: str) -> Sight:
    """Read what was told last about the node. An event is no message to a person, so it notifies nobody."""
    at_s, since_s = times(item)
    shown = document(item)
    if shown is None:
        return Sight(at_s, since_s, "kube-events", f"events cannot be seen: {brief(item.why)}", ref)
    told = [_event(one) for one in records(Record(shown, ref), "items")]
    return Sight(at_s, since_s, "kube-events", told[-1] if told else "nothing was told of the node", ref)


def bars(node: KubeNode, tolerations: object) -> Iterator[str]:
    """Name the taints that keep users' pods away, beside the one that goes with a cordon."""
    for taint in node.taints:
        key, effect = text(taint, "key"), text(taint, "effect")
        if node.cordoned and key == _CORDON:
            continue
        if effect in _BARS and not any(
            _tolerates(one, key, text(taint, "value"), effect) for one in _listed(tolerations)
        ):
            yield f"{key}:{effect}"


def document(item: Item) -> dict[str, Any] | None:
    """Read the object that was given; None where none was."""
    try:
        found = json.loads(item.out) if item.status == "ok" else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _listed(tolerations: object) -> list[Mapping[str, Any]]:
    return (
        [one for one in tolerations if isinstance(one, dict)] if isinstance(tolerations, list | tuple) else []
    )


def _tolerates(toleration: Mapping[str, Any], key: str, value: str, effect: str) -> bool:
    if toleration.get("effect", effect) != effect or toleration.get("key", key) != key:
        return False
    return toleration.get("operator") == "Exists" or toleration.get("value", "") == value


def _said(node: KubeNode, barred: list[str]) -> Iterator[str]:
    yield node.cordoned and "cordoned"
    yield f"tainted {', '.join(sorted(barred))}" if barred else ""


def _conditions(record: Record) -> Iterator[str]:
    """Tell each condition; of usual ones the status is enough. Heartbeats are no change."""
    told = ((text(one, "type"), one) for one in records(record.record("status"), "conditions"))
    for kind, condition in sorted(told, key=lambda pair: pair[0]):
        status = text(condition, "status")
        if status != ("True" if kind == "Ready" else "False"):
            yield f"{kind}={status} ({text(condition, 'reason')})"


def _gpus(node: KubeNode) -> str:
    offered = {name: quantity(node.allocatable[name]) for name in GPU_RESOURCES if name in node.allocatable}
    return ", ".join(f"{count} {name}" for name, count in offered.items()) or "no GPUs"


def _whole(node: KubeNode, item: Item) -> bool | None:
    """Tell whether a node gives out as many GPUs as the one that is broken did; None where that had none."""
    wanted = item.asked.get("gpus")
    if not isinstance(wanted, dict):
        return None
    return quantity(node.allocatable.get(str(wanted.get("name")))) >= number(wanted.get("count"))


def _identity(record: Record) -> str:
    """Name the machine and its boot; the object's own uid is new also where the same kubelet comes back."""
    info = record.record("status").record("nodeInfo")
    words = [text(record.record("spec"), "providerID")]
    return " ".join(filter(None, [*words, *(text(info, key) for key in _MACHINE)]))


def _actor(record: Record, item: Item, *, cordoned: bool, tainted: bool) -> tuple[str, str]:
    """Name who keeps the node out, and say in words what is to be known of that.

    It is the manager that wrote the cordon last, or the taints where one of them keeps pods away: Kubernetes
    answers each cordon with a taint of its own, whoever has set it.
    """
    fields = {"f:unschedulable"} if cordoned else set()
    fields |= {"f:taints"} if tainted else set()
    wrote = sorted(
        (text(entry, "time"), text(entry, "manager"))
        for entry in records(record.record("metadata"), "managedFields")
        if fields & mapping(entry.record("fieldsV1"), "f:spec").keys()
    )
    known = [(_whose(manager, item.asked.get("tooling")), manager) for _, manager in wrote]
    by, manager = ([one for one in known if one[0] not in NOT_THEIRS] or known or [("", "")])[-1]
    if by == TENANT:
        return by, f"by {manager}, which is not said to be tooling of the provider's"
    return by, "by Kubernetes itself, by no tooling" if manager in _ITSELF else ""


def _whose(manager: str, tooling: object) -> str:
    """Tell whose a change is, by the program that made it: what people type is nobody's tooling."""
    if manager.startswith("gpuassay"):
        return OURS
    if manager in _ITSELF:
        return manager
    named = tooling if isinstance(tooling, list | tuple) else ()
    theirs = manager in named if named else not manager.startswith("kubectl")
    return manager if theirs else TENANT


def _event(record: Record) -> str:
    source = text(record.record("source"), "component") or text(record, "reportingComponent")
    return f"{source or 'somebody'} says {text(record, 'reason')}: {text(record, 'message')}"
