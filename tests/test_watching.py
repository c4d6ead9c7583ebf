"""What can be seen of a run while it runs: events on disk, and a page that folds and renews itself."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING

import pytest

from gpuassay.evidence.run import RunFolder
from gpuassay.watching import Watch

if TYPE_CHECKING:
    from pathlib import Path

CHROMIUM = shutil.which("chromium")
UNKNOWN = "its name cannot be resolved ({}: Name or service not known)"


class Clock:
    """A clock that stands still until it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("time.monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Let the test tell the time."""
    return Clock(monkeypatch)


def watch(folder: Path, *nodes: str) -> Watch:
    """Watch over nodes, with no line to show."""
    return Watch(RunFolder(folder), "gathering", nodes, lambda _line: None)


def test_each_node_that_ended_is_an_event(tmp_path: Path, clock: Clock) -> None:
    """One line each, at once: when, what, which node, how, and why if it is before its time."""
    with watch(tmp_path, "n1", "n2", "n3") as watching:
        watching.answered("n1", "host (1 of 57)")
        clock.now += 5
        watching.ended("n1", "")
        watching.ended("n2", "it is down")
        events = [json.loads(line) for line in (tmp_path / "progress.jsonl").read_text().splitlines()]
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", event.pop("time")) for event in events)
    assert events == [
        {"what": "gathering", "node": "n1", "state": "done", "seconds": 5.0},
        {"what": "gathering", "node": "n2", "state": "not whole", "seconds": 5.0, "why": "it is down"},
    ]


def test_the_page_is_written_at_most_every_two_seconds(tmp_path: Path, clock: Clock) -> None:
    """Thousands of answers cost a page now and then; the last state is always drawn, then it rests."""
    page = tmp_path / "live.html"
    with watch(tmp_path, "n1") as watching:
        first = page.read_text()
        clock.now += 1.9
        watching.answered("n1", "host (1 of 57)")
        assert page.read_text() == first
        clock.now += 0.1
        watching.answered("n1", "limits (5 of 57)")
        assert "limits (5 of 57)" in page.read_text()
        assert 'http-equiv="refresh"' in page.read_text()
        watching.ended("n1", "")
    assert "gathering is over" in page.read_text()
    assert "1 of 1 nodes done" in page.read_text()
    assert 'http-equiv="refresh"' not in page.read_text()


def test_a_run_that_is_cut_says_so(tmp_path: Path) -> None:
    """Who looks at the page afterwards does not wait for more."""
    with pytest.raises(KeyboardInterrupt), watch(tmp_path, "n1"):
        raise KeyboardInterrupt
    assert "gathering is cut short" in (tmp_path / "live.html").read_text()


def test_a_large_fleet_is_folded(tmp_path: Path, clock: Clock) -> None:
    """Nodes that are done, wait or fail alike share a row; the slowest of the others come first."""
    nodes = [f"gpu{number:04}" for number in range(1, 1001)]
    with watch(tmp_path, *nodes) as watching:
        for node in nodes[:500]:
            watching.ended(node, "")
        for node in nodes[500:520]:
            watching.ended(node, UNKNOWN.format(node))
        for number, node in enumerate(nodes[520:584]):
            clock.now += 2
            watching.answered(node, f"pci ({number} of 57)")
        page = (tmp_path / "live.html").read_text()
    assert "gpu[0001-0500]" in page
    assert "gpu[0501-0520]" in page
    assert "gpu[0585-1000]" in page
    assert UNKNOWN.format("NODE") in page
    assert page.index("pci (0 of 57)") < page.index("pci (1 of 57)")
    assert "and 34 rows more" in page
    assert len(page) < 20_000


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is absent: apt-get install chromium")
def test_the_page_is_alone(tmp_path: Path) -> None:
    """In a browser it asks for nothing but itself, complains of nothing, and says how old it is."""
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is absent: pip install playwright"
    )
    with watch(tmp_path, "n1", "<i>n2</i>") as watching:
        watching.ended("n1", "<script>alert(1)</script>")
        with sync_api.sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 360, "height": 800})
            asked, complaints = list[str](), list[str]()
            page.on("request", lambda request: asked.append(request.url))
            page.on("console", lambda message: complaints.append(message.text))
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.goto((tmp_path / "live.html").as_uri())
            assert re.fullmatch(r", \d+ s ago", page.inner_text("#age"))
            assert page.evaluate("document.documentElement.scrollWidth") == 360
            assert set(asked) == {page.url}
            assert complaints == []
            browser.close()
