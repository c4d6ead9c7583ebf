"""How the suite is wired.

The checks in ``tests_audit``, ``tests_perf`` and ``tests_reliability`` are run by the plugin
``gpuassay.plugin``, which ``pyproject.toml`` loads with ``-p``. This file loads nothing, so that a
repository into which this one is copied keeps its own pytest: there the checks are passed over
unless that repository loads the plugin itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Pass over everything below this folder where the plugin is not loaded."""
    return None if config.pluginmanager.has_plugin("gpuassay.plugin") else True
