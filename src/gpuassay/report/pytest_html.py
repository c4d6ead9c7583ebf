"""What pytest-html's own page shows of us: the medallion above its table, two columns in it."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from gpuassay.report import view, words

if TYPE_CHECKING:
    from gpuassay.report.view import Check, Results

_STYLE = "border: 2px solid #1c1e22; color: #1c1e22; padding: 0.75em 1em; max-width: 60em; margin: 1em 0"


def medallion(results: Results) -> str:
    """Write the block for the summary. It lists what was not judged, as a crashed worker has no row below."""
    tier = results["tier"]
    ceiling = words.TIERS[tier["ceiling"]] if tier["ceiling"] else "none"
    won = "Tier won: " if tier["won"] else "No tier won: "
    stamps = [
        f"<b>{escape(each['stamp'].upper())}</b> {escape(words.sentence(each['why']))}"
        for each in results["stamps"]
    ]
    counts = ", ".join(f"{n} {words.VERDICTS[key].label.lower()}" for key, n in view.tally(results))
    paragraphs = [
        f"{won}<b>{escape(words.headline(tier))}</b>. Ceiling: {escape(ceiling)}.",
        escape(words.sentence(tier["why"])),
        *stamps,
        f"Checks: {counts or 'none'}.",
        escape(words.STATEMENT),
    ]
    body = "".join(f"<p>{each}</p>" for each in paragraphs)
    return f'<div class="gpuassay" style="{_STYLE}">{body}{_not_judged(results)}</div>'


def _not_judged(results: Results) -> str:
    missing = view.with_verdict(results, ("error", "unseen", "not_run"))
    if not missing:
        return "<p>All that applies was judged.</p>"
    return f"<p>Not judged:</p><ul>{''.join(_item(*each) for each in missing)}</ul>"


def _item(check_id: str, check: Check) -> str:
    label = words.VERDICTS[check["verdict"]].label
    return f"<li>{escape(check_id)}: {label.lower()}, {escape(check['reason'] or check['title'])}</li>"


def header_cells() -> list[str]:
    """Write the heads of our two columns."""
    return [
        '<th class="sortable col-verdict" data-column-type="verdict">Verdict</th>',
        '<th class="sortable col-tier" data-column-type="tier">Tier</th>',
    ]


def row_cells(verdict: str, tier: str) -> list[str]:
    """Write our two cells of a row; both are empty for a test that is no check."""
    label = words.VERDICTS[verdict].label if verdict in words.VERDICTS else verdict
    return [
        f'<td class="col-verdict">{escape(label)}</td>',
        f'<td class="col-tier">{escape(words.TIERS.get(tier, tier))}</td>',
    ]
