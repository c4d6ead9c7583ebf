"""Many clusters side by side: where each stands, in what, and who rose or fell since an earlier edition."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from gpuassay import __version__
from gpuassay.judge.catalog import TIERS
from gpuassay.rating.words import SCHEMA, STATED, RatingError
from gpuassay.report.words import VERDICTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpuassay.rating.words import Document

# From worst to best. What is not rated, or not to be had, is neither good nor bad: it has no rank.
RANKS: Final = ("underperforming", *TIERS)
_SHOWN = 3


def podium(ratings: Sequence[Mapping[str, Any]], earlier: Mapping[str, Any] | None = None) -> Document:
    """Put ratings side by side, the best first. Raises RatingError where two are of one cluster."""
    entries = [_entry(rating) for rating in ratings]
    names = [entry["cluster"] for entry in entries]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise RatingError(f"{twice[0]} has two ratings here: name the one that counts")
    before = {entry["cluster"]: entry for entry in earlier["clusters"]} if earlier else {}
    entries.sort(key=lambda entry: (-rank(entry), entry["cluster"]))
    for entry in entries:
        entry["moved"] = _moved(before.get(entry["cluster"]), entry) if earlier else None
    gone = sorted(before.keys() - set(names))
    return {
        "schema": SCHEMA,
        "statement": STATED,
        "gpuassay": __version__,
        "thresholds": sorted({entry["thresholds"] for entry in entries}),
        "earlier": bool(earlier),
        "categories": sorted({line["category"] for entry in entries for line in entry["categories"]}),
        "clusters": entries,
        "gone": [{"cluster": name, "was": _place(before[name])} for name in gone],
    }


def rank(entry: Mapping[str, Any]) -> int:
    """Give the place of what came out among tiers; -1 where nothing can be said."""
    place = _place(entry)
    return RANKS.index(place) if place in RANKS else -1


def _place(entry: Mapping[str, Any]) -> str:
    place: str = entry["tier"] or entry["state"]
    return place


def _entry(rating: Mapping[str, Any]) -> Document:
    if not rating["cluster"]:
        raise RatingError("a rating names no cluster: its site file has to, in [cluster] name")
    bad = ("fail", "error", "unseen", "not_run", "warn")
    return {
        "cluster": rating["cluster"],
        "provider": rating["provider"],
        "state": rating["rated"]["state"],
        "tier": rating["rated"]["tier"],
        "lowered": rating["rated"]["lowered"],
        "ceiling": rating["computed"]["ceiling"],
        "profile": rating["profile"],
        "thresholds": rating["thresholds"],
        "end": rating["window"]["end"],
        "stamps": _stamps(rating),
        "superseded": len(rating["superseded"]),
        "categories": rating["categories"],
        "next": rating["next"]["tier"],
        "first_step": next((step["does"] for step in rating["next"]["steps"]), None),
        "against": {
            check: {"verdict": found["verdict"], "tier": found["tier"]}
            for check, found in rating["checks"].items()
            if found["verdict"] in bad
        },
    }


def _stamps(rating: Mapping[str, Any]) -> list[str]:
    """Name what limits a rating; an assessor's file that nobody stands behind is among that."""
    own = rating["assessor"]
    assessed = [f"assessor's file: {own['signature']}"] if own and own["signature"] != "signed" else []
    return [*(stamp["stamp"] for stamp in rating["stamps"]), *assessed]


def _moved(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> Document:
    """Say how a cluster moved, and which checks made it."""
    if before is None:
        return {"way": "new", "was": None, "why": []}
    was, is_now = rank(before), rank(now)
    unranked = min(was, is_now) < 0
    same = _place(before) == _place(now)
    way = "stayed" if same else "changed" if unranked else "rose" if is_now > was else "fell"
    why = [] if same else _why(before["against"], now["against"], TIERS[: max(was, is_now, 1)], way)
    if way != "stayed" and before["thresholds"] != now["thresholds"]:
        why.insert(0, "the two editions were judged by other thresholds")
    if now["lowered"] != before["lowered"]:
        why.insert(0, "the assessor's file " + ("lowers it now" if now["lowered"] else "lowers it no more"))
    return {"way": way, "was": _place(before), "why": why}


def _why(before: Mapping[str, Any], now: Mapping[str, Any], asked: Sequence[str], way: str) -> list[str]:
    """List the checks of these tiers that came out differently: first those that made it move this way."""
    then, since = (
        {check: found["verdict"] for check, found in against.items() if found["tier"] in asked}
        for against in (before, now)
    )
    worse = _alike((check, f"{_word(since[check])}, which it was not") for check in since.keys() - then)
    both = [check for check in since.keys() & then if since[check] != then[check]]
    other = _alike((check, f"{_word(then[check])} became {_word(since[check])}") for check in both)
    better = _alike((check, f"no longer {_word(then[check])}") for check in then.keys() - since)
    return [*better, *other, *worse] if way == "rose" else [*worse, *other, *better]


def _word(verdict: str) -> str:
    return VERDICTS[verdict].label.lower()


def _alike(told: Iterable[tuple[str, str]]) -> list[str]:
    """Put checks together of which the same is said."""
    checks: dict[str, list[str]] = defaultdict(list)
    for check, words in sorted(told):
        checks[words].append(check)
    return [f"{words}: {_named(named)}" for words, named in sorted(checks.items())]


def _named(checks: Sequence[str]) -> str:
    more = len(checks) - _SHOWN
    return ", ".join([*checks[:_SHOWN], *([f"and {more} more"] if more > 0 else [])])
