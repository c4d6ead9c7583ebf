"""The schema of results.json: it takes what we write, and nothing that it does not know."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from report_sample import earlier, results, tier

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = json.loads((Path(__file__).parent.parent / "docs" / "schemas" / "results.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def test_the_schema_is_one() -> None:
    """It is valid draft 2020-12 itself."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_a_document_with_everything_is_valid() -> None:
    """The documents that the reports are tested with have the shape that they claim."""
    VALIDATOR.validate(results())
    VALIDATOR.validate(results(earlier=earlier(new=["gpu005"])))
    plan = {"sha256": "ab" * 32, "signed_by": [], "differs": ["version: 1 was agreed, 2 was used"]}
    VALIDATOR.validate(results(plan=plan))
    VALIDATOR.validate(results(tier=tier("won", won="gold", ceiling="platinum")))


def objects(node: Any) -> Iterator[dict[str, Any]]:
    """Walk all objects of a document."""
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from objects(value)
    elif isinstance(node, list):
        for value in node:
            yield from objects(value)


def test_an_unknown_key_is_refused_everywhere() -> None:
    """A misspelt key is found wherever it stands; only checks, limits and coordinates have free names."""
    document = results(earlier=earlier())
    free = [document["checks"], *(check["limits"] for check in document["checks"].values())]
    free += [row["at"] for check in document["checks"].values() for row in check["observations"]]
    for node in objects(document):
        if not any(node is each for each in free):
            node["surprise"] = 1
            assert not VALIDATOR.is_valid(document), node
            del node["surprise"]
    assert VALIDATOR.is_valid(document)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("tier", "won"), "gold"),  # not won, and yet a tier
        (("coverage", "nodes", "answered"), 3.5),
        (("recording", "digest"), "cdcd"),
        (("recording", "end"), "yesterday"),
        (("checks", "audit.health.ecc", "verdict"), "ok"),
        (("checks", "audit.health.ecc", "over"), "rack"),
    ],
)
def test_what_cannot_be_is_refused(path: tuple[str, ...], value: object) -> None:
    """Values out of their kind are found."""
    document = copy.deepcopy(results())
    *parents, last = path
    node: Any = document
    for key in parents:
        node = node[key]
    node[last] = value
    assert not VALIDATOR.is_valid(document)
