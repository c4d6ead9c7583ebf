"""What a check may ask for: the fleet that was recorded, measurements, and the pen to write down."""

from __future__ import annotations

import pytest

from gpuassay.facts import Fleet
from gpuassay.judge.observe import Observe
from gpuassay.measuring import Measure
from gpuassay.session import CHECK, OBSERVE, SESSION

__all__ = ["Fleet", "Measure", "Observe", "fleet", "measure", "observe"]


@pytest.fixture(scope="session")
def fleet(pytestconfig: pytest.Config) -> Fleet:
    """Give the nodes in service, as facts read from the recording."""
    return pytestconfig.stash[SESSION].fleet


@pytest.fixture
def measure(request: pytest.FixtureRequest) -> Measure:
    """Give the callable that measures, or reads what was measured, on the nodes that the check is about."""
    return request.config.stash[SESSION].measure_for(request.node.stash[CHECK])


@pytest.fixture
def observe(request: pytest.FixtureRequest) -> Observe:
    """Give the callable that takes a check's observations down."""
    taken: Observe = request.node.stash.setdefault(OBSERVE, Observe())
    return taken
