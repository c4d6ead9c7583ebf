"""report.html in a real browser: no request, no error, no sideways scrolling on a phone, whole in print."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuassay.report import html
from report_sample import check, results, row

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from report_sample import Document


class Opened:
    """A report in a page, with all that the page asked for and complained of."""

    def __init__(self, page: Page, path: Path, document: Document) -> None:
        """Open it."""
        self.page = page
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        path.write_text(html.render(document), encoding="utf-8")
        page.goto(path.as_uri())


def wide_document() -> Document:
    """Make a report with all that could be too wide: thirty sorts of nodes, names without a break."""
    long = "n" * 90
    checks = {
        f"audit.{long}.c{n}": check(
            row(f"gpu{n}", "fail", reason=long, evidence=long), row(f"{long}{n}", "warn")
        )
        for n in range(30)
    }
    return results(checks, problems=[long], stamps=[{"stamp": "altered", "why": long}])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_alone(browser: Browser, tmp_path: Path, scheme: str) -> None:
    """It loads itself and nothing else; the console is empty, its policy allows its own style and script."""
    page = browser.new_page(color_scheme="dark" if scheme == "dark" else "light")
    opened = Opened(page, tmp_path / "report.html", results())
    assert opened.requests == [page.url]
    assert opened.complaints == []
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(253, 252, 249)", "dark": "rgb(23, 25, 29)"}[scheme]
    page.close()


@pytest.mark.parametrize("width", [360, 800, 1280])
def test_nothing_runs_over_the_edge(browser: Browser, tmp_path: Path, width: int) -> None:
    """No sideways scrolling of the page, whatever the names: wide tables scroll within themselves."""
    page = browser.new_page(viewport={"width": width, "height": 800})
    Opened(page, tmp_path / "report.html", wide_document())
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.close()


def test_the_filter_only_hides(browser: Browser, tmp_path: Path) -> None:
    """Typing leaves what contains the words; the page is whole again when the box is empty."""
    page = browser.new_page()
    Opened(page, tmp_path / "report.html", results())
    box = page.get_by_label("Show only what contains")
    box.fill("memlock")
    assert page.locator("article:visible").count() == 1
    box.fill("")
    assert page.locator("article:visible").count() == 4
    page.close()


def test_the_page_is_whole_without_script(browser: Browser, tmp_path: Path) -> None:
    """Where scripts are blocked, every finding is there, and no box that would do nothing."""
    page = browser.new_page(java_script_enabled=False)
    Opened(page, tmp_path / "report.html", results())
    assert page.locator("article").count() == 4
    assert not page.get_by_label("Show only what contains").is_visible()
    page.close()


def test_it_prints_on_a4(browser: Browser, tmp_path: Path) -> None:
    """The PDF has A4 pages, and the wide heat map fits between their margins."""
    page = browser.new_page(viewport={"width": 680, "height": 900})
    Opened(page, tmp_path / "report.html", wide_document())
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") == 680
    pdf = page.pdf(prefer_css_page_size=True)
    assert pdf.startswith(b"%PDF")
    assert b"/MediaBox [0 0 594.95996 841.91998]" in pdf
    page.close()
