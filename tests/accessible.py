"""What axe-core says of a page that is open in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page


def assert_accessible(page: Page) -> None:
    """Let axe-core find nothing: contrast, names, headings, tables, landmarks, keyboard."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe is absent: pip install axe-playwright-python"
    )
    found = axe.Axe().run(page)
    assert found.violations_count == 0, f"{page.url}: {found.generate_report()}"
