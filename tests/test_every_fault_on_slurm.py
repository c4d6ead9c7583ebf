"""Faults on a real Slurm from their plan to their end, with good tooling and with bad.

A set that stands for all; all of them, with every kind of tooling, run at night (.ci/nightly).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import fault_scenes
from sicknode import SickNode, sick_node, some
from slurmd import needs_slurm

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = needs_slurm()
_TAKEN = (
    "fallen_gpu_in_dcgm",
    "lost_fabric_port",
    "reset_gpu",
    "killed_rank",
    "frozen_rank",
    "amd_uncorrected_error",
    "full_scratch",
    "hung_storage",
    "fallen_gpu",
)
_MISSED = ("double_bit_errors_in_dcgm", "lost_fabric_port", "full_scratch", "hung_storage")


@pytest.fixture(scope="module")
def booted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SickNode]:
    """Boot one Slurm for all faults."""
    with sick_node(tmp_path_factory.mktemp("rack")) as node:
        yield node


@pytest.fixture
def node(booted: SickNode) -> Iterator[SickNode]:
    """Give it whole, and take care that nothing of ours is left there."""
    yield booted
    booted.renew()


def test_good_tooling(node: SickNode, tmp_path: Path) -> None:
    """It takes the node for what is serious and for nothing else; each time is its own, to two seconds."""
    fault_scenes.good(node, tmp_path, some(*_TAKEN))


def test_no_tooling(node: SickNode, tmp_path: Path) -> None:
    """Where nobody looks each serious fault is a miss, no other is, and all is undone: the node is whole."""
    fault_scenes.none(node, tmp_path, some(*_MISSED))


def test_tooling_that_drains_on_everything(node: SickNode, tmp_path: Path) -> None:
    """Who drains a node for what is not serious is told so, and what he has drained is his."""
    fault_scenes.everything(node, tmp_path, some("reset_gpu", "killed_rank", "frozen_rank"))


def test_what_cannot_be_undone_stops_the_run(node: SickNode, tmp_path: Path) -> None:
    """After a GPU that nobody brings back nothing more is broken, and it is said what is to be done."""
    fault_scenes.lost(node, tmp_path, some("fallen_gpu", "full_scratch"))
