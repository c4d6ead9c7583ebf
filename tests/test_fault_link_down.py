"""A port of the fabric that is taken down: which one may be, and that it comes up again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.fault.node import link_down
from gpuassay.fault.node.link_down import LinkDown
from gpuassay.fault.node.words import Blocked, NotRestored, Refused
from nodefault import MARK, FakeNode, broken

if TYPE_CHECKING:
    from pathlib import Path

# ip(8): link set dev NAME up|down, unless the port is broken.
_IP = """
echo "$*" >> "$ROOT/asked"
[ -e "$ROOT/broken" ] && exit 0
[ "$5" = up ] && flags=0x1003 state=up || { flags=0x1002; state=down; }
echo "$flags" > "$ROOT/sys/class/net/$4/flags"; echo "$state" > "$ROOT/sys/class/net/$4/operstate"
"""


def port(node: FakeNode, name: str, *, rdma: bool = True, state: str = "up") -> None:
    """Give the node a network interface."""
    node.write(f"sys/class/net/{name}/flags", "0x1003\n")
    node.write(f"sys/class/net/{name}/operstate", f"{state}\n")
    if rdma:
        node.write(f"sys/class/net/{name}/device/infiniband/mlx5_0/node_type", "1: CA\n")


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNode:
    """Give a node with ports of every kind, of which only ``rail1`` may be taken down."""
    monkeypatch.setattr(link_down, "_TRAIN_S", 0.2)
    node = FakeNode(tmp_path, monkeypatch)
    node.tool("ip", _IP)
    node.write(
        "proc/net/route", "Iface\tDestination\tGateway\nfront0\t00000000\t0100000A\nrail1\t0000A8C0\t0\n"
    )
    zeros = "0" * 32
    node.write("proc/net/ipv6_route", f"{zeros} 00 {zeros} 00 {zeros} 1 1 0 3 front6\n")
    port(node, "eth0", rdma=False)
    port(node, "front0")
    port(node, "front6")
    port(node, "rail0", state="down")
    port(node, "bonded0")
    node.write("sys/class/net/bonded0/master/flags", "0x1003\n")
    port(node, "rail1")
    return node


def fault(node: FakeNode, **args: Any) -> LinkDown:
    """Make the fault on a node."""
    return LinkDown({"mark": MARK, **args}, str(node.root))


def test_a_port_goes_down_and_up(node: FakeNode) -> None:
    """The one port by which nobody reaches the node is taken down, and brought up again."""
    ours = fault(node)
    state = broken(ours)
    assert ours.verify_injected(state) == "rail1 is down"
    ours.undo(state)
    ours.undo(state)
    assert ours.verify_undone(state) == "rail1 is up"
    assert node.read("asked").splitlines() == [
        "link set dev rail1 down",
        "link set dev rail1 up",
        "link set dev rail1 up",
    ]


@pytest.mark.parametrize(
    ("nic", "why"),
    [
        ("none0", "no such interface"),
        ("eth0", "no port of an RDMA device"),
        ("front0", "has a default route"),
        ("front6", "has a default route"),
        ("rail0", "is not up"),
        ("bonded0", "part of a bond"),
    ],
)
def test_ports_that_are_refused(node: FakeNode, nic: str, why: str) -> None:
    """A port that is named must be one that may be taken down, and nothing is asked of it before."""
    with pytest.raises(Refused, match=why):
        fault(node, nic=nic).plan()
    assert not (node.root / "asked").exists()


def test_a_port_that_does_not_obey(node: FakeNode) -> None:
    """One that stays up blocks; one that stays down is not restored."""
    ours = fault(node)
    state = ours.plan().state
    node.write("broken", "")
    with pytest.raises(Blocked, match="is up, or up again"):
        broken(ours)
    node.write("sys/class/net/rail1/flags", "0x1002\n")
    node.write("sys/class/net/rail1/operstate", "down\n")
    ours.undo(state)
    with pytest.raises(NotRestored, match="rail1 does not come up: it is down"):
        ours.verify_undone(state)
