"""Slurm and Kubernetes on the same machines: which node is which, who is out, whether both agree."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.evidence.item import Item
from gpuassay.facts.seats import Seats
from gpuassay.judge.fact import Read, Unread
from kubeapi import cluster

if TYPE_CHECKING:
    from gpuassay.evidence.item import Status


class Evidence:
    """What was asked of a cluster."""

    problems: tuple[str, ...] = ()

    def __init__(self, *items: Item) -> None:
        self._items = {item.id: item for item in items}

    def item(self, item_id: str, /) -> Item | None:
        """Give an item."""
        return self._items.get(item_id)

    def ref(self, item: Item, /) -> str:
        """Name it."""
        return f"cluster#{item.seq}"


def slurm(**states: str) -> Item:
    """Say what Slurm says."""
    shown = "\n\n".join(f"NodeName={name} State={state}\n   Reason=fan" for name, state in states.items())
    return Item("slurm/nodes", 1, out=shown.encode())


def listed(kind: str, *items: Any, status: Status = "ok") -> Item:
    """Say what the API server lists."""
    out = json.dumps({"items": items}).encode()
    return Item(f"kubernetes/{kind}", 2, status, out=out if status == "ok" else b"", why="not allowed")


def carrier(name: str, on: str, hostname: str = "") -> Any:
    """Make the pod that is a node of Slurm."""
    pod = cluster.holder(name, on, 8)
    return pod | {"spec": pod["spec"] | ({"hostname": hostname} if hostname else {})}


METAL = [
    cluster.node("metal1"),
    cluster.cordoned("metal2"),
    cluster.cordoned("metal3"),
    cluster.not_ready("metal4"),
]
PODS = [carrier(f"worker-{n}", f"metal{n}") for n in range(1, 4)]
PODS += [carrier("slurmd-x", "metal4", "worker-4")]


def both(**states: str) -> Seats:
    """Give four nodes of Slurm on four of Kubernetes."""
    return Seats(Evidence(slurm(**states), listed("nodes", *METAL), listed("pods", *PODS)))


IDLE = {"worker-1": "IDLE", "worker-2": "IDLE", "worker-3": "IDLE+DRAIN", "worker-4": "DOWN*"}


def test_slurm_nodes_are_found_on_their_machines() -> None:
    """By the pod's host name or its own; a Node of the name itself comes first."""
    seats = both(**IDLE)
    hosts = [seats.host(name) for name in IDLE]
    assert [host.value.name for host in hosts if isinstance(host, Read)] == [f"metal{n}" for n in range(1, 5)]
    same = seats.host("metal2")
    assert isinstance(same, Read)
    assert same.value.name == "metal2"


def test_nodes_that_cannot_be_told_apart() -> None:
    """Two Nodes with a pod of one name, or none: the name is said, and nothing is guessed."""
    twice = Seats(Evidence(listed("nodes", *METAL), listed("pods", *PODS, carrier("worker-1", "metal2"))))
    assert twice.host("worker-1") == Unread("not_found", "2 Nodes have a pod called worker-1", "cluster#2")
    gone = twice.host("worker-9")
    assert gone == Unread("not_found", "no Node is, and no pod on one is called worker-9", "cluster#2")


def test_agreement() -> None:
    """Both hold a node back, or neither does; else the words of both stand in the row."""
    found = {one.where: one.agree for one in both(**IDLE).agreements([*IDLE, "other"])}
    facts = {name: fact.value for name, fact in found.items() if isinstance(fact, Read)}
    assert facts == {"worker-1": True, "worker-2": False, "worker-3": True, "worker-4": True}
    apart = found["worker-2"]
    assert isinstance(apart, Read)
    assert apart.note == "Slurm says IDLE: fan; of metal2 Kubernetes says cordoned since 2026-11-30T09:00:00Z"


@pytest.mark.parametrize("denied", ["nodes", "pods"])
def test_what_was_denied_is_no_agreement(denied: str) -> None:
    """A list that this user may not see leaves it unseen."""
    lists = {"nodes": METAL, "pods": PODS}
    items = [
        listed(kind, *items, status="denied" if kind == denied else "ok") for kind, items in lists.items()
    ]
    (found,) = Seats(Evidence(slurm(**{"worker-1": "IDLE"}), *items)).agreements(["worker-1"])
    assert isinstance(found.agree, Unread)
    assert found.agree.kind == "denied"


def test_who_is_out_of_service() -> None:
    """Slurm's word counts for its nodes, with that of Kubernetes beside it; a cordon for all others."""
    seats = both(**IDLE)
    cordon = "cordoned since 2026-11-30T09:00:00Z"
    assert seats.out_of_service(frozenset(IDLE)) == {
        "worker-3": ("Slurm", f"Slurm says IDLE+DRAIN: fan; Kubernetes says {cordon}")
    }
    assert seats.out_of_service(frozenset({"metal1", "metal2", "metal4"})) == {
        "metal2": ("Kubernetes", f"Kubernetes says {cordon}")
    }


def test_which_scheduler_has_a_node() -> None:
    """Only what was asked can say so, and what could not be read is no answer."""
    seats = both(**IDLE)
    assert {need: fact.value for need, fact in seats.has("worker-1").items() if isinstance(fact, Read)} == {
        "slurm": True,
        "kubernetes": True,
        "standalone": False,
    }
    other = seats.has("other")
    assert [fact.value for fact in other.values() if isinstance(fact, Read)] == [False] * 3
    none = Seats(Evidence()).has("worker-1")
    assert none["slurm"] == Read(value=False, note="the cluster was not asked through Slurm")
    assert none["kubernetes"] == Read(value=False, note="the cluster was not asked through Kubernetes")
    denied = Seats(Evidence(listed("nodes", status="denied"))).has("worker-1")["kubernetes"]
    assert isinstance(denied, Unread)


@pytest.mark.parametrize("target", ["slurm", "kubernetes", "slurm,kubernetes"])
def test_what_was_asked_and_lost_is_no_sign_that_there_is_none(target: str) -> None:
    """A recording whose words of the cluster are gone still says through what it was taken."""
    lost = Seats(Evidence(), target).has("worker-1")
    assert {need for need, fact in lost.items() if isinstance(fact, Unread)} == set(target.split(","))


def test_ssh_leads_on_where_users_have_a_shell_on_several_nodes() -> None:
    """Slurm's nodes and those asked by ssh, if they are more than one; a node alone has nowhere to go."""

    def hosts(*names: str) -> Item:
        return Item("ssh/hosts", 1, out=json.dumps({name: name for name in names}).encode())

    def told(name: str, *items: Item) -> object:
        fact = Seats(Evidence(*items)).has_ssh_peers(name)
        return fact.value if isinstance(fact, Read) else fact.kind

    assert told("n1", hosts("n1", "n2")) is True
    assert told("n1", hosts("n1")) is False
    assert told("n1", slurm(n1="IDLE", n2="IDLE")) is True
    assert told("n1", slurm(n1="IDLE")) is False
    assert told("n3", slurm(n1="IDLE", n2="IDLE")) is False
    assert told("n1") is False
    assert told("n1", Item("slurm/nodes", 1, "denied", why="no")) == "denied"
