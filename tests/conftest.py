"""What holds for all tests of the suite itself."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

# What helpers assert is told as fully as what tests do.
pytest.register_assert_rewrite(*(file.stem for file in Path(__file__).parent.glob("[!_]*.py")))

# No test is about how long it takes. A CI tries the same examples each time, so that a change is not held up
# by what was there before it; everywhere else new ones are drawn.
settings.register_profile("untimed", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("untimed")

STARTERS = frozenset({"gpuassay.target.local", "kubeapi", "nodes", "slurmd", "sshd", "waiting"})
CHROMIUM = shutil.which("chromium")
BACKSTOP_S = 300
"""No test takes nearly as long: one that does waits for what will never come, and says where."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let no test hang a whole run; a test that needs longer says so with a mark of its own.

    Those that start nodes, daemons and ranks are one group: beside each other (``-n2 --dist=loadgroup``)
    they would take from each other the time that they measure.
    """
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(BACKSTOP_S))
        if _starts_much(item.getparent(pytest.Module)):
            item.add_marker(pytest.mark.xdist_group("machines"))


def _starts_much(file: pytest.Module | None) -> bool:
    """Tell whether a file of tests imports what starts nodes, daemons and ranks."""
    names = vars(file.obj) if file else {}
    homes = {one.__module__ for one in names.values() if isinstance(one, (type, FunctionType))}
    return not STARTERS.isdisjoint(part for home in homes for part in (home, home.partition(".")[0]))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start the system's Chromium, which asks nothing of the network by itself either."""
    if CHROMIUM is None:
        pytest.skip("Chromium is absent: apt-get install chromium")
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is absent: pip install playwright"
    )
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_api.sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
