"""What a Kubernetes cluster offers and allows, from answers made up for one question each, and from any."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuassay.evidence.item import Item
from gpuassay.facts.kube_cluster import KubeCluster
from gpuassay.facts.kube_sight import KubeSight
from gpuassay.facts.node import Node
from gpuassay.facts.seats import Seats
from gpuassay.judge.fact import Read, Unread
from kubeapi import cluster
from kubeapi.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpuassay.judge.fact import Fact, Subject

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
KINDS = (
    *("version", "groups", "access", "nodes", "pods", "namespaces", "daemonsets", "deployments", "services"),
    *("storageclasses", "ingressclasses", "networkpolicies", "metrics", "resourceslices", "resourceclaims"),
    *("roles", "clusterroles", "rolebindings", "clusterrolebindings"),
)


class Evidence:
    """What was asked of a cluster: documents by kind, and refusals."""

    problems: tuple[str, ...] = ()

    def __init__(self, documents: Mapping[str, bytes], denied: tuple[str, ...] = ()) -> None:
        self._items = {
            kind: Item(f"kubernetes/{kind}", 1, asked={"api": f"/apis/resource.k8s.io/v1/{kind}"}, out=out)
            for kind, out in documents.items()
        }
        for kind in denied:
            self._items[kind] = Item(f"kubernetes/{kind}", 1, status="denied", why="not allowed (403)")

    def item(self, item_id: str, /) -> Item | None:
        """Give an item."""
        return self._items.get(item_id.partition("/")[2])

    def ref(self, item: Item, /) -> str:
        """Name it."""
        return f"cluster#{item.seq}"


def evidence(*denied: str, **lists: Any) -> Evidence:
    """Give lists of objects; ``groups`` and ``access`` are documents of their own."""
    documents = {
        kind: json.dumps(value if isinstance(value, dict) else {"items": value}).encode()
        for kind, value in lists.items()
    }
    return Evidence(documents, denied)


def groups(*names: str) -> dict[str, Any]:
    """Give the groups of an API."""
    return {"groups": [{"name": name} for name in names]}


def value(fact: Fact[Any]) -> Any:
    """Take what was read; the kind of what was not."""
    return fact.value if isinstance(fact, Read) else fact.kind


def sight(evidence: Evidence, name: str = "gpu1") -> KubeSight:
    """Give what Kubernetes has of a node that shows nothing itself."""
    return KubeSight(Seats(evidence), Node(name, None))


def test_parts_of_a_gpu_are_counted_as_they_are_offered() -> None:
    """MIG instances are no GPUs: they are compared with the node's own capacity, and nothing is invented."""
    node = cluster.node("gpu1")
    node["status"]["capacity"] = {"nvidia.com/gpu": "0", "nvidia.com/mig-1g.23gb": "56"}
    node["status"]["allocatable"] = {"nvidia.com/gpu": "0", "nvidia.com/mig-1g.23gb": "55"}
    seen = sight(evidence(nodes=[node]))
    assert value(seen.offered_by) == "device plugin"
    assert value(seen.missing) == 1
    assert value(seen.invented) == "denied"


@pytest.mark.parametrize(
    ("capacity", "missing", "beyond"),
    [("8", 0, 0), ("4", 0, 4), ("80", 72, 0), ("-8", "garbled", "garbled"), ("9" * 12, "garbled", "garbled")],
)
def test_a_capacity_that_cannot_be(capacity: str, missing: object, beyond: object) -> None:
    """Beside a right allocatable, one below it and one far above it fail; what is no count is none."""
    node = cluster.node("gpu1", 8)
    node["status"]["capacity"]["nvidia.com/gpu"] = capacity
    seen = sight(evidence(nodes=[node]))
    assert (value(seen.missing), value(seen.beyond_capacity)) == (missing, beyond)


def test_devices_of_resource_slices_are_an_offer() -> None:
    """Dynamic resource allocation needs no resource in the node's own list, for GPUs and for ports."""
    store = Store()
    cluster.slices(store, "gpu1", 8)
    cluster.slices(store, "gpu1", 8, driver="dra.net")
    seen = sight(evidence(nodes=[cluster.node("gpu1")], resourceslices=store.select("resourceslices")))
    assert value(seen.offered_by) == "dynamic resource allocation"
    assert value(seen.missing) == 0
    assert value(seen.rdma) is True


def test_channels_of_a_rack() -> None:
    """A slice of the driver is an offer, a server that has no such API has none, and a refusal hides it."""
    store = Store()
    cluster.slices(store, "gpu1", 1, driver="compute-domain.nvidia.com")
    nodes = [cluster.node("gpu1", 4), cluster.node("gpu2", 4)]
    told = evidence(nodes=nodes, resourceslices=store.select("resourceslices"))
    assert value(sight(told).nvlink_channels) is True
    assert value(sight(told, "gpu2").nvlink_channels) is False
    assert value(sight(evidence("resourceslices", nodes=nodes)).nvlink_channels) == "denied"
    assert value(sight(evidence("nodes")).nvlink_channels) == "denied"


def test_a_resource_that_is_used_up_is_no_offer() -> None:
    """A plugin that has lost its ports leaves the resource's name behind, with nothing of it."""
    node = cluster.node("gpu1", 8)
    node["status"]["allocatable"]["rdma/shared"] = "0"
    rdma = sight(evidence(nodes=[node])).rdma
    assert value(rdma) is False
    assert isinstance(rdma, Read)
    assert "rdma/shared, and none of it can be given" in rdma.note


def test_nodes_that_may_not_be_listed() -> None:
    """Everything that rests on them is unseen."""
    found = KubeCluster(evidence("nodes", metrics=[]), NOON)
    (worker,) = found.workers
    facts = (worker.ready, worker.heartbeat_age, worker.troubles, worker.watched, found.virtual_signs)
    assert {value(fact) for fact in facts} == {"denied"}
    assert value(found.unmeasured) == "denied"
    assert value(sight(evidence("nodes")).missing) == "denied"


@pytest.mark.parametrize(
    ("held", "scattered"),
    [({"a": 1, "b": 1}, 1), ({"a": 4, "b": 5}, 0), ({"a": 8, "b": 1}, 0), ({"a": 2, "b": 3, "c": 3}, 2)],
)
def test_pods_that_would_fit_together(held: dict[str, int], scattered: int) -> None:
    """Only nodes beyond those that the same pods need are counted."""
    nodes = [cluster.node(name, 8) for name in "abc"]
    pods = [cluster.holder(f"pod-{name}", name, gpus) for name, gpus in held.items()]
    assert value(KubeCluster(evidence(nodes=nodes, pods=pods), NOON).scattered) == scattered


def test_an_empty_cluster_shows_nothing_of_its_packing() -> None:
    """Unless its scheduler always packs, which of those in question KAI Scheduler does."""
    idle = {"nodes": [cluster.node("a", 8)], "pods": []}
    assert value(KubeCluster(evidence(**idle, groups=groups("apps")), NOON).scattered) == "denied"
    assert value(KubeCluster(evidence(**idle, groups=groups("kai.scheduler")), NOON).scattered) == 0
    assert value(KubeCluster(evidence("pods", nodes=idle["nodes"]), NOON).scattered) == "denied"


def test_a_role_counts_where_it_is_given() -> None:
    """A Role of another namespace with the same name is another; resources named one by one are no power."""
    power = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
    roles = [
        {"metadata": {"name": "view", "namespace": "a"}, "rules": [{**power, "resourceNames": 1}]},
        {"metadata": {"name": "view", "namespace": "b"}, "rules": [power]},
    ]
    bindings = [
        {
            "metadata": {"name": f"all-{space}", "namespace": space},
            "roleRef": {"kind": "Role", "name": "view"},
            "subjects": [{"kind": "Group", "name": "system:authenticated"}],
        }
        for space in ("a", "b")
    ]
    lists: dict[str, list[Any]] = {"clusterroles": [], "clusterrolebindings": []}
    grants = KubeCluster(evidence(roles=roles, rolebindings=bindings, **lists), NOON).grants
    assert value(grants.to_everybody) == 1
    assert isinstance(grants.to_everybody, Read)
    assert grants.to_everybody.note == "b/all-b (view)"
    assert value(grants.to_anybody) == 0
    assert value(KubeCluster(evidence("clusterroles", roles=roles), NOON).grants.to_anybody) == "denied"


@pytest.mark.parametrize(
    ("spec", "denies"),
    [
        ({"podSelector": {}, "policyTypes": ["Ingress"]}, True),
        ({"podSelector": {}}, True),
        ({"podSelector": {}, "policyTypes": ["Egress"]}, False),
        ({"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{}]}, False),
        ({"podSelector": {"narrower": True}, "policyTypes": ["Ingress"]}, False),
        ({}, False),
    ],
)
def test_what_a_default_deny_is(spec: dict[str, Any], denies: bool) -> None:  # noqa: FBT001
    """It selects all pods and lets nothing in; one in another namespace does not help."""
    access = {"namespace": "tenant", "items": []}
    policy = {"metadata": {"name": "p", "namespace": "tenant"}, "spec": spec}
    other = {"metadata": {"name": "p", "namespace": "other"}, "spec": {"podSelector": {}}}
    found = KubeCluster(evidence(access=access, networkpolicies=[policy, other]), NOON)
    assert value(found.policies.default_deny) is denies


def test_what_metrics_that_do_not_answer_are() -> None:
    """An API that is not there, or that gives no use, leaves all workers unmeasured."""
    nodes = [cluster.node("a"), cluster.node("b")]
    blank = [{"metadata": {"name": "a"}, "usage": {"cpu": "1"}}, {"metadata": {"name": "b"}}]
    assert value(KubeCluster(evidence(nodes=nodes, metrics=blank), NOON).unmeasured) == 1
    absent = evidence(nodes=nodes)
    absent._items["metrics"] = Item("kubernetes/metrics", 1, status="not_found", why="404")  # noqa: SLF001
    assert value(KubeCluster(absent, NOON).unmeasured) == 2
    silent = evidence()
    for kind in ("nodes", "metrics"):
        silent._items[kind] = Item(f"kubernetes/{kind}", 1, status="timed_out", why="10 s")  # noqa: SLF001
    assert value(KubeCluster(silent, NOON).unmeasured) == "timed_out"


def test_workloads_are_known_by_their_names() -> None:
    """An operator's, in any namespace, and no tenant's; a Deployment of no ready pod says nothing of it."""
    names = ("nvidia-device-plugin-daemonset", "node-problem-detector", "train-nvidia-demo", "web")
    sets = [{"metadata": {"name": name, "namespace": "x"}, "status": {}} for name in names]
    made = {"metadata": {"name": "kueue-controller-manager", "namespace": "k"}, "spec": {"replicas": 2}}
    found = KubeCluster(evidence(daemonsets=sets, deployments=[made]), NOON).operators
    assert [one.where for one in found] == [
        "daemonset x/nvidia-device-plugin-daemonset",
        "daemonset x/node-problem-detector",
        "deployment k/kueue-controller-manager",
    ]
    assert value(found[2].unready) == 2


def test_operators_that_share_a_group_of_the_api_are_told_apart() -> None:
    """By what each defines; where that may not be read, neither is known to be there."""
    served = groups("amd.com", "apps")
    one = evidence(groups=served, customresourcedefinitions=[{"metadata": {"name": "deviceconfigs.amd.com"}}])
    found = KubeCluster(one, NOON)
    assert (value(found.gpu_operator), value(found.network_operator)) == (True, False)
    hidden = KubeCluster(evidence("customresourcedefinitions", groups=served), NOON)
    assert (value(hidden.gpu_operator), value(hidden.network_operator)) == ("denied", "denied")
    assert value(KubeCluster(evidence(groups=groups("nvidia.com", "amd.com")), NOON).gpu_operator) is True


def test_what_runs_where_an_operator_is_at_home_is_the_operators() -> None:
    """AMD's operators name what they start after an object of the user's, so that its name tells nothing."""
    places = ("kube-amd-network", "kube-amd-gpu", "tenant")
    sets = [{"metadata": {"name": "own-metrics-exporter", "namespace": place}} for place in places]
    found = KubeCluster(evidence(daemonsets=sets, deployments=[]), NOON).operators
    assert [one.where for one in found] == [f"daemonset {place}/own-metrics-exporter" for place in places[:2]]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["items", "groups", "metadata", "name", "namespace", "labels", "spec", "status", "conditions",
             "type", "capacity", "allocatable", "nvidia.com/gpu", "roleRef", "subjects", "rules", "verbs",
             "resources", "verb", "resource", "allowed", "podSelector", "gitVersion", "nodeInfo", "usage"]
        ),
        inner,
        max_size=5,
    ),
    max_leaves=30,
)  # fmt: skip


def facts(subject: object) -> Iterator[object]:
    """Give all facts of a subject."""
    for name in dir(type(subject)):
        if isinstance(getattr(type(subject), name), property) and not name.startswith("_"):
            yield getattr(subject, name)


@given(items=JSON, document=JSON)
def test_any_answer(items: object, document: object) -> None:
    """Whatever a server may have answered, every fact is a value or a reason, and never an exception."""
    out = json.dumps({"items": items}).encode()
    whole = json.dumps(document).encode()
    documents = dict.fromkeys(KINDS, out) | dict.fromkeys(("version", "groups", "access"), whole)
    found = KubeCluster(Evidence(documents), NOON)
    acts = (*found.access.own, *found.access.more, *found.access.beyond)
    parts: tuple[Subject, ...] = (
        found,
        found.policies,
        *found.workers,
        *found.operators,
        *found.balanced,
        *acts,
    )
    for part in parts:
        assert isinstance(part.where, str)
        assert all(isinstance(fact, Read | Unread | tuple | str) for fact in facts(part))
    grants = found.grants
    seen = sight(Evidence(documents))
    for fact in (*facts(grants), *facts(seen)):
        assert isinstance(fact, Read | Unread)
