"""A fault on Kubernetes whose controller is killed at random moments ends well, or is the provider's."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from breaking import Tooling
from gpuassay.fault.sweeping import sweep
from gpuassay.target import TargetError
from kube_breaking import NODE, Place, frozen_place
from nodes import needs
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = needs()
_TIMES = 20
_LASTS_S = 14.0  # a trial, by the seconds below and with the time that its pods take to start
_FROZEN, _FULL = "test_failure_injection.py::test_frozen_kubelet", "test_real_faults.py::test_full_scratch"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Start a cluster, whose node has a scratch."""
    with frozen_place(tmp_path) as place:
        place.node.run("mount", "-t", "tmpfs", "-o", "size=8m", "scratch", "/mnt")
        yield place


def full(place: Place) -> bool:
    """Tell whether our file is in the scratch."""
    return "gpuassay" in place.node.run("ls", "-A", "/mnt").stdout


@pytest.mark.parametrize("seed", range(_TIMES))
def test_killed_at_a_random_moment(place: Place, seed: int) -> None:
    """Nothing of ours stays broken or lies about, a cordon stays, and the journal tells the rest."""
    chance = random.Random(seed)  # noqa: S311 - no secret: the same moments each time
    provider, after_s = chance.random() < 0.5, chance.uniform(0, _LASTS_S)
    check, sick = chance.choice([(_FROZEN, place.frozen), (_FULL, lambda: full(place))])
    tooling = Tooling(sick, place.cordon, patience_s=1) if provider else nullcontext()
    with tooling, place.start(check, 4, 4, "--host-view") as run:
        wait_until(lambda: bool(place.trials()))
        time.sleep(after_s)  # the moment is what is being chosen
        if run.poll() is None:
            os.kill(run.pid, signal.SIGKILL)
    (trial,) = place.trials()
    story = " ".join(item.id for item, _ in trial.items if not item.id.startswith("watch/"))
    cordoned = bool(place.standing.get("unschedulable"))
    print(f"seed {seed}: {check} killed {after_s:.1f} s after it began; kept: {story}; cordoned: {cordoned}")
    wait_until(lambda: not place.has_dead_man())
    if cordoned:  # and so perhaps handed over, also where the journal was cut before it could say so
        place.node.run("sh", "-c", "pkill -CONT -x kubelet; rm -f /mnt/.gpuassay*")  # the provider mends it
    assert not place.frozen()
    assert not full(place)
    assert cordoned == bool(place.standing.get("unschedulable"))
    reached = place.reached()
    reached.clean()
    if cordoned:  # who looks there again is not let in while the provider keeps it out
        with pytest.raises(TargetError, match="is not ours alone"):
            sweep(reached, NODE)
        place.uncordon()
    # An act that was under way when its controller died may have armed a dead-man since.
    again = place.reached()
    assert all(": undone: " in line for line in sweep(again, NODE))
    assert sweep(again, NODE) == []
    assert place.whole()
