"""report.html: what must be on the page is on it, and nothing that a cluster says becomes markup."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuassay.report import html, words
from report_sample import check, held, results, row, tier

if TYPE_CHECKING:
    from report_sample import Document

# "x" in front keeps a text from being empty, which rightly leaves its element out.
TEXT = st.text().map(lambda text: f"x{text}")


class Page(HTMLParser):
    """A page as tags and as the text between them."""

    def __init__(self, page: str) -> None:
        """Read the whole page."""
        super().__init__()
        self.tags: list[tuple[str, tuple[str, ...]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the tag with the names of its attributes."""
        self.tags.append((tag, tuple(name for name, _ in attrs)))

    def handle_data(self, data: str) -> None:
        """Keep the text."""
        self.text += f" {data}"


def told(document: Document) -> str:
    """Give the text of the page on one line."""
    return " ".join(Page(html.render(document)).text.split())


def document_saying(text: str) -> Document:
    """Put a text in every place that carries words from outside."""
    fields = dict.fromkeys(("title", "why", "fix", "source", "reason"), text)
    marks: Document = {"provisional": True, "waived": text, "caps": "gold"}
    rows = (
        row("gpu1/gpu0", "fail", value=text, metric=text, reason=text, evidence=text, reference=text),
        row("gpu1/gpu1", at={text: text}, **marks),
    )
    document = results(
        {"audit.a.b": check(*rows, **fields, limits={text: text}), "audit.a.c": check(**fields)},
        stamps=[{"stamp": "altered", "why": text}],
        tier=tier(why=text, held_by={"won": [held("gold", text, "fail", text)], "ceiling": []}),
        target=text,
        problems=[text],
        out_of_service=[{"where": "gpu9", "until": text, "reason": text, "expired": True}],
        return_list=[{"where": "gpu1", "checks": ["audit.a.b"]}],
        waivers=[{"check": text, "where": "gpu1", "until": text, "reason": text, "state": "used", "rows": 1}],
    )
    document["recording"].update(cluster=text, provider=text)
    change = {"check": text, "metric": text, "from": text, "to": text}
    document["suite"].update(relaxed=[change], tightened=[change])
    return document


@given(TEXT)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_text_becomes_markup(text: str) -> None:
    """Whatever a node or a file says, the page keeps the same elements with the same attributes."""
    assert Page(html.render(document_saying(text))).tags == Page(html.render(document_saying("x"))).tags


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</article><h1>"]
)
def test_no_place_or_check_name_becomes_markup(text: str) -> None:
    """Names of nodes and of checks are no more trusted than sentences."""
    page = html.render(results({f"audit.a.{text}": check(row(text, "fail"), category=text)}))
    assert text not in page
    assert page.count("<script>") == 1


def test_the_page_asks_nothing_of_the_network() -> None:
    """No address is on the page, and its policy forbids all that is not its own style and script."""
    page = html.render(document_saying("x"))
    assert not re.search(r"https?:|url\(|@import|\bsrc=|<link\b|<iframe\b", page)
    assert re.search(
        r"default-src &#39;none&#39;; style-src &#39;sha256-\S+&#39;; script-src &#39;sha256-", page
    )
    assert " style=" not in page


def test_same_results_give_the_same_bytes() -> None:
    """A replay on another day gives the page again."""
    assert html.render(results()) == html.render(results())


@pytest.mark.parametrize(
    ("state", "won", "said"),
    [
        ("won", "bronze", "Tier won Bronze Every check of this tier"),
        ("not_rated", None, "No tier won Not rated Not everything"),
        ("underperforming", None, "No tier won Underperforming A check that even"),
        ("unavailable", None, "No tier won Unavailable There was no accelerator"),
    ],
)
def test_the_tier_is_said_in_plain_words(state: str, won: str | None, said: str) -> None:
    """Each state has its sentence beside the medallion; the ceiling and its sense follow."""
    text = told(results(tier=tier(state, won=won)))
    assert said in text
    assert "Ceiling: Silver." in text


def test_no_ceiling_is_said_too() -> None:
    """A cluster without GPUs can win nothing, and the page says it."""
    assert "Ceiling: None. No tier is possible any more" in told(
        results(tier=tier("unavailable", ceiling=None))
    )


def test_stamps_stand_in_words() -> None:
    """What makes a report weaker is said as a word with its reason, above the tier."""
    text = told(results(stamps=[{"stamp": "synthetic", "why": "no machine was measured"}]))
    assert text.index("SYNTHETIC No machine was measured.") < text.index("No tier won")


def test_sections_come_in_the_order_of_need() -> None:
    """Findings and what goes back first, then what was not judged, then exceptions, then what is in order."""
    page = html.render(results())
    order = (
        "arithmetic",
        "coverage",
        "findings",
        "return",
        "not-run",
        "seats",
        "exceptions",
        "map",
        "in-order",
        "skipped",
    )
    positions = [page.index(f'<h2 id="{name}"') for name in order]
    assert positions == sorted(positions)


def test_a_finding_tells_all() -> None:
    """What, where, how it was judged, why, the fix, the source and the evidence are in one place."""
    page = html.render(results())
    start = page.index('id="audit.health.row_remaps"')
    text = " ".join(Page(page[start : page.index("</article>", start)]).text.split())
    for said in (
        "No GPU waits for a reset",
        "1 GPU waits for a reset",
        "gpu003/gpu5",
        "pending = true",
        "is false",
        "a remap is pending",
        "nodes/gpu003#12",
        "A pending remap takes effect only at a reset",
        "Fix Drain the node",
        "NVIDIA, GPU memory error management",
        "1 fail, 31 pass",
    ):
        assert said in text


def test_many_rows_are_cut_and_counted() -> None:
    """Eleven differing rows: ten are listed, and the eleventh is counted."""
    rows = [row(f"gpu{n}/gpu0", "fail", value=float(n)) for n in range(1, 12)]
    page = html.render(results({"audit.a.b": check(*rows)}))
    assert "and 1 GPU more, in 1 row of results.json" in page
    assert page.count('data-h="Evidence"') == 10


def test_what_was_not_judged_is_listed_by_its_reason_and_seat() -> None:
    """Not run is grouped by reason; unseen by the seat from which it can be seen."""
    text = told(results())
    assert "Needs --allow=load. 1 check of performance" in text
    assert f"Needs a recording from: {words.SEATS['host']}" in text


def test_the_placement_is_a_line_of_coverage_and_of_each_figure_between_nodes() -> None:
    """Who reads a bandwidth sees at once that no spine was in its way."""
    figure = check(row("n1"), phase="perf", title="Fast.", placement="spine not tested")
    text = told(results({"perf.a.b": figure}))
    assert "Placement 4 nodes are below one leaf, by Slurm's topology: spine not tested." in text
    assert "leaf0 spine gpu[001-004] 4 nodes" in text
    assert "Fast. perf.a.b Spine not tested." in text
    assert "Placement" not in told(results({}, placement=None)).partition("How the tier was reached")[2]


def test_exceptions_are_listed() -> None:
    """Waivers, changed and provisional limits and caps have their lines; without any, that is said."""
    text = told(document_saying("because"))
    for said in ("Waivers", "Relaxed limits", "Tightened limits", "provisional limits", "Caps of the tier"):
        assert said in text
    assert "Nothing was waived, no limit was changed, no provisional limit was used." in told(results())


def test_the_return_list_says_what_was_found_there() -> None:
    """A node that goes back is named with the failing observation, not only with a check's name."""
    text = told(results(return_list=[{"where": "gpu003", "checks": ["audit.health.row_remaps"]}]))
    assert "gpu003 a remap is pending audit.health.row_remaps" in text


def test_the_page_says_whose_rating_it_is() -> None:
    """Every page carries the statement, the version and both digests in full."""
    text = told(results())
    for said in (words.STATEMENT, "2026.11.0", "cd" * 32, "ab" * 32):
        assert said in text
