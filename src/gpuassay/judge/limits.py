"""What a metric is held to: read from one inline table of TOML, and the one place that compares."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from gpuassay.judge.advised import Advised
from gpuassay.judge.advisories import Advisory, version
from gpuassay.judge.config import (
    FLAG,
    NUMBER,
    SCALAR,
    TEXT,
    ConfigError,
    Kind,
    Mistake,
    Place,
    Table,
    items,
    shown,
    word,
)
from gpuassay.judge.rules import BOUNDS, Bands, Equal, OneOf, Reference, Rule, Ungradable, Unique, Versions
from gpuassay.judge.verdict import Verdict
from gpuassay.judge.versions import SCHEMES, line_of
from gpuassay.judge.wording import kind_of, show

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpuassay.judge.fact import Scalar

__all__ = ["Advisory", "Grade", "Limit", "Reference", "read_limit"]


@dataclass(frozen=True, slots=True)
class Grade:
    """What a limit makes of a value.

    ``reason`` goes on after the name of the metric: "is 8, fails below 1.00 of 16 (0.50)". A pass needs
    none, unless it ``caps_at_gold``.
    """

    verdict: Verdict
    reason: str = ""
    caps_at_gold: bool = False
    reference: Scalar | None = None


@dataclass(frozen=True, slots=True)
class Limit:
    """What ``thresholds.toml`` or a site file says of one metric.

    ``softened`` turns a fail into a warning; ``provisional`` is judged and shown, but does not count.
    ``otherwise`` is the reference where the contract, which comes first, says nothing.
    """

    rule: Rule
    softened: bool = False
    provisional: bool = False
    unit: str = ""
    otherwise: Reference | None = None

    @classmethod
    def parse(cls, data: object, where: Place, advisories: Mapping[str, Advisory]) -> Limit:
        """Read an inline table such as ``{ fail_below = 0.9, of = "accelerator.x" }``; raises ConfigError."""
        mistakes: list[Mistake] = []
        limit = read_limit(Table({where.key: data}, replace(where, key=""), mistakes), where.key, advisories)
        if mistakes:
            raise ConfigError(mistakes)
        return limit

    @property
    def of(self) -> Reference | None:
        """What the caller must resolve to a reference before it asks for a grade."""
        return self.rule.of if isinstance(self.rule, (Advised, Bands, Equal)) else None

    @property
    def same(self) -> bool:
        """Whether the reference is the value that most of the pool has."""
        return isinstance(self.rule, Equal) and self.rule.of is None

    @property
    def shares(self) -> Mapping[str, float]:
        """The bounds that are shares of a figure of accelerator or subject: what a picture can draw in."""
        if isinstance(self.rule, Bands) and self.rule.of and self.rule.of.root in ("accelerator", "subject"):
            return dict(self.rule.bounds)
        return {}

    @property
    def beyond(self) -> float | None:
        """How many robust deviations from its pool a value must be to be outside; None: any."""
        return self.rule.beyond if isinstance(self.rule, Bands) else None

    @property
    def unique_to(self) -> str:
        """Whose alone the value must be, "subject" or "node"; empty for any other limit."""
        return self.rule.to if isinstance(self.rule, Unique) else ""

    @property
    def can_fail(self) -> bool:
        """Whether there is a value that fails; of some things a limit only warns."""
        hard = not isinstance(self.rule, Bands) or any(bound.startswith("fail") for bound in self.rule.bounds)
        return hard and not self.softened

    @property
    def text(self) -> str:
        """The limit in plain words: "fail below 0.90 of accelerator.bf16_sustained_tflops"."""
        unit = f" {self.unit}" if self.unit and self.of is None else ""
        softened = ", else warn" if self.softened else ""
        otherwise = f", where undeclared of {self.otherwise}" if self.otherwise else ""
        return f"{self.rule.text}{otherwise}{unit}{softened}{' (provisional)' if self.provisional else ''}"

    def grade(self, value: Scalar, reference: Scalar | None = None) -> Grade:
        """Compare a value. What cannot be compared (NaN, a wrong type, a lacking reference) is an error."""
        shown_beside = None if isinstance(self.rule, Advised) else reference  # a day is no figure
        try:
            finding = self.rule.find(value, reference)
        except Ungradable as why:
            return Grade(Verdict.ERROR, f"is {show(value)}, {why}", reference=shown_beside)
        if finding is None:
            return Grade(Verdict.PASS, reference=shown_beside)
        verdict = Verdict.WARN if self.softened and finding.verdict is Verdict.FAIL else finding.verdict
        unit = f" {self.unit}" if self.unit else ""
        reason = f"is {finding.shown or show(value)}{unit}, {finding.phrase}"
        return Grade(verdict, reason, finding.caps_at_gold, shown_beside)

    def loosens(self, other: Limit) -> bool:
        """Tell whether some value may fare better under this limit than under the other; when unsure, yes."""
        return (
            self.softened > other.softened
            or self.provisional > other.provisional
            or self.otherwise != other.otherwise
            or not self.rule.as_strict_as(other.rule)
        )


_NOTHING = Limit(OneOf((False,)))  # stands in for a limit with a mistake, which is never used
_EXAMPLES = (
    'expected a limit such as { is = false }, { fail_below = 1 } or { at_least = "1.19.1", as = "dotted" }'
)


def read_limit(holder: Table, key: str, advisories: Mapping[str, Advisory]) -> Limit:
    """Read the limit at a key; mistakes are noted in its table."""
    if not isinstance(holder.data[key], dict):
        holder.wrong(key, f"{_EXAMPLES}, found {shown(holder.data[key])}")
        return _NOTHING
    table = holder.inline(key)
    kinds = [kind for kind, (keys, _) in _KINDS.items() if not table.data.keys().isdisjoint(keys)]
    if len(kinds) != 1:
        found = " and ".join(kinds) or ", ".join(table.data) or "nothing"
        table.wrong("", f"{_EXAMPLES}; one kind of limit, found {found}")
        return _NOTHING
    rule = _KINDS[kinds[0]][1](table, advisories)
    softens = kinds[0] != "bounds"  # bounds have words for it: warn_below and warn_above
    limit = Limit(
        rule,
        softened=softens and table.take("else", word(["warn"]), "") == "warn",
        provisional=table.take("provisional", FLAG, default=False),
        unit=table.take("unit", TEXT, ""),
        otherwise=table.take("else_of", _reference("accelerator", "subject"), None),
    )
    if limit.otherwise and not (limit.of and limit.of.root == "contract"):
        table.wrong("else_of", "expected beside a reference to the contract, which comes first")
    table.close()
    return limit


def _bands(table: Table, _: Mapping[str, Advisory]) -> Rule:
    read = {name: table.take(name, NUMBER, None) for name in BOUNDS}
    bounds = {name: bound for name, bound in read.items() if bound is not None}
    if not bounds:
        table.wrong("", f"expected a bound beside `of`: one of {', '.join(BOUNDS)}")
    for (low, less), (high, more) in pairwise(bounds.items()):
        if not less < more:
            table.wrong(high, f"expected more than {low}, which is {show(less)}; found {show(more)}")
    of = table.take("of", _reference("accelerator", "subject", "contract", "pool"), None)
    beyond = table.take("beyond", NUMBER, None)
    if beyond is not None and (beyond <= 0 or of is None or of.root != "pool"):
        table.wrong("beyond", 'expected a number above 0, beside of = "pool.median"')
    doubt = table.take("doubt_above", NUMBER, None)
    if doubt is not None and doubt <= max(bounds.values(), default=0.0):
        table.wrong("doubt_above", "expected more than every bound beside it")
    return Bands(bounds, of, beyond, doubt)


def _is(table: Table, _: Mapping[str, Advisory]) -> Rule:
    return OneOf((table.need("is", SCALAR),))


def _one_of(table: Table, _: Mapping[str, Advisory]) -> Rule:
    values = table.need("one_of", items(SCALAR, least=1))
    if len({kind_of(value) for value in values}) > 1:
        table.wrong("one_of", f"expected values of one kind, found {shown(list(values))}")
    return OneOf(values)


def _is_of(table: Table, _: Mapping[str, Advisory]) -> Rule:
    return Equal(table.need("is_of", _reference("accelerator", "subject", "contract")))


def _same(table: Table, _: Mapping[str, Advisory]) -> Rule:
    table.need("same", _TRUE)
    return Equal()


def _unique(table: Table, _: Mapping[str, Advisory]) -> Rule:
    return Unique(table.need("unique_to", word(["subject", "node"])))


def _versions(table: Table, advisories: Mapping[str, Advisory]) -> Rule:
    scheme = table.need("as", word(SCHEMES))
    if not scheme:
        table.rest()  # without a scheme nothing can be said of them
        return _NOTHING.rule
    if table.data.keys().isdisjoint(_VERSIONS):
        table.wrong("", f"expected one of {', '.join(_VERSIONS)} beside `as`")
    known = word(advisories, "an [advisory] of advisories.toml")
    named = table.take("not_affected_by", items(known, least=1), ())
    for other in (advisories[name] for name in named):
        if other.scheme != scheme:
            table.wrong("not_affected_by", f"{other.id} orders versions as {other.scheme}, not as {scheme}")
    floor = table.take("at_least", version(scheme), "")
    return Versions(scheme, floor, _per_line(table, scheme), tuple(advisories[name] for name in named))


def _per_line(table: Table, scheme: str) -> Mapping[str, str]:
    if "per_line" not in table.data:
        return {}
    lines, kind = table.inline("per_line"), version(scheme)
    if table.data["per_line"] == {}:
        lines.wrong("", 'expected at least one line, such as { "580" = "580.159.03" }')
    floors = {line: lines.need(line, kind) for line in lines.data}
    for line, floor in floors.items():
        if not kind.fits(line):
            lines.wrong(line, f"expected the beginning of versions in the {scheme} scheme")
        elif floor and line_of(floor, [line]) is None:
            lines.wrong(line, f"expected a version of this line, such as {line}.1; found {floor}")
    return floors


def _advised(table: Table, advisories: Mapping[str, Advisory]) -> Rule:
    known = {one.component: None for one in advisories.values() if one.component}
    component = table.need("advised", word(known, "a component of advisories.toml"))
    return Advised(
        component, tuple(one for one in advisories.values() if component and one.component == component)
    )


_VERSIONS = ("at_least", "per_line", "not_affected_by")
_KINDS: Mapping[str, tuple[tuple[str, ...], Callable[[Table, Mapping[str, Advisory]], Rule]]] = {
    "bounds": ((*BOUNDS, "of"), _bands),
    "is": (("is",), _is),
    "one_of": (("one_of",), _one_of),
    "is_of": (("is_of",), _is_of),
    "same": (("same",), _same),
    "unique_to": (("unique_to",), _unique),
    "versions": ((*_VERSIONS, "as"), _versions),
    "advised": (("advised",), _advised),
}


def _only_true(value: object) -> bool:
    if value is not True:
        raise ValueError
    return True


_TRUE = Kind("true, or no such limit", _only_true, filler=True)


def _reference(*roots: str) -> Kind[Reference]:
    pattern = re.compile(rf"({'|'.join(roots)})\.([a-z][a-z0-9_]*)")

    def read(value: object) -> Reference:
        found = pattern.fullmatch(TEXT.read(value))
        if found is None or (found[1] == "pool" and found[2] != "median"):
            raise ValueError
        return Reference(found[1], found[2])

    named = [f"{root}.{'median' if root == 'pool' else 'NAME'}" for root in roots]
    return Kind(f"one of {', '.join(named)}", read, Reference("", ""))
