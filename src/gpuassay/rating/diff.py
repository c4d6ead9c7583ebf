"""What differs between two runs, for a CI: what fails or passes newly, what drifted, what is lost."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gpuassay.judge.wording import show
from gpuassay.report.fold import fold
from gpuassay.report.places import each, shorten
from gpuassay.report.words import VERDICTS, headline, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gpuassay.rating.words import Document

_JUDGED: Final = frozenset({"pass", "warn", "fail"})
_MOST: Final = 40
"""So many lines of a kind are written out: a comment on a pull request has an end."""


class _Figure(NamedTuple):
    """A measured value and how far its repeats lie apart, as a share of it."""

    value: float
    spread: float


def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> Document:
    """Compare two results documents, the earlier one first."""
    then, now = old["checks"], new["checks"]

    def told(checks: Sequence[str]) -> list[Document]:
        return [_told(check, then.get(check), now.get(check)) for check in checks]

    def where(holds: Callable[[str | None, str | None], bool]) -> list[Document]:
        found = {check: (_verdict(then, check), _verdict(now, check)) for check in {*then, *now}}
        return told(sorted(check for check, pair in found.items() if holds(*pair)))

    return {
        "recordings": [old["recording"]["digest"], new["recording"]["digest"]],
        "tiers": [headline(old["tier"]), headline(new["tier"])],
        "same_thresholds": old["suite"]["thresholds"] == new["suite"]["thresholds"],
        "newly_failing": where(lambda was, is_now: is_now == "fail" and was != "fail"),
        "newly_passing": where(lambda was, is_now: is_now == "pass" and was in ("fail", "warn")),
        "newly_warning": where(lambda was, is_now: is_now == "warn" and was == "pass"),
        "coverage_lost": where(lambda was, is_now: was in _JUDGED and is_now not in _JUDGED),
        "drifted": list(_drifted(then, now)),
    }


def _verdict(checks: Mapping[str, Any], check: str) -> str | None:
    return checks[check]["verdict"] if check in checks else None


def _told(check: str, then: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> Document:
    either = now or then or {}
    return {
        "check": check,
        "title": either.get("title", ""),
        "was": then["verdict"] if then else None,
        "now": now["verdict"] if now else None,
        "reason": now["reason"] if now else "this run does not know the check",
    }


def _drifted(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Document]:
    """Give the measured values that differ by more than the repeats of both lie apart."""
    for check in sorted(then.keys() & now.keys()):
        before = dict(_figures(then[check]))
        for key, figure in _figures(now[check]):
            old = before.get(key)
            if old is None or not old.value:
                continue
            share = figure.value / old.value - 1
            noise = old.spread + figure.spread
            if abs(share) > noise:
                where, metric, at = key
                yield {
                    "check": check,
                    "where": where,
                    "metric": metric,
                    "at": at,
                    "was": old.value,
                    "now": figure.value,
                    "change": round(share, 5),
                    "noise": round(noise, 5),
                }


def _figures(check: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str, str], _Figure]]:
    """Give what was measured more than once: only of that is it known what is noise."""
    for row in check["observations"]:
        value = row["value"]
        if row.get("spread") and isinstance(value, int | float) and math.isfinite(value):
            at = ", ".join(f"{axis} {point}" for axis, point in row["at"].items())
            for place in each(row["where"]):  # which places share a row is chance: that of equal values
                yield (place, row["metric"], at), _Figure(value, row["spread"])


# --- Markdown ------------------------------------------------------------------------------------


def markdown(found: Mapping[str, Any]) -> str:
    """Write a comparison for a pull request."""
    old, new = found["recordings"]
    tiers = found["tiers"]
    lines = ["## GPUassay: what differs", ""]
    lines.append(f"Tier: **{tiers[0]}** → **{tiers[1]}** (recordings `{old[:12]}` → `{new[:12]}`)")
    if not found["same_thresholds"]:
        lines.append("\n**The two were judged by other thresholds**: some of this may be the numbers' doing.")
    for key, title in (
        ("newly_failing", "Newly failing"),
        ("coverage_lost", "No longer judged"),
        ("newly_warning", "Newly warning"),
        ("newly_passing", "Newly passing"),
    ):
        lines += _section(title, [_line(one) for one in found[key]])
    lines += _section("Drifted beyond noise", list(_drifts(found["drifted"])))
    return "\n".join(lines) + "\n"


def _section(title: str, told: Sequence[str]) -> list[str]:
    if not told:
        return ["", f"{title}: none."]
    more = [f"- … and {plural(len(told) - _MOST, 'more', 'more')}"] if len(told) > _MOST else []
    return ["", f"### {title} ({len(told)})", "", *told[:_MOST], *more]


def _line(one: Mapping[str, Any]) -> str:
    words = " → ".join(VERDICTS[key].label if key else "unknown" for key in (one["was"], one["now"]))
    return f"- `{one['check']}` {words}: {_plain(one['reason'])}"


def _drifts(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Write one line for all places in which the same drifted the same way, with the one that did so most."""
    alike: dict[tuple[object, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for one in found:
        alike[one["check"], one["metric"], one["at"], one["change"] > 0].append(one)
    for group in alike.values():
        most = max(group, key=lambda one: abs(one["change"]))
        least = min(abs(one["change"]) for one in group)
        at = f" at {most['at']}" if most["at"] else ""
        where = shorten(fold(one["where"] for one in group)) or "the cluster"
        many = f", at least {least:.1%} in {plural(len(group), 'place')}" if len(group) > 1 else ""
        yield (
            f"- `{most['check']}` {_plain(where)} {most['metric']}{_plain(at)}: {show(most['was'])} → "
            f"{show(most['now'])} ({most['change']:+.1%}{many}; repeats lie {most['noise']:.1%} apart)"
        )


def _plain(text: str) -> str:
    """Keep what a cluster says from being read as Markdown or HTML."""
    for mark, instead in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\n", " "), ("@", "@\u200b")):
        text = text.replace(mark, instead)
    return "".join(f"\\{letter}" if letter in "`*_[]|#" else letter for letter in text)
