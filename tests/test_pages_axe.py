"""Every page of ours by axe-core, at two widths, in both palettes and in print; and by the keyboard alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from accessible import assert_accessible
from gpuassay.rating.pages import podium_page, rating_page
from gpuassay.rating.podium import podium
from gpuassay.report import certificate, html
from gpuassay.signing.done import done
from report_sample import check, one_of_each, placement, results, row, tier
from test_certificate import MEASURED, told
from test_rating_browser import wide_rating
from test_rating_podium import entry, rated_document
from test_sla_run import SLA

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from report_sample import Document

NODES = 1000


def thousand() -> Document:
    """Make the results of a thousand nodes, forty of which differ in what fails on them."""
    checks = {
        f"audit.health.c{bit}": check(
            row(",".join(f"gpu{n:04}" for n in range(40) if n >> bit & 1), "fail", reason="pending is true"),
            row(",".join(f"gpu{n:04}" for n in range(NODES) if n >= 40 or not n >> bit & 1)),
        )
        for bit in range(6)
    }
    return results(checks)


def run_of_all() -> Document:
    """Make the results of a run with all that its pages can show in words."""
    return results(one_of_each(), sla=SLA, placement=placement(), tier=tier("won", won="bronze"))


def board() -> Document:
    """Make a podium on which somebody rose, fell, came and went."""
    earlier = podium([entry("up", "silver"), entry("down", "gold"), entry("gone", "ribbon")])
    fell = entry("down", "underperforming", audit__hardware__gpu_count="fail")
    return podium([entry("up", "gold"), fell, entry("new", "unavailable")], earlier)


PAGES = {
    "report": lambda: html.render(run_of_all()),
    "report of 1,000 nodes": lambda: html.render(thousand()),
    "certificate": lambda: certificate.render(run_of_all(), told(done=done(MEASURED))),
    "certificate of 1,000 nodes": lambda: certificate.render(thousand(), told()),
    "rating": lambda: rating_page(rated_document()),
    "rating of long words": lambda: rating_page(wide_rating()),
    "podium": lambda: podium_page(board()),
}
KINDS = pytest.mark.parametrize("kind", PAGES)


def opened(browser: Browser, path: Path, kind: str, **how: Any) -> Page:
    """Open a page of a kind."""
    page = browser.new_page(**how)
    path.write_text(PAGES[kind](), encoding="utf-8")
    page.goto(path.as_uri())
    return page


@KINDS
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (400, "light")])
def test_axe_finds_nothing(browser: Browser, tmp_path: Path, kind: str, width: int, scheme: str) -> None:
    """On a desk and on a phone, in both palettes, and the page is no wider than the window."""
    viewport = {"width": width, "height": 900}
    page = opened(browser, tmp_path / "page.html", kind, viewport=viewport, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert_accessible(page)
    page.close()


@KINDS
def test_axe_finds_nothing_in_print(browser: Browser, tmp_path: Path, kind: str) -> None:
    """As it goes to paper, also where the screen is dark: ink on white."""
    page = opened(browser, tmp_path / "page.html", kind, color_scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") in (
        "rgb(255, 255, 255)",
        "rgba(0, 0, 0, 0)",
    )
    assert_accessible(page)
    page.close()


def column(page: Page, table: str, at: int) -> list[str]:
    """Read a column of a table as it stands now."""
    return page.locator(f"{table} tbody tr > :nth-child({at})").all_inner_texts()


def test_a_podium_is_sorted_by_its_heads(browser: Browser, tmp_path: Path) -> None:
    """By tier as tiers rank and not as they are spelled, up and down, with the keyboard alone."""
    page = opened(browser, tmp_path / "page.html", "podium")
    head = page.get_by_role("button", name="Tier", exact=True)
    assert column(page, ".podium", 2) == ["Gold", "Underperforming", "Unavailable"]
    head.focus()
    page.keyboard.press("Enter")
    assert column(page, ".podium", 2) == ["Unavailable", "Underperforming", "Gold"]
    assert page.locator(".podium th[aria-sort=ascending]").inner_text().startswith("Tier")
    page.keyboard.press("Space")
    assert column(page, ".podium", 2) == ["Gold", "Underperforming", "Unavailable"]
    assert_accessible(page)
    page.get_by_role("button", name="Cluster").first.click()
    assert [text.split()[0] for text in column(page, ".podium", 1)] == ["down", "new", "up"]
    assert page.locator(".podium th[aria-sort]").count() == 1
    page.close()


def test_a_podium_is_filtered(browser: Browser, tmp_path: Path) -> None:
    """Of both tables the lines of one cluster are left; on a phone too, where lines are no rows."""
    for width in (1280, 400):
        page = opened(browser, tmp_path / "page.html", "podium", viewport={"width": width, "height": 900})
        page.get_by_label("Show only what contains").fill("down")
        assert page.locator("[data-f]:visible").count() == 2
        page.get_by_label("Show only what contains").fill("")
        assert page.locator("[data-f]:visible").count() == 6
        page.close()


@pytest.mark.parametrize("kind", ["report", "rating"])
def test_categories_are_sorted_by_their_fails(browser: Browser, tmp_path: Path, kind: str) -> None:
    """As numbers: most fails come first when the head is pressed twice; the lines stay whole."""
    page = opened(browser, tmp_path / "page.html", kind)
    table = "table[data-sort]"
    lines = sorted(page.locator(f"{table} tbody tr").all_inner_texts())
    head = page.locator(table).get_by_role("button", name="Fail")
    at = page.locator(f"{table} thead th").all_inner_texts().index("Fail") + 1
    head.click()
    head.click()
    counts = [int(text) for text in column(page, table, at)]
    assert counts == sorted(counts, reverse=True)
    assert sorted(page.locator(f"{table} tbody tr").all_inner_texts()) == lines
    page.close()


@pytest.mark.parametrize("kind", ["report of 1,000 nodes", "certificate of 1,000 nodes"])
def test_a_thousand_nodes_are_a_picture(browser: Browser, tmp_path: Path, kind: str) -> None:
    """Every node is in one column of the heat map, which stays in its frame; no request is made."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    (tmp_path / "page.html").write_text(PAGES[kind](), encoding="utf-8")
    page.goto((tmp_path / "page.html").as_uri())
    assert asked == [page.url]
    counts = [int(text.split()[0]) for text in page.locator(".columns li .dim").all_inner_texts()]
    assert sum(counts) == NODES
    columns = len(counts)
    assert page.locator(".heat thead th").count() == columns + 2
    assert page.locator(".heat tbody tr td:not(.all)").count() == 6 * columns
    frame = page.get_by_label("Checks on each group of nodes").bounding_box()
    assert frame is not None
    assert frame["x"] + frame["width"] <= 1280
    page.emulate_media(media="print")
    assert page.locator(".heat").is_visible()
    page.close()


@KINDS
def test_the_tier_is_what_is_seen_first(browser: Browser, tmp_path: Path, kind: str) -> None:
    """What the cluster came to is a heading, above the fold of a desk's screen."""
    page = opened(browser, tmp_path / "page.html", kind, viewport={"width": 1280, "height": 900})
    tiers = page.locator("h2#tier, h2#tiers")
    box = tiers.bounding_box()
    assert box is not None
    assert box["y"] < 900
    page.close()


@KINDS
def test_the_keyboard_reaches_all_that_scrolls_or_acts(browser: Browser, tmp_path: Path, kind: str) -> None:
    """Tab goes through every link, button, box and frame that scrolls, each once, and shows where it is."""
    page = opened(browser, tmp_path / "page.html", kind, viewport={"width": 1280, "height": 900})
    wanted = page.evaluate(
        "[...document.querySelectorAll('a[href], button, input, summary, [tabindex=\"0\"]')]"
        ".filter(each => each.checkVisibility({visibilityProperty: true})).length"
    )
    reached = []
    for _ in range(wanted):
        page.keyboard.press("Tab")
        reached.append(page.evaluate(FOCUS))
    assert all(outline for _, outline in reached)
    assert len({place for place, _ in reached}) == wanted
    page.close()


FOCUS = """() => {
  const at = document.activeElement;
  const place = [...document.querySelectorAll("*")].indexOf(at);
  return [place, getComputedStyle(at).outlineStyle !== "none"];
}"""
