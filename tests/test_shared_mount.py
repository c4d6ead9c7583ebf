"""A real shared file system, SeaweedFS through FUSE: alive, and while its server stands still."""

from __future__ import annotations

import os
import shutil
import signal
from typing import TYPE_CHECKING

import pytest

import seaweed
from facts_evidence import evidence, unread, value
from gpuassay.facts.mounts import Mounts
from gpuassay.facts.volumes import DeclaredVolume
from gpuassay.judge.services import Mount
from gpuassay.probe import storage
from gpuassay.probe.items import QUESTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUESTION = next(one for one in QUESTIONS if one.id == "storage")


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[seaweed.Mounted]:
    """Run a store, and mount it."""
    if seaweed.program() is None:
        pytest.skip(seaweed.INSTALL)
    if not os.access("/dev/fuse", os.W_OK) or (os.geteuid() and not shutil.which("fusermount3")):
        pytest.skip("no user namespaces or no /dev/fuse here")
    with seaweed.running(tmp_path) as store, seaweed.mounted(store, tmp_path) as mounted:
        yield mounted


def seen(node: str, stall_s: float = storage.STALL_S) -> Mounts:
    """Give what a node tells of its mounts."""
    return Mounts(node, evidence({"storage": storage.ask(QUESTION, stall_s).out}))


def test_two_nodes_have_one_file_system(mount: seaweed.Mounted) -> None:
    """It is shared, answers, takes writes and has its size; two that mount it have the same."""
    volumes = [seen(node).at(str(mount.place)) for node in ("n1", "n2")]
    one = volumes[0]
    assert (value(one.shared), value(one.answers), value(one.read_only)) == (True, True, False)
    assert value(one.kind) == "fuse.seaweedfs"
    declared = DeclaredVolume(Mount(str(mount.place), "data", shared=True), volumes)
    assert (value(declared.file_systems), value(declared.unproven), value(declared.size_spread)) == (1, 0, 0)
    assert value(declared.capacity_tb) > 0


def test_a_server_that_stands_still_is_named_and_nothing_waits_for_it(mount: seaweed.Mounted) -> None:
    """The mount is there and gives no answer; once its server goes on, it does."""
    os.kill(mount.pid, signal.SIGSTOP)
    try:
        still = seen("n1", stall_s=0.3).at(str(mount.place))
    finally:
        os.kill(mount.pid, signal.SIGCONT)
    assert value(still.shared) is True
    assert value(still.answers) is False
    assert still.answers.note.startswith("no answer within 0.3 s")  # type: ignore[union-attr]
    assert unread(still.amount("bytes")).kind == "timed_out"
    assert value(seen("n1").at(str(mount.place)).answers) is True
