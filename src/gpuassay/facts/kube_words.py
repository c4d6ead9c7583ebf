"""Objects of Kubernetes, read leniently: what is not there, or of another form, counts as not said."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from gpuassay.facts import source
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.facts.record import Record
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact


def listed(evidence: Evidence, kind: str) -> Fact[tuple[Record, ...]]:
    """Give the objects of a kind that were listed, or why they were not."""
    return source.document(evidence, f"kubernetes/{kind}").listed("items")


def text(record: Record, key: str) -> str:
    """Read a text; empty for none."""
    fact = record.look(key)
    return brief(fact.value) if isinstance(fact, Read) and isinstance(fact.value, str) else ""


def mapping(record: Record, key: str) -> Mapping[str, object]:
    """Read what maps texts to anything; empty for none."""
    fact = record.look(key)
    return fact.value if isinstance(fact, Read) and isinstance(fact.value, dict) else {}


def records(record: Record, key: str) -> tuple[Record, ...]:
    """Read a list of objects; empty for none."""
    fact = record.listed(key)
    return () if isinstance(fact, Unread) else fact.value


def texts(record: Record, key: str) -> frozenset[str]:
    """Read a list of texts; empty for none."""
    fact = record.look(key)
    values = fact.value if isinstance(fact, Read) and isinstance(fact.value, list) else ()
    return frozenset(value for value in values if isinstance(value, str))


def number(record: Record, key: str) -> int:
    """Read a count; what is absent is 0, as the API leaves such fields out."""
    fact = record.count(key)
    return fact.value if isinstance(fact, Read) else 0


def name(record: Record) -> str:
    """Give the name of an object; empty for one that has none."""
    return text(record.record("metadata"), "name")


def place(record: Record) -> str:
    """Give namespace and name of an object."""
    return f"{text(record.record('metadata'), 'namespace')}/{name(record)}"


def moment(record: Record, key: str) -> datetime | None:
    """Read a time; None for what is none."""
    try:
        found = datetime.fromisoformat(text(record, key))
    except ValueError:
        return None
    return found if found.tzinfo else None
