"""The bridge reset behind a real Xid 79: what it writes, and all that it refuses. It has met no hardware."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.fault.node import bridge_reset
from gpuassay.fault.node.bridge_reset import BridgeReset
from gpuassay.fault.node.words import Blocked, NotRestored, Refused
from nodefault import GPU, MARK, OTHER, FakeNode, broken

if TYPE_CHECKING:
    from pathlib import Path

BRIDGE = "0000:15:01.0"
_FALLEN = f"NVRM: Xid (PCI:{GPU[:-2]}): 79, GPU has fallen off the bus."
# The driver: when it reads a GPU whose bus is held in reset it says so, and knows that GPU no more.
_DRIVER = f"""
registers="$ROOT/sys/bus/pci/devices/{BRIDGE}/config"
control=$(od -An -tu1 -j62 -N1 "$registers")
echo "$control" >> "$ROOT/controls"
if [ $((control & 64)) != 0 ]; then
    echo "4,9,1,-;$(cat "$ROOT/says")" >> "$ROOT/dev/kmsg"; touch "$ROOT/lost"
fi
[ ! -e "$ROOT/lost" ] && echo GPU-1234 || exit 6
"""


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNode:
    """Give a node whose driver loses a GPU that is read while its bus is held in reset."""
    monkeypatch.setattr(bridge_reset, "_HOLD_S", 1.0)
    monkeypatch.setattr(bridge_reset, "_SETTLE_S", 0.0)
    node = FakeNode(tmp_path, monkeypatch).with_gpus()
    node.tool("nvidia-smi", _DRIVER)
    node.write("says", _FALLEN)
    return node


def fault(node: FakeNode, **args: Any) -> BridgeReset:
    """Make the fault on a node."""
    return BridgeReset({"mark": MARK, **args}, str(node.root))


def control(node: FakeNode, bridge: str = BRIDGE) -> int:
    """Read the low byte of Bridge Control."""
    return (node.root / f"sys/bus/pci/devices/{bridge}/config").read_bytes()[0x3E]


def preset(node: FakeNode, value: int) -> None:
    """Set the low byte of Bridge Control."""
    config = node.root / f"sys/bus/pci/devices/{BRIDGE}/config"
    registers = bytearray(config.read_bytes())
    registers[0x3E] = value
    config.write_bytes(bytes(registers))


def test_the_bus_is_held_while_the_gpu_is_read(node: FakeNode) -> None:
    """Bit 6 is set while the driver reads and no longer, other bits stay, and the proof is the driver's."""
    preset(node, 0x13)
    ours = fault(node)
    state = broken(ours)
    assert node.read("controls").split() == [str(0x13 | 0x40)]
    assert control(node) == 0x13
    assert control(node, "0000:15:02.0") == 0
    assert _FALLEN in ours.verify_injected(state)


def test_the_plan_says_that_there_is_no_undo(node: FakeNode) -> None:
    """Who reads the plan knows the exact writes, and that only a restart brings the GPU back."""
    plan = fault(node).plan()
    assert plan.undoes == ()
    assert f"setpci -s {BRIDGE} BRIDGE_CONTROL=40:40" in plan.does[0]
    assert "there is no undo" in plan.warns[0]
    assert not (node.root / "controls").exists()


def test_a_lost_gpu_is_not_restored(node: FakeNode) -> None:
    """Undoing only lets go of the bus; the GPU is lost until the node is restarted, and it says so."""
    ours = fault(node)
    state = broken(ours)
    preset(node, 0x40)
    ours.undo(state)
    assert control(node) == 0
    with pytest.raises(NotRestored, match="lost until the node is restarted"):
        ours.verify_undone(state)
    (node.root / "lost").unlink()  # somebody has restarted it
    assert "GPU-1234" in ours.verify_undone(state)


def test_another_fault_is_blocked_and_named(node: FakeNode) -> None:
    """Where the driver says something else, or nothing, it was no Xid 79; the bus is let go all the same."""
    other = f"NVRM: Xid (PCI:{GPU[:-2]}): 119, Timeout after 6s of waiting for RPC response"
    node.write("says", other)
    with pytest.raises(Blocked, match=r"no Xid 79 came of it: NVRM: Xid .*119"):
        broken(fault(node))
    node.tool("nvidia-smi", "exit 0")
    with pytest.raises(Blocked, match="the driver said nothing"):
        broken(fault(node))
    assert control(node) == 0


def test_a_line_that_a_program_wrote_is_no_proof(node: FakeNode) -> None:
    """Only the kernel's own record proves that the driver lost the GPU."""
    node.tool("nvidia-smi", f'echo "12,9,1,-;{_FALLEN}" >> "$ROOT/dev/kmsg"')
    with pytest.raises(Blocked, match="the driver said nothing"):
        broken(fault(node))


@pytest.mark.parametrize(
    ("kind", "what"), [("nic", "class 0x0200"), ("gpu", "class 0x0302"), ("bridge", "class 0x0604")]
)
def test_a_shared_bridge_is_refused(node: FakeNode, kind: str, what: str) -> None:
    """Whatever else hangs below the bridge, at any depth, would be reset too: it is named, and none is."""
    node.device(f"{BRIDGE}/0000:19:00.0", kind)
    with pytest.raises(Refused, match=rf"would reset more than GPU {GPU}: 0000:19:00.0 \({what}\)"):
        fault(node).plan()


def test_functions_of_the_same_gpu_may_share_it(node: FakeNode) -> None:
    """The sound function of the same card is the same card."""
    node.device(f"{BRIDGE}/{GPU[:-1]}1", "audio")
    assert fault(node).plan().state["bridge"] == BRIDGE


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"proc/cpuinfo": "flags\t: fpu hypervisor lm\n"}, "virtual machine"),
        ({"sys/class/dmi/id/sys_vendor": "QEMU\n"}, r"virtual machine \(QEMU\)"),
        ({"proc/cpuinfo": "CPU implementer\t: 0x41\nCPU part\t: 0xd4f\n"}, "grace = true allows it"),
    ],
)
def test_machines_that_are_refused(node: FakeNode, files: dict[str, str], why: str) -> None:
    """In a virtual machine the host owns the bridge, and on Grace nobody knows what it does."""
    for path, text in files.items():
        node.write(path, text)
    with pytest.raises(Refused, match=why):
        fault(node).plan()


def test_grace_needs_its_own_word(node: FakeNode) -> None:
    """With ``grace = true`` an Arm machine is planned for as any other."""
    node.write("proc/cpuinfo", "CPU implementer\t: 0x41\nCPU part\t: 0xd4f\n")
    assert fault(node, grace=True).plan().state["gpu"] == GPU


def test_addresses_that_are_refused(node: FakeNode) -> None:
    """An address that is no GPU of this node, and a GPU that hangs on no bridge, are not guessed at."""
    with pytest.raises(Refused, match=r"no GPU of this node is at 0000:99:00\.0"):
        fault(node, address="0000:99:00.0").plan()
    node.device("0000:01:00.0", "gpu")
    with pytest.raises(Refused, match="hangs on no bridge"):
        fault(node, address="0000:01:00.0").plan()
    assert fault(node, address=OTHER.upper()).plan().state["bridge"] == "0000:15:02.0"


def test_a_bus_that_is_held_already_is_refused(node: FakeNode) -> None:
    """Somebody else is at work there."""
    preset(node, 0x40)
    with pytest.raises(Refused, match="holds its bus in reset already"):
        fault(node).plan()
