"""From verdicts to a medallion: the tier that was won, the ceiling still possible, and what holds each.

A tier is won when every check of it and of the tiers below is pass or skip, with no more warnings
than its rule allows, in every phase that the rule names. The ceiling counts what was not judged
(not run, unseen, error) as if it had passed; fails and warnings stay what they are.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from gpuassay.judge.catalog import TIERS
from gpuassay.judge.coverage import JUDGED
from gpuassay.judge.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpuassay.judge.catalog import TierRule

_EARNS = frozenset({Verdict.PASS, Verdict.SKIP, Verdict.WARN})

State = Literal["won", "not_rated", "underperforming", "unavailable"]


@dataclass(frozen=True, slots=True)
class Standing:
    """How one expected check stands; ``verdict`` None is not run.

    ``warned`` and ``caps_at_gold`` are proven by single rows, whatever graver verdict stands over them.
    """

    check: str
    tier: str
    phase: str
    verdict: Verdict | None
    reason: str = ""
    caps_at_gold: bool = False
    warned: bool = False

    @property
    def word(self) -> str:
        """Its verdict as a word."""
        return "not_run" if self.verdict is None else self.verdict.word


@dataclass(frozen=True, slots=True)
class Held:
    """One thing that holds a tier back."""

    tier: str
    check: str
    verdict: str
    reason: str


@dataclass(frozen=True, slots=True)
class Sum:
    """The arithmetic of one tier: its own checks and those of the tiers below."""

    tier: str
    checks: int
    counts: Mapping[str, int]
    warnings_allowed: int
    won: bool
    possible: bool


@dataclass(frozen=True, slots=True)
class Award:
    """The tier of a run. ``won`` is None unless the state is "won"; ``ceiling`` None if none is possible."""

    state: State
    won: str | None
    ceiling: str | None
    why: str
    held_from_won: tuple[Held, ...]
    held_from_ceiling: tuple[Held, ...]
    arithmetic: tuple[Sum, ...]

    def document(self) -> dict[str, Any]:
        """Give it as ``results.json`` has it."""
        return {
            "state": self.state,
            "won": self.won,
            "ceiling": self.ceiling,
            "why": self.why,
            "held_by": {
                "won": [asdict(held) for held in self.held_from_won],
                "ceiling": [asdict(held) for held in self.held_from_ceiling],
            },
            "arithmetic": [asdict(line) for line in self.arithmetic],
        }


def award(
    standings: Sequence[Standing],
    rules: Mapping[str, TierRule],
    *,
    accelerators_judged: int,
    barred: Sequence[str] = (),
) -> Award:
    """Compute the tier of a run.

    ``accelerators_judged`` counts the accelerators with at least one judged observation;
    ``barred`` are the reasons (undeclared, altered …) for which no tier can be won, only a ceiling shown.
    """
    lines: list[Sum] = []
    held_won: tuple[Held, ...] = ()
    held_ceiling: tuple[Held, ...] = ()
    won: str | None = None
    ceiling: str | None = None
    for tier in TIERS:
        own = [line for line in standings if TIERS.index(line.tier) <= TIERS.index(tier)]
        # What holds a tier holds every tier above it too, so the first answer stays.
        held_won = held_won or _against(tier, own, rules[tier], sure=True)
        held_ceiling = held_ceiling or _against(tier, own, rules[tier], sure=False)
        won = won if held_won else tier
        ceiling = ceiling if held_ceiling else tier
        counts = dict(Counter(line.word for line in own))
        lines.append(Sum(tier, len(own), counts, rules[tier].warnings, not held_won, not held_ceiling))
    state, why = _state(standings, won, accelerators_judged, barred)
    if state != "won":
        won = None
        lines = [replace(line, won=False) for line in lines]
    return Award(state, won, ceiling, why, held_won, held_ceiling, tuple(lines))


def held_back(standings: Sequence[Standing], rules: Mapping[str, TierRule]) -> dict[str, tuple[Held, ...]]:
    """List for each tier all that speaks against it now, what speaks against the tiers below included."""
    below = {tier: TIERS[: TIERS.index(tier) + 1] for tier in TIERS}
    own = {tier: [line for line in standings if line.tier in below[tier]] for tier in TIERS}
    return {tier: _against(tier, own[tier], rules[tier], sure=True) for tier in TIERS}


def _against(tier: str, own: Sequence[Standing], rule: TierRule, *, sure: bool) -> tuple[Held, ...]:
    """List what speaks against a tier: for sure, or even if all that was not judged had passed."""
    refused = frozenset({Verdict.FAIL}) if not sure else frozenset(Verdict) - _EARNS | {None}
    against = [line for line in own if line.verdict in refused]
    # Where all else is taken for passed, a warning below it comes to light.
    warned = [line for line in own if line.verdict is Verdict.WARN or (line.warned and line not in against)]
    if len(warned) > rule.warnings:
        against += warned
    if tier == "platinum":
        against += [line for line in own if line.caps_at_gold and line not in against]
    held = [_held(tier, line) for line in against]
    held += _unproven(tier, own, rule, sure=sure)
    return tuple(held)


def _unproven(tier: str, own: Sequence[Standing], rule: TierRule, *, sure: bool) -> Iterable[Held]:
    """Name the phases that prove nothing, for nothing was judged in them: skips alone win no tier."""
    for phase in rule.phases:
        of_phase = [line for line in own if line.phase == phase]
        if of_phase and all(line.verdict is Verdict.SKIP for line in of_phase):
            yield Held(tier, phase, "skip", f"every {phase} check was skipped")
        elif sure and not of_phase:
            yield Held(
                tier, phase, "not_run", f"this version has no {phase} checks, and the tier rests on them"
            )


def _held(tier: str, line: Standing) -> Held:
    return Held(tier, line.check, line.word, line.reason)


def _state(
    standings: Sequence[Standing], won: str | None, accelerators_judged: int, barred: Sequence[str]
) -> tuple[State, str]:
    ribbon = [line for line in standings if line.tier == TIERS[0]]
    failed = [line.check for line in ribbon if line.verdict is Verdict.FAIL]
    unjudged = [line.check for line in ribbon if line.verdict not in JUDGED | {Verdict.SKIP}]
    if accelerators_judged == 0:
        return "unavailable", "no accelerator was judged"
    if failed:
        return "underperforming", f"failed what even a ribbon needs: {', '.join(failed)}"
    if unjudged:
        return "not_rated", f"incomplete: a ribbon needs {', '.join(unjudged)}"
    if barred:
        return "not_rated", "; ".join(barred)
    if won is None:
        return "not_rated", "no tier is reached: see what holds the ribbon"
    return "won", f"every check of {won} and below is passed or does not apply"
