"""Lines that tell of a fault: what gets into the kernel log, what is refused, what later audits say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.facts.kernel_log import read
from gpuassay.fault.node import kernel_log
from gpuassay.fault.node.kernel_log import KernelLog
from gpuassay.fault.node.words import Blocked, Refused
from gpuassay.judge.fact import Read
from kernel_log_evidence import BOOT, Node, kmsg
from nodefault import MARK, FakeNode, broken

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNode:
    """Give a node with two GPUs and an NVSwitch, whose kernel takes lines as fast as they come."""
    monkeypatch.setattr(kernel_log, "_PACE_S", 0.0)
    monkeypatch.setattr(kernel_log, "_PATIENCE_S", 0.1)
    return FakeNode(tmp_path, monkeypatch).with_gpus()


def fault(node: FakeNode, **args: Any) -> KernelLog:
    """Make the fault on a node."""
    return KernelLog({"mark": MARK, **args}, str(node.root))


def test_both_forms_are_written_and_marked(node: FakeNode) -> None:
    """A number is written as the driver does and behind ``kernel:``, with a GPU of the node and our mark."""
    broken(fault(node, xids="48 95"))
    lines = node.read("dev/kmsg").splitlines()[1:]
    forms = [re.sub(r"pid=\d+", "pid=N", line) for line in lines]
    assert forms == [
        f"<4>{form}NVRM: Xid (PCI:0000:18:00): {number}, pid=N, name=gpuassay-{MARK}, {words}"
        for number, words in (
            (48, "An uncorrectable double bit error (DBE) has been detected on GPU"),
            (95, "Uncontained: FBHUB. RST: Yes, D-RST: No"),
        )
        for form in ("", "kernel: ")
    ]


def test_a_switch_error_has_the_function_and_five_digits(node: FakeNode) -> None:
    """An SXid names an NVSwitch of the node with its function, and ends with our mark."""
    broken(fault(node, sxids="11012"))
    assert (
        "<4>nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 11012, Non-fatal, Link 30 ingress header single bit "
        f"error (gpuassay-{MARK})\n"
    ) in node.read("dev/kmsg")


def test_another_gpu_can_be_named(node: FakeNode) -> None:
    """The GPU is chosen by number or by address, in any case of letters, and is written in lower case."""
    broken(fault(node, xids="79", gpu=1))
    broken(fault(node, xids="79", address="0000:3E:00.0"))
    assert node.read("dev/kmsg").count("(PCI:0000:3e:00): 79") == 4


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ({"xids": "119"}, "DCGM would stop asking the driver"),
        ({"xids": "7"}, r"no line is known for \[7\]"),
        ({}, "no line is known for no number"),
        ({"xids": "79", "gpu": 2}, "there is no GPU 2 on this node: there are 2"),
        ({"xids": "79", "address": "0000:99:00.0"}, "no GPU of this node is at 0000:99:00.0"),
        ({"xids": "79", "address": "0000:c1:00.0"}, "no GPU of this node is at 0000:c1:00.0"),
    ],
)
def test_what_is_not_written(node: FakeNode, args: dict[str, Any], why: str) -> None:
    """Xid 119, numbers and GPUs that are not known are refused before anything is written."""
    before = node.read("dev/kmsg")
    with pytest.raises(Refused, match=why):
        fault(node, **args).plan()
    assert node.read("dev/kmsg") == before


def test_a_node_without_switch_or_log_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an NVSwitch no SXid is written, and without /dev/kmsg nothing."""
    bare = FakeNode(tmp_path, monkeypatch)
    with pytest.raises(Refused, match="no NVSwitch"):
        fault(bare, sxids="20034").plan()
    (bare.root / "dev/kmsg").unlink()
    with pytest.raises(Refused, match="no kernel log"):
        fault(bare, xids="79").plan()


def test_a_log_that_drops_what_is_written_blocks(node: FakeNode) -> None:
    """A kernel that says so is refused; one that drops lines and says nothing blocks: nobody missed them."""
    log = node.root / "dev/kmsg"
    log.unlink()
    log.symlink_to("/dev/null")
    with pytest.raises(Blocked, match="2 of 2 lines did not get into the log"):
        broken(fault(node, xids="79"))
    node.write("proc/sys/kernel/printk_devkmsg", "off\n")
    with pytest.raises(Refused, match="devkmsg is off"):
        fault(node, xids="79").plan()


def test_old_lines_prove_nothing(node: FakeNode) -> None:
    """Only what came after the reader was opened counts: the same lines from before do not."""
    ours = fault(node, xids="79")
    state = ours.plan().state
    node.write("dev/kmsg", "\n".join(state["lines"]))
    with pytest.raises(Blocked, match="nothing was read before"):
        ours.verify_injected(state)


def test_the_lines_stay_and_say_so(node: FakeNode) -> None:
    """There is no undo, and the plan says what stays; undoing and looking do no harm."""
    ours = fault(node, xids="79")
    plan = ours.plan()
    assert plan.undoes == ()
    assert "a line cannot be taken back" in plan.warns[0]
    ours.undo(plan.state)
    assert f"2 lines marked gpuassay-{MARK} stay" in ours.verify_undone(plan.state)


def test_later_audits_name_our_lines(node: FakeNode) -> None:
    """An audit tells our own drill from somebody else's, and neither for a fault of the hardware."""
    lines = fault(node, xids="79", sxids="20034").plan().state["lines"]
    theirs = "NVRM: Xid (PCI:0000:18:00): 79, pid=1, name=x, GPU has fallen off the bus."
    records = [f"12,{number},9000000,-;{line}" for number, line in enumerate([*lines, theirs], 10)]
    found = read(Node({"kmsg": kmsg(BOOT, *records)}))
    assert isinstance(found.serious_xids, Read)
    assert found.serious_xids.value == 0
    assert isinstance(found.written_by_user, Read)
    assert found.written_by_user.value == 5
    assert found.written_by_user.note.count(f"GPUassay's own failure injection, trial {MARK}") == 2
    assert "x1 (uptime 0.0 h), written by a user and not by the kernel" in found.written_by_user.note
