"""Our part of pytest-html's page: escaped, and complete about what was not judged."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpuassay.report import pytest_html
from report_sample import check, results, row, tier


def test_the_block_says_tier_ceiling_and_what_was_not_judged() -> None:
    """A crashed worker leaves no row in that page's table, so the block lists what is missing."""
    block = pytest_html.medallion(results())
    assert "No tier won: <b>Not rated</b>. Ceiling: Silver." in block
    for said in (
        "audit.health.xid: unseen, no kernel log in this container",
        "audit.network.gid: error, 1 port was not judged",
        "perf.gemm.bf16: not run, needs --allow=load",
    ):
        assert f"<li>{said}</li>" in block


def test_a_whole_run_is_said_to_be_whole() -> None:
    """An empty list would leave a reader in doubt."""
    assert "All that applies was judged." in pytest_html.medallion(results({"audit.a.b": check(row("gpu1"))}))


@given(st.text())
def test_nothing_becomes_markup(text: str) -> None:
    """The page takes our block and cells as they are: every text in them is escaped here."""
    document = results(
        {f"audit.a.{text}": check(reason=f"x{text}")},
        tier=tier(why=text),
        stamps=[{"stamp": text, "why": text}],
    )
    plain = results({"audit.a.": check(reason="x")}, tier=tier(why=""), stamps=[{"stamp": "", "why": ""}])
    assert pytest_html.medallion(document).count("<") == pytest_html.medallion(plain).count("<")
    assert all(cell.count("<") == 2 for cell in pytest_html.row_cells(text, text))


def test_cells_match_their_heads() -> None:
    """The page sorts by the class that head and cell share; a test that is no check has empty cells."""
    for head, cell in zip(
        pytest_html.header_cells(), pytest_html.row_cells("not_run", "ribbon"), strict=True
    ):
        name = head.split('data-column-type="')[1].split('"')[0]
        assert f"col-{name}" in cell
    assert pytest_html.row_cells("not_run", "ribbon")[0] == '<td class="col-verdict">Not run</td>'
    assert pytest_html.row_cells("", "") == ['<td class="col-verdict"></td>', '<td class="col-tier"></td>']
