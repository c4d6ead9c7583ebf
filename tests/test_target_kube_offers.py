"""What is asked of a cluster about its offers and its rules, and what of it is written down."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.target.kube_reviews import acts
from kubeapi import answers, cluster
from kubeapi.rig import Start, clusters, gather, target

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kubeapi.rig import Notebook
    from kubeapi.server import ApiServer


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start clusters."""
    with clusters(tmp_path) as start:
        yield start


def asked(server: ApiServer, folder: Path) -> Notebook:
    """Ask the cluster, and no node."""
    return gather(target(server, folder, image=""))


def listed(told: Notebook, kind: str) -> Any:
    """Give the objects of a kind, as they were written down."""
    return json.loads(told.cluster[f"kubernetes/{kind}"].out)["items"]


def test_rules_are_kept_and_people_are_not(start: Start, tmp_path: Path) -> None:
    """Of whom a role is given to, only names that Kubernetes itself gives; of a rule, no object's name."""
    server = start(cluster.node("gpu1", 8))
    subjects = [{"kind": "Group", "name": "system:authenticated"}, {"kind": "User", "name": "SECRET-user"}]
    rule = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["SECRET-name"]}
    server.store.put("clusterroles", {"metadata": {"name": "open"}, "rules": [rule]})
    binding = {"roleRef": {"kind": "ClusterRole", "name": "open"}, "subjects": subjects}
    server.store.put("clusterrolebindings", {"metadata": {"name": "open"}, **binding})
    told = asked(server, tmp_path)
    assert "SECRET" not in b"".join(item.out for item in told.cluster.values()).decode()
    (kept,) = listed(told, "clusterrolebindings")
    assert kept["subjects"] == [
        {"kind": "Group", "name": "system:authenticated"},
        {"kind": "User", "name": ""},
    ]
    assert listed(told, "clusterroles")[0]["rules"] == [{**rule, "resourceNames": 1}]


def test_policies_are_kept_and_what_they_select_is_not(start: Start, tmp_path: Path) -> None:
    """Whether a policy selects all pods, and how many rules it has: what a default-deny is known by."""
    server = start(cluster.node("gpu1", 8))
    deny = {"podSelector": {}, "policyTypes": ["Ingress"]}
    narrow = {
        "podSelector": {"matchLabels": {"app": "SECRET"}},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}],
    }
    for name, spec in (("a-deny", deny), ("narrow", narrow)):
        server.store.put("networkpolicies", {"metadata": {"name": name, "namespace": "tenant"}, "spec": spec})
    first, second = listed(asked(server, tmp_path), "networkpolicies")
    assert first["spec"] == deny
    assert second["spec"] == {"podSelector": {"narrower": True}, "policyTypes": ["Ingress"], "ingress": [{}]}


def test_what_the_user_may_do(start: Start, tmp_path: Path) -> None:
    """Each act is asked of the server, in the namespace that the site file names; none of them is done."""
    server = start(cluster.node("gpu1", 8))
    server.allows = lambda verb, resource, place: (verb, resource, place) == ("create", "pods", "audit")
    told = gather(target(server, tmp_path, "gpu1", image="", namespace="audit"))
    document = json.loads(told.cluster["kubernetes/access"].out)
    assert document["namespace"] == "audit"
    assert len(document["items"]) == len(list(acts("audit")))
    allowed = [
        (one["verb"], one["resource"], one["namespace"]) for one in document["items"] if one["allowed"]
    ]
    assert allowed == [("create", "pods", "audit")]
    assert told.cluster["kubernetes/roles"].status == "denied"
    assert server.store.ours() == []


def test_kubelets_are_asked_only_by_who_may(start: Start, tmp_path: Path) -> None:
    """Of how each is set up the policies are kept, and nothing else; without the right, none is asked."""
    server = start(cluster.node("gpu1", 8), cluster.not_ready("gpu2"))
    told = asked(server, tmp_path)
    assert listed(told, "kubelets") == [
        {"metadata": {"name": name}, "kubeletconfig": {"cpuManagerPolicy": "none"}}
        for name in ("gpu1", "gpu2")
    ]
    server.allows = lambda _verb, resource, _place: resource != "nodes/proxy"
    server.requests.clear()
    denied = asked(server, tmp_path).cluster["kubernetes/kubelets"]
    assert (denied.status, denied.why) == ("denied", "this user may not get nodes/proxy")
    assert not any("proxy" in path for _, path, _ in server.requests)


def test_a_kubelet_that_does_not_answer(start: Start, tmp_path: Path) -> None:
    """It is said of its node, and the others' answers stay."""
    server = start(cluster.node("gpu1", 8), cluster.node("gpu2", 8))
    server.faults.append(lambda _verb, path: answers.missing("nodes", "x") if "gpu2/proxy" in path else None)
    first, second = listed(asked(server, tmp_path), "kubelets")
    assert first["kubeletconfig"] == {"cpuManagerPolicy": "none"}
    assert second["kubeletconfig"]["unread"] == "not_found"
