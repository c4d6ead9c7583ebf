"""Ratings and podiums in a real browser: alone, whole at any width, and in print."""

from __future__ import annotations

import copy
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.rating.pages import podium_page, rating_page
from gpuassay.rating.podium import podium
from test_rating_podium import entry, rated_document

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is absent: apt-get install chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start the system's Chromium, which asks nothing of the network by itself either."""
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is absent: pip install playwright"
    )
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_api.sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=CHROMIUM, args=flags)


def wide_rating() -> dict[str, Any]:
    """Make a rating with words too long for any column."""
    long = "n" * 120
    document = copy.deepcopy(rated_document())
    document["cluster"] = document["provider"] = long
    document["stamps"].append({"stamp": "altered", "why": long})
    document["return_list"] = [{"where": long, "checks": ["audit.hardware.gpu_count"]}]
    held = {"check": f"audit.a.{long}", "verdict": "fail", "reason": long}
    document["tiers"][-1]["held_by"] = [held]
    fail = {"recording": "0" * 64, "end": "2026-11-28T08:00:00Z", "verdict": "fail", "reason": long}
    document["superseded"] = [
        {"check": f"audit.a.{long}", "title": long, "now": "pass", "failed": 2, "tried": 3, "fails": [fail]}
    ]
    return document


def pages() -> dict[str, str]:
    """Write one page of each kind."""
    earlier = podium([entry("n" * 80, "silver"), entry("b", "gold")])
    now = [
        entry("n" * 80, "gold"),
        entry("b", "underperforming", audit__hardware__gpu_count="fail"),
    ]
    return {"rating": rating_page(wide_rating()), "podium": podium_page(podium(now, earlier))}


@pytest.mark.parametrize("kind", ["rating", "podium"])
@pytest.mark.parametrize("width", [360, 800, 1280])
def test_a_page_is_alone_and_whole(browser: Browser, tmp_path: Path, kind: str, width: int) -> None:
    """It asks for itself only, its policy complains of nothing, and it does not scroll sideways."""
    page = browser.new_page(viewport={"width": width, "height": 800})
    requests: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    path = tmp_path / "page.html"
    path.write_text(pages()[kind], encoding="utf-8")
    page.goto(path.as_uri())
    assert requests == [page.url]
    assert complaints == []
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.close()


@pytest.mark.parametrize("kind", ["rating", "podium"])
def test_a_page_prints_whole(browser: Browser, tmp_path: Path, kind: str) -> None:
    """On paper the last line is there, and nothing is wider than a sheet of A4."""
    page = browser.new_page(viewport={"width": 794, "height": 1123})
    path = tmp_path / "page.html"
    path.write_text(pages()[kind], encoding="utf-8")
    page.goto(path.as_uri())
    page.emulate_media(media="print")
    assert page.locator("footer").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 794
    assert page.pdf(format="A4").startswith(b"%PDF")
    page.close()


@pytest.mark.parametrize("kind", ["rating", "podium"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(browser: Browser, tmp_path: Path, kind: str, scheme: str) -> None:
    """Every text has a contrast of 4.5 or more to the ground below it, in both palettes."""
    page = browser.new_page(color_scheme="dark" if scheme == "dark" else "light")
    path = tmp_path / "page.html"
    path.write_text(pages()[kind], encoding="utf-8")
    page.goto(path.as_uri())
    assert page.evaluate(CONTRAST) == []
    page.close()


CONTRAST = """() => {
  const channels = (colour) => colour.match(/[0-9.]+/g).map(Number);
  const light = (colour) => channels(colour).slice(0, 3)
    .map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!(channels(colour)[3] === 0)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const poor = [];
  for (const node of document.querySelectorAll("body *:not(svg *)")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    if (!own || !node.getClientRects().length) continue;
    const pair = [light(getComputedStyle(node).color), light(ground(node))].sort((a, b) => b - a);
    const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (ratio < 4.5) poor.push([node.tagName, node.className, node.textContent.slice(0, 30), ratio]);
  }
  return poor;
}"""
