"""What cannot be tested, and people assess: a file of statements that lowers a tier and never raises it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpuassay.evidence.files import naming
from gpuassay.evidence.sums import hash_file
from gpuassay.judge.catalog import TIERS
from gpuassay.judge.config import DATE, TEXT, ConfigError, Mistake, Place, Table, items, word
from gpuassay.judge.documents import parse, read
from gpuassay.signing.assessment import UNSIGNED

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date
    from pathlib import Path

    from gpuassay.rating.words import Document
    from gpuassay.signing.assessment import Standing

ABOUT: Final = (
    "pricing",
    "partnerships",
    "availability",
    "delivery",
    "support",
    "ui",
    "scale",
    "long_term_reliability",
)
HOLDS: Final = "holds"
_UNDERPERFORMING: Final = "underperforming"
_VERDICTS: Final = (HOLDS, *(f"at_most_{tier}" for tier in TIERS[:-1]), _UNDERPERFORMING)


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement: what it is about, whose role made it, when, on what evidence, and what it does."""

    about: str
    says: str
    role: str
    date: date
    evidence: tuple[str, ...]
    verdict: str

    @property
    def most(self) -> str | None:
        """The highest tier that it leaves possible; None where no tier is left."""
        if self.verdict == HOLDS:
            return TIERS[-1]
        return None if self.verdict == _UNDERPERFORMING else self.verdict.removeprefix("at_most_")

    def document(self) -> Document:
        """Give it as ``rating.json`` has it."""
        return {
            "about": self.about,
            "says": self.says,
            "role": self.role,
            "date": self.date.isoformat(),
            "evidence": list(self.evidence),
            "verdict": self.verdict,
        }


@dataclass(frozen=True, slots=True)
class Assessment:
    """An assessor's file, and how it is signed: whatever came of that, it can lower a tier."""

    cluster: str
    sha256: str
    statements: tuple[Statement, ...]
    signature: Standing = UNSIGNED

    def document(self) -> Document:
        """Give it as ``rating.json`` has it; subjects of which nothing is said are named."""
        said = {one.about for one in self.statements}
        return {
            "sha256": self.sha256,
            "signature": self.signature.word,
            "signed_by": list(self.signature.by),
            "why": self.signature.why,
            "statements": [one.document() for one in self.statements],
            "silent_on": [about for about in ABOUT if about not in said],
        }


def load_assessment(path: Path, cluster: str | None) -> Assessment:
    """Read an assessor's file about a cluster (None: whichever it names).

    Raises ConfigError with every mistake in it, and RecordingError.
    """
    mistakes: list[Mistake] = []
    text = read(path)
    table = Table(parse(text, path.name), Place(path.name), mistakes)
    named = table.need("cluster", TEXT)
    statements = tuple(_statement(each) for each in table.array("statement"))
    table.close()
    if not statements:
        table.wrong("", "holds no [[statement]]; leave --assessor away where there is none")
    if named and cluster is not None and named != cluster:
        table.wrong("cluster", f"is about {named}, and the runs are of {cluster or 'a cluster without name'}")
    if mistakes:
        raise ConfigError(mistakes)
    with naming(path):
        digest = hash_file(path)
    ordered = tuple(sorted(statements, key=lambda one: (ABOUT.index(one.about), one.date, one.says)))
    return Assessment(named, digest, ordered)


def _statement(table: Table) -> Statement:
    found = Statement(
        about=table.need("about", word(ABOUT)),
        says=table.need("says", TEXT),
        role=table.need("role", TEXT),
        date=table.need("date", DATE),
        evidence=table.need("evidence", items(TEXT, 1)),
        verdict=table.need("verdict", word(_VERDICTS)),
    )
    table.close()
    return found


def lowered(won: str | None, statements: Iterable[Statement]) -> str | None:
    """Give the tier that is left of a computed one; nothing that is said can raise it."""
    for one in statements:
        if won is None or one.most is None:
            return None
        won = min(won, one.most, key=TIERS.index)
    return won
