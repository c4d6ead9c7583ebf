"""Every fault that a real Slurm can have, against every kind of tooling; the controller killed in each."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

import fault_scenes
from sicknode import FAULTS, SickNode, Told, sick_node
from slurmd import needs_slurm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

pytestmark = needs_slurm()
_UNDONE = FAULTS[:-1]  # the last one only a boot undoes
_TIMES = 20
_LASTS_S = 12.0  # a trial, with the time that its jobs take to start


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


@pytest.mark.parametrize(
    ("scene", "faults"),
    [
        (fault_scenes.good, FAULTS),
        (fault_scenes.none, _UNDONE),
        (fault_scenes.everything, FAULTS),
        (fault_scenes.late, FAULTS),
    ],
)
def test_tooling(
    node: SickNode,
    tmp_path: Path,
    scene: Callable[[SickNode, Path, Sequence[Told]], None],
    faults: Sequence[Told],
) -> None:
    """Good tooling passes on every fault, and each that is not fails on what it gets wrong and no more."""
    scene(node, tmp_path, faults)


@pytest.mark.parametrize("fault", [one for one in FAULTS if one.serious], ids=lambda one: one.name)
def test_tooling_that_takes_its_drain_back(node: SickNode, tmp_path: Path, fault: Told) -> None:
    """Where the node is as broken as before it fails, and where nothing was ever broken it does not."""
    fault_scenes.taken_back(node, tmp_path, fault)


@pytest.mark.parametrize("fault", _UNDONE, ids=lambda one: one.name)
@pytest.mark.parametrize("seed", range(_TIMES))
def test_killed_at_a_random_moment(node: SickNode, tmp_path: Path, fault: Told, seed: int) -> None:
    """Nothing of ours stays broken, a drain of the provider's stays, and the journal tells how far it was."""
    chance = random.Random(f"{fault.name} {seed}")  # noqa: S311 - no secret: the same moments each time
    provided, after_s = chance.random() < 0.5, chance.uniform(0, _LASTS_S)
    print(fault_scenes.killed(node, tmp_path, fault, after_s, provided=provided))
