"""What eyes on Kubernetes saw, read into sights: who is out, by whom, and whom the scheduler lets in."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpuassay.evidence.item import Item
from gpuassay.facts.fault_kube import canary_sight, event_sight, fleet_sight, node_sight
from gpuassay.facts.fault_sights import OURS, TENANT

GPU = {"key": "nvidia.com/gpu", "operator": "Exists"}


def seen(told: Any, wanted: Any = None) -> Item:
    """Make an item that holds an object."""
    asked = {"at_s": 5.0, "since_s": 4.0, "tolerations": [GPU], **(wanted or {})}
    return Item("watch/x", 1, asked=asked, out=json.dumps(told).encode())


def node(name: str = "gpu1", **spec: Any) -> dict[str, Any]:
    """Make a node that is ready."""
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-30T08:00:00Z"}
    return {"metadata": {"name": name, "uid": "u"}, "spec": spec, "status": {"conditions": [ready]}}


def test_taints_and_cordons_take_a_node_out() -> None:
    """A taint that users' pods tolerate does not; nor does one that only prefers others."""
    taint = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
    assert node_sight(seen(node(taints=[taint])), "").out is False
    assert node_sight(seen(node(taints=[{"key": "sick", "effect": "PreferNoSchedule"}])), "").out is False
    sick = node_sight(seen(node(taints=[{"key": "sick", "effect": "NoExecute"}])), "")
    assert (sick.out, sick.at_s, sick.since_s) == (True, 5.0, 4.0)
    assert "tainted sick:NoExecute" in sick.words
    assert node_sight(seen(node(unschedulable=True)), "").out is True


CORDON, TAINTS, BOTH = ["f:unschedulable"], ["f:taints"], ["f:taints", "f:unschedulable"]
ITSELF = "kube-controller-manager"


def barred(*wrote: tuple[str, str, list[str]], taint: str = "") -> dict[str, Any]:
    """Make a node that is cordoned, or has a taint, with who wrote what of it at which second."""
    made = node(unschedulable=True) if not taint else node(taints=[{"key": taint, "effect": "NoSchedule"}])
    made["metadata"]["managedFields"] = [
        {
            "manager": manager,
            "time": f"2026-11-30T08:00:{second}Z",
            "fieldsV1": {"f:spec": {field: {} for field in fields}},
        }
        for manager, second, fields in wrote
    ]
    return made


@pytest.mark.parametrize(
    ("made", "by"),
    [
        (barred(("healthd", "09", BOTH), ("kubelet", "30", [])), "healthd"),
        (barred(("gpuassay", "09", CORDON)), OURS),
        (barred(("kubectl-cordon", "09", CORDON)), TENANT),
        (barred(("kubectl-cordon", "09", CORDON), (ITSELF, "10", TAINTS)), TENANT),
        (barred(("kubectl-cordon", "09", CORDON), ("healthd", "08", CORDON)), "healthd"),
        (barred((ITSELF, "09", TAINTS), taint="node.kubernetes.io/unreachable"), ITSELF),
        (barred(taint="sick"), ""),
    ],
)
def test_who_took_it_out(made: dict[str, Any], by: str) -> None:
    """Whoever wrote the cordon, or the taint that keeps pods away; Kubernetes adds one to each cordon."""
    found = node_sight(seen(made), "")
    assert (found.out, found.by) == (True, by)
    assert ("by Kubernetes itself" in found.words) is (by == ITSELF)
    assert ("is not said to be tooling" in found.words) is (by == TENANT)


@pytest.mark.parametrize(
    ("manager", "by"),
    [("kubectl-drain", "kubectl-drain"), ("healthd", TENANT), (ITSELF, ITSELF), ("", TENANT)],
)
def test_where_the_tooling_is_named_no_other_counts(manager: str, by: str) -> None:
    """The provider may work with kubectl, and a tenant may have a controller of his own."""
    made = barred((manager, "09", BOTH))
    assert node_sight(seen(made, {"tooling": ["kubectl-drain"]}), "").by == by


def test_another_machine_is_told_by_what_it_is_and_not_by_its_object() -> None:
    """A kubelet that registers again makes a new object; another boot or provider's id is another machine."""
    old, again, other = node(), node(), node()
    again["metadata"]["uid"] = "another"
    other["status"]["nodeInfo"] = {"bootID": "b"}
    known = [node_sight(seen(one), "").identity for one in (old, again, other)]
    assert known[0] == known[1] != known[2]
    other["spec"]["providerID"] = "fake://1"
    assert node_sight(seen(other), "").identity == "fake://1 b"


@pytest.mark.parametrize(("gpus", "whole"), [("8", True), ("7", False), (None, False)])
def test_a_node_with_fewer_gpus_is_not_whole(gpus: str | None, whole: bool) -> None:  # noqa: FBT001 - a case
    """What the broken node gave out is the measure; where it had no GPUs nobody can say."""
    made = node()
    made["status"]["allocatable"] = {"nvidia.com/gpu": gpus} if gpus else {}
    wanted = {"gpus": {"name": "nvidia.com/gpu", "count": 8}}
    assert node_sight(seen(made, wanted), "").whole is whole
    assert fleet_sight(seen({"items": [made]}, wanted), "").in_service == frozenset({"gpu1"} if whole else ())
    assert node_sight(seen(made), "").whole is None


def test_conditions_change_the_words_and_heartbeats_do_not() -> None:
    """So a condition that an agent sets counts as a reaction, and time that passes does not."""
    before, beat, sick = node(), node(), node()
    beat["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-11-30T09:00:00Z"
    sick["status"]["conditions"].append({"type": "GpuLost", "status": "True", "reason": "Xid79"})
    assert node_sight(seen(before), "").words == node_sight(seen(beat), "").words
    assert "GpuLost=True (Xid79)" in node_sight(seen(sick), "").words


def test_a_node_that_is_gone_is_out_and_one_that_cannot_be_seen_is_not_known() -> None:
    """Nothing seen is no verdict."""
    assert node_sight(Item("watch/x", 1, "not_found"), "").out is True
    assert node_sight(Item("watch/x", 1, "timed_out", why="no answer"), "").out is None


@pytest.mark.parametrize(
    ("message", "lets_in"),
    [
        ("0/2 nodes are available: 1 Insufficient gpuassay/nothing, 1 node(s) didn't match …", True),
        ("0/2 nodes are available: 1 node(s) were unschedulable, 1 node(s) didn't match …", False),
        (
            "0/2 nodes are available: 1 node(s) had untolerated taint {sick: }, 1 node(s) didn't match …",
            False,
        ),
        ("0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.", False),
        ("skip schedule deleting pod", None),
    ],
)
def test_canary(message: str, lets_in: bool | None) -> None:  # noqa: FBT001 - a case
    """Only what the pod can never have is missing: it would have been let in."""
    assert canary_sight(seen({"message": message}), "").lets_in is lets_in


def test_fleet_and_events() -> None:
    """Nodes in service are named; an event is told, and nobody is notified by it."""
    nodes = [
        node(),
        node("gpu2", unschedulable=True),
        node("gpu3", taints=[{"key": "a", "effect": "NoExecute"}]),
    ]
    assert fleet_sight(seen({"items": nodes}), "").in_service == frozenset({"gpu1"})
    event = {"reason": "NodeNotReady", "message": "it is", "source": {"component": "node-controller"}}
    sight = event_sight(seen({"items": [event]}), "")
    assert sight.words == "node-controller says NodeNotReady: it is"
    assert sight.notified is None
