"""The catalogue: what it holds when it is sound, and where it says a mistake is when it is not."""

from __future__ import annotations

import tomllib
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuassay.judge.catalog import Catalog, load_catalog
from gpuassay.judge.config import ConfigError
from gpuassay.judge.documents import digest, write
from judge_tables import ADVISORIES, THRESHOLDS, catalog, changed, told

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def tables(tmp_path: Path) -> Catalog:
    """Read the sound tables."""
    return catalog(tmp_path)


def test_check(tables: Catalog) -> None:
    """A check has all that its table says, defaults for the rest, and the path of its function."""
    check = tables.checks["audit.health.row_remaps"]
    assert check.path == "tests_audit/test_health.py::test_row_remaps"
    assert (check.phase, check.category, check.tier, check.over) == ("audit", "reliability", "bronze", "gpu")
    assert (check.needs, check.seat, check.fault) == (("gpu",), "tenant", "component")
    assert list(check.limits) == ["pending", "failed", "banks_exhausted"]
    plain = tables.checks["audit.versions.driver"]
    assert (plain.needs, plain.seat, plain.fault) == ((), "tenant", "design")


def test_tables(tables: Catalog) -> None:
    """Tiers, needs, profiles, advisories and the names that limits use are there."""
    assert list(tables.tiers) == ["ribbon", "bronze", "silver", "gold", "platinum"]
    assert (tables.tiers["gold"].warnings, tables.tiers["gold"].phases) == (
        1,
        ("audit", "perf", "reliability"),
    )
    assert tables.needs["gpu"] == "the node has accelerators"
    assert tables.profiles["rating"].requires == ("gpu",)
    assert tables.contract_keys == {"gpus", "racks"}
    assert tables.figures == {"nvlinks", "tflops"}
    advisory = tables.advisories["nvidia-1"]
    assert advisory.date == date(2026, 5, 21)
    assert [advisory.first_fixed(each) for each in ("1.0", "575", "580.1")] == [
        "570.211.01",
        None,
        "580.159.03",
    ]


def test_accelerator(tables: Catalog) -> None:
    """A product is found by its exact name or id; a part of one finds nothing, two products are an error."""
    b200 = tables.accelerator_of(("NVIDIA B200",))
    assert b200 is tables.accelerators["b200"] is tables.accelerator_of(("odd name", "10de:2901"))
    assert b200 is not None
    assert (b200.figures["nvlinks"].value, b200.figures["nvlinks"].source) == (18, "data sheet")
    assert (b200.figures["tflops"].source, b200.figures["tflops"].provisional) == (
        "somebody's measurement",
        True,
    )
    assert tables.accelerator_of(("NVIDIA GH200",)) is None
    assert tables.accelerator_of(()) is None
    with pytest.raises(LookupError, match=r"\[accelerator.b200\] and \[accelerator.gh200\]"):
        tables.accelerator_of(("NVIDIA GH200 480GB", "10de:2901"))


def test_lacks(tables: Catalog) -> None:
    """A product may lack one metric of a check, or all of them."""
    gh200 = tables.accelerators["gh200"]
    assert gh200.lacks_metric("audit.health.row_remaps", "failed")
    assert not gh200.lacks_metric("audit.health.row_remaps", "pending")
    assert gh200.lacks_metric("perf.gemm.bf16", "tflops")


def test_digest(tables: Catalog, tmp_path: Path) -> None:
    """Comments, spaces and the order of keys leave the digest alone; a number does not."""
    other = changed(
        THRESHOLDS, 'tier = "ribbon"\nover = "node"', 'over   = "node" # a comment\ntier = "ribbon"'
    )
    assert catalog(tmp_path, other).digest == tables.digest
    assert catalog(tmp_path, changed(THRESHOLDS, "0.98", "0.97")).digest != tables.digest
    assert catalog(tmp_path, advisories=changed(ADVISORIES, "159", "160")).digest != tables.digest


# What is changed in the tables, and the line that then tells of it: file, table, key and some of the words.
MISTAKES: list[tuple[str, str, str]] = [
    # checks
    ('category = "security"\n', "", "[audit.versions.driver] category: is missing; expected one of security"),
    ('"security"', '"secrutiy"', '[audit.versions.driver] category: expected one of security, *"security"?'),
    ('tier = "silver"\n', "", "[audit.versions.driver] tier: is missing"),
    ('tier = "silver"', 'tier = ["silver"]', "[audit.versions.driver] tier: expected one of ribbon"),
    ('tier = "silver"', 'tier = "unobtainium"', "[audit.versions.driver] tier: expected one of ribbon"),
    ('source = "bulletins"\n', "", "[audit.versions.driver] source: is missing; expected a text in quotes"),
    ('source = "bulletins"', 'source = " "', "[audit.versions.driver] source: expected a text in quotes"),
    ('over = "node"\nsource = "bulletins"', 'source = "x"', "[audit.versions.driver] over: is missing"),
    (
        'over = "node"\nsource = "bul',
        'over = "disk"\nsource = "bul',
        "[audit.versions.driver] over: expected",
    ),
    ('seat = "tenant"', 'seat = "tennant"', '[audit.health.row_remaps] seat: *"tenant"?'),
    ('fault = "component"', 'fault = "bad"', "[audit.health.row_remaps] fault: expected one of component"),
    (
        'needs = ["gpu"]\nseat',
        'needs = ["gppu"]\nseat',
        '[audit.health.row_remaps] needs: *did you mean "gpu"?',
    ),
    ('needs = ["gpu"]\nseat', 'needs = "gpu"\nseat', "[audit.health.row_remaps] needs: expected a list"),
    ('fault = "comp', 'fualt = "comp', '[audit.health.row_remaps] fualt: unknown; *did you mean "fault"?'),
    (
        "pending = { is = false }",
        "pending = false",
        "[audit.health.row_remaps] pending: unknown; expected one of",
    ),
    ("pending = { is = false }", "pending = {}", "[audit.health.row_remaps] pending: expected a limit"),
    (
        "pending = { is = false }",
        "pending = { is = 0, el = 1 }",
        "[audit.health.row_remaps] pending.el: unknown",
    ),
    (
        "warn_above = 0",
        'warn_above = "0"',
        "[audit.health.row_remaps] banks_exhausted.warn_above: expected a finite",
    ),
    (
        "platinum_below = 0.98",
        "warn_below = 0.8",
        "[perf.gemm.bf16] tflops.warn_below: expected more than fail_below",
    ),
    (
        '"accelerator.tflops"',
        '"accelerator.tflop"',
        "[perf.gemm.bf16] tflops: no [accelerator] table has *tflops",
    ),
    (
        '"accelerator.tflops"',
        '"accelerators.tflops"',
        "[perf.gemm.bf16] tflops.of: expected one of accelerator.NAME",
    ),
    ('["nvidia-1"]', '["nvidia-2"]', "[audit.versions.driver] version.not_affected_by: *nvidia-1"),
    (', as = "dotted" }', " }", "[audit.versions.driver] version.as: is missing"),
    (
        'version = { at_least = "570"',
        'version = { at_least = "R570"',
        "[audit.versions.driver] version.at_least:",
    ),
    (
        "[audit.versions.driver]",
        "[audit.versions.Driver]",
        "[audit.versions.Driver]: expected the names of a test",
    ),
    ("[audit.versions.driver]", "[audits.versions.driver]", 'audits: unknown; *did you mean "audit"?'),
    ("[audit.versions.driver]", "[measuring.versions.driver]", "measuring: unknown; expected one of"),
    ("[audit.versions.driver]", "[audit]\nversions = 3\n[x]", "[audit.versions]: expected a table, found 3"),
    (
        'version = { at_least = "570", not_affected_by = ["nvidia-1"], as = "dotted" }',
        "",
        "[audit.versions.driver]: has no metric; expected at least one",
    ),
    # accelerators
    ('match = ["NVIDIA B200", "10de:2901"]\n', "", "[accelerator.b200] match: is missing; expected a list"),
    (
        'match = ["NVIDIA B200", "10de:2901"]',
        "match = []",
        "[accelerator.b200] match: expected a list of at least 1",
    ),
    ('"10de:2901"]', '"10DE:2901"]', "[accelerator.b200] match: expected a PCI id in small letters"),
    ('["NVIDIA GH200 480GB"]', '["10de:2901"]', "[accelerator.gh200] match: 10de:2901 is matched by *b200"),
    ('lacks = []\nsource = "data sheet"', "lacks = []", "[accelerator.b200] source: is missing"),
    (
        '"perf.gemm.bf16"]',
        '"perf.gemm.fp16"]',
        '[accelerator.gh200] lacks: perf.gemm.fp16 *"perf.gemm.bf16"?',
    ),
    (
        'remaps.failed"',
        'remaps.flailed"',
        "[accelerator.gh200] lacks: audit.health.row_remaps.flailed is no check",
    ),
    ("nvlinks = 18", "nvlinks = [18]", "[accelerator.b200] nvlinks: expected a text, a finite number"),
    ("{ is = 1439, sou", "{ was = 1439, sou", "[accelerator.b200] tflops.is: is missing"),
    ("is = 1439", "is = inf", "[accelerator.b200] tflops.is: expected"),
    ("provisional = true }", "provisonal = true }", '[accelerator.b200] tflops.provisonal: *"provisional"?'),
    # tiers, needs, profiles
    (
        "gold = { warnings = 1",
        "gold = { warnings = 4",
        "[tiers.gold] warnings: expected no more than silver has, 3",
    ),
    (
        "gold = { warnings = 1",
        "gold = { warnings = -1",
        "[tiers.gold] warnings: expected a whole number, 0 or more",
    ),
    ("gold = { warnings = 1", "gold = { warnings = true", "[tiers.gold] warnings: expected a whole number"),
    ("gold = {", "glod = {", '[tiers] glod: unknown; expected one of ribbon, *did you mean "gold"?'),
    ("gold = {", "glod = {", "[tiers] gold: is missing"),
    (
        'ribbon = { warnings = 4, phases = ["audit"] }',
        "ribbon = 4",
        "[tiers.ribbon]: expected a table, found 4",
    ),
    ('phases = ["audit"] }', 'phases = ["audits"] }', '[tiers.ribbon] phases: *did you mean "audit"?'),
    ('"the node has accelerators"', "true", "[needs] gpu: expected a text in quotes; found true"),
    ('requires = ["gpu"]', 'requires = ["tpu"]', '[profile.rating] requires: *did you mean "gpu"?'),
    ('requires = ["gpu"]', 'require = ["gpu"]', "[profile.rating] requires: is missing"),
]


@pytest.mark.parametrize(("old", "new", "expected"), MISTAKES)
def test_mistakes_in_thresholds(tmp_path: Path, old: str, new: str, expected: str) -> None:
    """Each mistake is told on one line that names the file, the table, the key and what was expected."""
    with pytest.raises(ConfigError) as caught:
        catalog(tmp_path, changed(THRESHOLDS, old, new))
    assert told(caught.value, f"thresholds.toml: {expected}")


ADVISORY_MISTAKES = [
    ('scheme = "dotted"\n', "", "[advisory.nvidia-1] scheme: is missing"),
    ('scheme = "dotted"', 'scheme = "dots"', "[advisory.nvidia-1] scheme: expected one of pep440"),
    ('product = "NVIDIA driver"\n', "", "[advisory.nvidia-1] product: is missing"),
    ('source = "bulletin 1"\n', "", "[advisory.nvidia-1] source: is missing"),
    ("date = 2026-05-21", 'date = "2026-05-21"', "[advisory.nvidia-1] date: expected a date such as"),
    ("date = 2026-05-21", "date = 2026-05-21T10:00:00", "[advisory.nvidia-1] date: expected a date such as"),
    ('before = "570.211.01"', 'befor = "570.211.01"', "[advisory.nvidia-1] affected[1].before: is missing"),
    (
        'from = "580", b',
        'from = "590", b',
        "[advisory.nvidia-1] affected[2].before: expected a version above 590",
    ),
    (
        'from = "580", b',
        'from = "R580", b',
        "[advisory.nvidia-1] affected[2].from: expected a version in the dotted",
    ),
    ("affected = [", "affected = []\nx = [", "[advisory.nvidia-1] affected: expected ranges such as"),
    ("date = 2026-05-21", "date = 2026-05-21\nurl = 1", "[advisory.nvidia-1] url: unknown"),
    ("[advisory.nvidia-1]", "[advisories.nvidia-1]", 'advisories: unknown; *did you mean "advisory"?'),
]


@pytest.mark.parametrize(("old", "new", "expected"), ADVISORY_MISTAKES)
def test_mistakes_in_advisories(tmp_path: Path, old: str, new: str, expected: str) -> None:
    """The same for the file of advisories."""
    with pytest.raises(ConfigError) as caught:
        catalog(tmp_path, advisories=changed(ADVISORIES, old, new))
    assert told(caught.value, f"advisories.toml: {expected}")


def test_all_mistakes_at_once(tmp_path: Path) -> None:
    """Mistakes of both files come together, a line each, and each knows its place."""
    thresholds = changed(changed(THRESHOLDS, 'tier = "silver"\n', ""), "nvlinks = 18", "nvlinks = []")
    with pytest.raises(ConfigError) as caught:
        catalog(tmp_path, thresholds, changed(ADVISORIES, 'source = "bulletin 1"\n', ""))
    places = [(m.place.file, m.place.table, m.place.key) for m in caught.value.mistakes]
    assert places == [
        ("advisories.toml", "[advisory.nvidia-1]", "source"),
        ("thresholds.toml", "[accelerator.b200]", "nvlinks"),
        ("thresholds.toml", "[audit.versions.driver]", "tier"),
    ]
    assert len(str(caught.value).splitlines()) == 3


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            b"[tiers\n",
            "thresholds.toml: is not TOML: Expected ']' at the end of a table declaration (at line 1",
        ),
        (b"[needs]\n[needs]\n", "thresholds.toml: is not TOML: Cannot declare"),
        (b"x = " + b"9" * 5000, "thresholds.toml: is not TOML: "),
        (b"x = " + b"[" * 5000, "thresholds.toml: is not TOML: "),
        (b"\xff\xfe", "cannot be read: it is not UTF-8 text"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_files_that_are_none(tmp_path: Path, content: bytes | None, expected: str) -> None:
    """A file that is no TOML, no text or not there is a mistake like any other, with its line if it can."""
    (tmp_path / "advisories.toml").write_text(ADVISORIES, encoding="utf-8")
    if content is not None:
        (tmp_path / "thresholds.toml").write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_catalog(tmp_path / "thresholds.toml", tmp_path / "advisories.toml")
    assert expected in str(caught.value)


KEYS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=5)
PLAIN = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    KEYS,
    st.dates(),
)
DOCUMENTS = st.dictionaries(
    KEYS,
    st.recursive(
        PLAIN,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)


@settings(deadline=None)  # a busy machine is no defect
@given(document=DOCUMENTS)
def test_documents_round_trip(document: dict[str, Any]) -> None:
    """What is written as TOML is read back the same, and has the same digest."""
    again = tomllib.loads(write(document))
    assert again == document
    assert digest(again) == digest(document)
