"""The words of every report: what verdicts, tiers, stamps and seats are called, and what each means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuassay.judge.wording import show
from gpuassay.report.fold import fold
from gpuassay.report.places import shorten

if TYPE_CHECKING:
    from collections.abc import Mapping

STATEMENT = "Computed by GPUassay's published rules; not SemiAnalysis's rating."


@dataclass(frozen=True, slots=True)
class Word:
    """A verdict (or "not run") as people read it.

    ``key`` is how files write it and what CSS calls it; ``outcome`` is pytest's own word for it,
    ``letter`` the one that pytest prints for a check, ``colour`` how a terminal marks it.
    """

    key: str
    label: str
    sentence: str
    outcome: str
    letter: str
    colour: str


# In the order in which a reader needs them: what is wrong comes first, what is in order comes last.
VERDICTS: Mapping[str, Word] = {
    word.key: word
    for word in (
        Word("fail", "Fail", "Seen, and not what it has to be.", "failed", "F", "red"),
        Word(
            "error",
            "Error",
            "It could have been seen and was not: a tool failed, a node was silent. It earns nothing.",
            "failed",
            "E",
            "purple",
        ),
        Word(
            "warn",
            "Warn",
            "Seen, and short of what is recommended. A tier allows only so many.",
            "passed",
            "w",
            "yellow",
        ),
        Word(
            "unseen", "Unseen", "It cannot be seen from this seat. It earns nothing.", "skipped", "u", "cyan"
        ),
        Word("not_run", "Not run", "Expected, and not run. It earns nothing.", "skipped", "n", "blue"),
        Word("pass", "Pass", "Seen, and within its limit.", "passed", ".", "green"),
        Word("skip", "Skip", "It does not apply here, on a stated ground.", "skipped", "s", "white"),
    )
}
ORDER: Mapping[str, int] = {key: rank for rank, key in enumerate(VERDICTS)}
WRONG = ("fail", "error", "warn")
FINDINGS = (*WRONG, "unseen")
IN_ORDER = ("pass", "skip")

TIERS: Mapping[str, str] = {
    "ribbon": "Participation Ribbon",
    "bronze": "Bronze",
    "silver": "Silver",
    "gold": "Gold",
    "platinum": "Platinum",
}
TIER_ORDER: Mapping[str, int] = {key: rank for rank, key in enumerate(TIERS)}

PHASES: Mapping[str, str] = {"audit": "audit", "perf": "performance", "reliability": "reliability"}

STATES: Mapping[str, tuple[str, str]] = {
    "won": ("Won", "Every check of this tier, and of the tiers below it, was judged and holds."),
    "not_rated": ("Not rated", "Not everything that a tier asks has been judged."),
    "underperforming": ("Underperforming", "A check that even the Participation Ribbon asks has failed."),
    "unavailable": ("Unavailable", "There was no accelerator that could be judged."),
}

# What the medallion says, in lines short enough for a coin.
COIN: Mapping[str, tuple[str, ...]] = {
    **{key: (name,) for key, name in TIERS.items()},
    "ribbon": ("Participation", "Ribbon"),
    "not_rated": ("Not rated",),
    "underperforming": ("Under-", "performing"),
    "unavailable": ("Unavailable",),
}

WAIVERS: Mapping[str, str] = {
    "used": "used",
    "expired": "expired: the fail stands",
    "unmatched": "matched nothing",
}

SEATS: Mapping[str, str] = {
    "tenant": "a user who may read what was denied here",
    "root": "root on the nodes",
    "host": "the host below the virtual machine or the container",
    "fabric": "the fabric's own manager",
    "provider": "the provider's own systems",
}

SEALS: Mapping[str, str] = {
    "sealed": "the recording matches its sums",
    "unsealed": "the recording carries no sums",
    "altered": "the recording does not match its sums",
}

_PLURALS: Mapping[str, tuple[str, str]] = {
    "gpu": ("GPU", "GPUs"),
    "nic": ("NIC", "NICs"),
    "class": ("class", "classes"),
}


def plural(count: int, one: str, many: str = "") -> str:
    """Write a count with its noun: ``1 node``, ``1,000 nodes``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def counted(count: int, over: str) -> str:
    """Write how many subjects of a domain: ``8 GPUs``."""
    one, many = _PLURALS.get(over, (over, f"{over}s"))
    return plural(count, one, many)


def value(found: object) -> str:
    """Write an observed value as reasons do, and nothing as a dash."""
    return "—" if found is None else show(found)


def at(coordinate: Mapping[str, str]) -> str:
    """Write where on a curve a value was taken: ``size 16GiB``."""
    return ", ".join(f"{axis} {point}" for axis, point in coordinate.items())


def period(begin: str | None, end: str | None) -> str:
    """Write when a recording was taken, from its two ISO times: ``2026-11-30 09:00:00 to 09:00:42 UTC``."""
    if begin is None or end is None:
        return "at a time that was not recorded"
    (day, start), (last, stop) = (time.rstrip("Z").split("T") for time in (begin, end))
    return f"{day} {start} to {stop if day == last else f'{last} {stop}'} UTC"


def compared(earlier: Mapping[str, Any]) -> str:
    """Name an earlier recording: its digest, its time, its seal, and which nodes only one of the two has."""
    words = [f"{earlier['digest'][:16]} of {period(earlier['begin'], earlier['end'])}", earlier["seal"]]
    for key, what in (("new", "not in it"), ("gone", "in it alone")):
        if earlier[key]:
            words.append(f"{what}: {shorten(fold(earlier[key]))}")
    return ", ".join(words)


def sentence(text: str) -> str:
    """Write a phrase of the judge as a sentence of its own."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}"


def status(verdict: str) -> tuple[str, str, tuple[str, dict[str, bool]]]:
    """Give what ``pytest_report_teststatus`` answers for a check: pytest's category, a letter, a word."""
    word = VERDICTS[verdict]
    return word.outcome, word.letter, (word.label.upper(), {word.colour: True})


def headline(tier: Mapping[str, Any]) -> str:
    """Name what came out: the tier that was won, or the state that stands in its place."""
    return TIERS[tier["won"]] if tier["won"] else STATES[tier["state"]][0]


def tally(counts: Mapping[str, int], order: Mapping[str, int] = ORDER) -> list[tuple[str, int]]:
    """List the verdicts that occur, in a reader's order: ``[("fail", 1), ("pass", 31)]``."""
    return sorted(((key, n) for key, n in counts.items() if n), key=lambda pair: order[pair[0]])
