"""What holds for all tests of the suite itself."""

from __future__ import annotations

import pytest

BACKSTOP_S = 300
"""No test takes nearly as long: one that does waits for what will never come, and says where."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let no test hang a whole run; a test that needs longer says so with a mark of its own."""
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(BACKSTOP_S))
