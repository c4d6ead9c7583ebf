"""Resets of NVIDIA's GPUs and errors in AMD's, by stand-ins for driver and tools: no hardware met them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.fault.node import amd_ras
from gpuassay.fault.node.amd_ras import AmdRas
from gpuassay.fault.node.gpu_reset import GpuReset
from gpuassay.fault.node.words import Blocked, NotRestored, Refused
from nodefault import GPU, MARK, FakeNode, broken
from waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

# nvidia-smi: a reset takes persistence mode with it.
_SMI = """
case "$*" in
*gpu-reset*) [ -e "$ROOT/joined" ] && { echo "must be reset with its peers"; exit 14; }
    echo Disabled > "$ROOT/kept"; echo "GPU was successfully reset." ;;
*persistence-mode=1*) [ -e "$ROOT/stuck" ] || echo Enabled > "$ROOT/kept" ;;
*persistence_mode*) cat "$ROOT/kept" ;;
*compute-apps*) cat "$ROOT/busy" 2>/dev/null || true ;;
*uuid*) [ ! -e "$ROOT/lost" ] && echo GPU-1 ;;
esac
"""
_COUNT = "sys/class/drm/card0/device/ras/gfx_err_count"
_COMMAND = "sys/kernel/debug/dri/0/ras/ras_ctrl"


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNode:
    """Give a node with GPUs of both vendors."""
    monkeypatch.setattr(amd_ras, "_COUNT_S", 0.2)
    monkeypatch.setattr(amd_ras, "_RESET_S", 0.2)
    node = FakeNode(tmp_path, monkeypatch).with_gpus()
    node.tool("nvidia-smi", _SMI)
    node.write("kept", "Enabled\n")
    node.write(_COMMAND, "")
    node.write(_COUNT, "ue: 0\nce: 5\n")
    return node


def reset(node: FakeNode) -> GpuReset:
    """Make a reset of the first GPU."""
    return GpuReset({"mark": MARK}, str(node.root))


def ras(node: FakeNode, **args: Any) -> AmdRas:
    """Make an error in AMD's first card."""
    return AmdRas({"mark": MARK, **args}, str(node.root))


def test_a_gpu_is_reset_and_kept_as_it_was(node: FakeNode) -> None:
    """After the reset it answers, and the undo gives it back its persistence mode."""
    ours = reset(node)
    state = broken(ours)
    assert state["gpu"] == GPU
    with pytest.raises(NotRestored, match="persistence mode is Disabled, and was Enabled"):
        ours.verify_undone(state)
    ours.undo(state)
    assert "persistence mode Enabled" in ours.verify_undone(state)


def test_a_gpu_in_use_is_not_reset(node: FakeNode) -> None:
    """Whoever computes on it is named, and nothing is done."""
    node.write("busy", "4711\n4712\n")
    with pytest.raises(Refused, match="in use, by process 4711, 4712"):
        reset(node).plan()
    assert node.read("kept") == "Enabled\n"


def test_a_reset_that_does_not_take_hold_is_blocked(node: FakeNode) -> None:
    """GPUs that must be reset together, and one that stays away, are no fault of the provider's."""
    node.write("joined", "")
    with pytest.raises(Blocked, match="must be reset with its peers"):
        broken(reset(node))
    (node.root / "joined").unlink()
    node.write("lost", "")
    with pytest.raises(Blocked, match="does not answer after its reset"):
        broken(reset(node))


def test_an_error_is_injected_by_the_driver(node: FakeNode) -> None:
    """The command is the driver's own, and its counter is the proof."""
    ours = ras(node)
    state = ours.plan().state

    def driver() -> None:
        wait_until(lambda: bool(node.read(_COMMAND)))
        node.write(_COUNT, "ue: 1\nce: 5\n")

    thread = threading.Thread(target=driver)
    thread.start()
    try:
        ours.inject(state)
        thread.join()
        assert ours.verify_injected(state) == "card 0 counts 1 uncorrectable errors of gfx"
    finally:
        thread.join()
    assert node.read(_COMMAND) == "inject gfx ue 0 0 0\n"
    assert ours.verify_undone(state) == "card 0 answers"
    (node.root / _COUNT).unlink()
    with pytest.raises(NotRestored, match="does not answer after its reset"):
        ours.verify_undone(state)


def test_an_error_that_is_not_counted_is_blocked(node: FakeNode) -> None:
    """A driver that takes the command and counts nothing has injected nothing."""
    with pytest.raises(Blocked, match="counts 0 errors of gfx, as before"):
        broken(ras(node))


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ({"block": "retire_page"}, "keep a retired page for good"),
        ({"block": "umc"}, "keep a retired page for good"),
        ({"block": "gfx ue 0 0 0\nretire_page"}, "expected one of"),
        ({"card": 3}, "the driver of card 3 takes no injection"),
        ({"block": "sdma"}, "does not count errors of sdma"),
    ],
)
def test_what_is_never_injected(node: FakeNode, args: dict[str, Any], why: str) -> None:
    """What would stay on the GPU for good is refused, and so is what nothing could prove."""
    with pytest.raises(Refused, match=why):
        ras(node, **args).plan()
    assert node.read(_COMMAND) == ""
