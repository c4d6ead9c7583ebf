"""Values in DCGM's cache: put there every second, read back as any client would, ended with the dead-man."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.fault.node.dcgm import Dcgm
from gpuassay.fault.node.words import Blocked, NotRestored, Refused
from nodefault import DCGMI, MARK, FakeNode, broken
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeNode]:
    """Give a node with a host engine and an armed dead-man, who stands down at the end."""
    node = FakeNode(tmp_path, monkeypatch)
    node.tool("dcgmi", DCGMI)
    armed = node.write(f"run/gpuassay-fault-{MARK}/armed", "{}")
    yield node
    armed.unlink(missing_ok=True)


def fault(node: FakeNode, **args: Any) -> Dcgm:
    """Make the fault on a node."""
    return Dcgm({"mark": MARK, "field": 230, "value": 79, **args}, str(node.root))


def test_the_value_is_put_there_again_until_it_is_undone(node: FakeNode) -> None:
    """Real samples write over it, so it comes back by itself, until it is undone."""
    ours = fault(node, gpu=1)
    state = broken(ours)
    node.write("field-230", "0\n")
    wait_until(lambda: node.read("field-230") == "79\n")
    assert set(node.read("put").splitlines()) == {"1 230 79"}
    ours.undo(state)
    assert (node.root / f"run/gpuassay-fault-{MARK}/armed").exists()  # he stands down once it is undone
    assert "shows 0.0, and nobody puts 79 there" in ours.verify_undone(state)
    assert node.read("put").splitlines()[-1] == "1 230 0"
    ours.undo(state)  # no harm twice


def test_what_was_shown_before_comes_back(node: FakeNode) -> None:
    """The undo puts the earlier number there, and the plan gives both commands word for word."""
    node.write("field-319", "3\n")
    ours = fault(node, field=319, value=4)
    plan = ours.plan()
    assert plan.does == ("every second: dcgmi test --inject --gpuid 0 -f 319 -v 4",)
    assert plan.undoes == ("once: dcgmi test --inject --gpuid 0 -f 319 -v 3; real samples follow",)
    assert plan.warns == ()
    assert "until it is restarted" in fault(node).plan().warns[0]


def test_a_host_engine_that_keeps_its_value_blocks(node: FakeNode) -> None:
    """Where the field does not show the value to other clients, nothing was delivered."""
    node.write("deaf", "")
    ours = fault(node)
    state = ours.plan().state
    ours.inject(state)
    with pytest.raises(Blocked, match="field 230 of GPU 0 shows None, not 79"):
        ours.verify_injected(state)


def test_a_value_that_stays_is_not_restored(node: FakeNode) -> None:
    """While the field still shows the value, nobody says that it was undone."""
    ours = fault(node)
    state = broken(ours)
    with pytest.raises(NotRestored, match="shows 79"):
        ours.verify_undone(state)


def test_nothing_is_put_where_it_says_nothing(node: FakeNode) -> None:
    """No host engine, an unknown GPU and a field that shows the value already are refused."""
    with pytest.raises(Refused, match="DCGM knows no GPU 7"):
        fault(node, gpu=7).plan()
    node.write("field-230", "79\n")
    with pytest.raises(Refused, match="is 79 already"):
        fault(node).plan()
    node.tool("dcgmi", "echo 'Unable to connect to host engine'; exit 255")
    with pytest.raises(Refused, match="reaches no host engine on this node: Unable to connect"):
        fault(node).plan()
    assert not (node.root / "put").exists()
