"""What checkpoints get of a promised speed: of a node's own storage by itself, of a shared one by all."""

from __future__ import annotations

from typing import Any

from facts_evidence import unread, value
from gpuassay.facts.record import Record
from gpuassay.judge.services import Mount
from gpuassay.measure.checkpoints import StoredState

ARGS = {"noise": 0.3, "held": 0.1}
ROW: dict[str, Any] = {
    "status": "ok",
    "bytes": 10**13,
    "bytes_free": 10**12,
    "rank_bytes": 4 * 10**9,
    "save_seconds": [2.0, 2.0, 2.0],
    "load_seconds": [1.0, 1.0, 1.0],
    "held": [0.0],
}


def states(mount: Mount, *rows: dict[str, Any]) -> list[StoredState]:
    """Give the state of a mount on as many nodes, each with one rank."""
    made: list[StoredState] = []
    for number, told in enumerate(rows, 1):
        row = Record(told, f"m#{number}")
        made.append(
            StoredState(f"n{number}", mount.path, mount.role, row, ARGS, rows=[row], mount=mount, beside=made)
        )
    return made


def shares(state: StoredState) -> dict[str, Any]:
    """Give what was found of each figure."""
    return {one.at["figure"]: one.value for one in state.promised}


def test_of_its_own_storage_each_node_is_held_to_the_promise() -> None:
    """Saving beside writing, loading beside reading; other speeds are no checkpoint's."""
    speeds = {"write_gbps": 4.0, "read_gbps": 2.0, "read_iops": 1000.0}
    for state in states(Mount("/scratch", "local", shared=False, speeds=speeds), ROW, ROW):
        found = {name: value(fact) for name, fact in shares(state).items()}
        assert found == {"write_gbps": 0.5, "read_gbps": 2.0}


def test_of_shared_storage_all_nodes_are_added_up_and_told_once() -> None:
    """What one node was promised, two get together; a node that told nothing leaves the sum unread."""
    mount = Mount("/data", "data", shared=True, speeds={"write_gbps": 4.0})
    first, second = states(mount, ROW, ROW)
    assert value(shares(first)["write_gbps"]) == 1.0
    assert "by 2 nodes" in shares(first)["write_gbps"].note
    assert second.promised == []
    broken, _ = states(mount, ROW, {"status": "failed", "why": "disk full"})
    assert "disk full" in unread(shares(broken)["write_gbps"]).why


def test_nothing_is_held_to_what_was_not_promised() -> None:
    """Neither a mount without speeds, nor a file system that no site file declares."""
    (state,) = states(Mount("/data", "data", shared=True), ROW)
    assert state.promised == []
