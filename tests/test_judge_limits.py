"""Limits: what each kind accepts, how it says what it does not, and that worse never fares better."""

from __future__ import annotations

import math
from datetime import date
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuassay.judge.advisories import Advisory
from gpuassay.judge.config import ConfigError, Place
from gpuassay.judge.limits import Limit
from gpuassay.judge.rules import BOUNDS
from gpuassay.judge.verdict import Verdict

if TYPE_CHECKING:
    from gpuassay.judge.fact import Scalar
    from gpuassay.judge.limits import Grade

PLACE = Place("thresholds.toml", "[audit.health.row_remaps]", "metric")
ADVISORIES = {
    "old": Advisory(
        "old", "driver", "dotted", (("535", "535.288.01"), ("580", "580.126.09")), "bulletin 1", date.min
    ),
    "new": Advisory(
        "new", "driver", "dotted", ((None, "1.2"), ("580", "580.159.03")), "bulletin 2", date.min
    ),
    "runc": Advisory("runc", "runc", "pep440", ((None, "1.3.6"),), "bulletin 3", date.min),
}
LINES = {"as": "dotted", "per_line": {"570": "570.211.01", "580": "580.159.03"}}
RATIO = {
    "fail_below": 0.9,
    "warn_below": 0.95,
    "platinum_below": 0.98,
    "of": "accelerator.bf16_sustained_tflops",
}


def limit(**table: Any) -> Limit:
    """Read a limit."""
    return Limit.parse(table, PLACE, ADVISORIES)


CASES: list[tuple[dict[str, Any], Scalar, Scalar | None, Verdict, str]] = [
    ({**RATIO, "doubt_above": 1.6}, 1600.0, 1000, Verdict.PASS, ""),
    (
        {**RATIO, "doubt_above": 1.6},
        1601.0,
        1000,
        Verdict.ERROR,
        "is 1601, not believed above 1.60 of 1000: it was measured wrongly",
    ),
    ({"fail_below": 1.0, "of": "subject.lanes"}, 8, 16, Verdict.FAIL, "is 8, fails below 1.00 of 16 (0.50)"),
    ({"fail_below": 1.0, "of": "subject.lanes"}, 16, 16, Verdict.PASS, ""),
    ({"fail_below": 1, "unit": "GPUs"}, 0, None, Verdict.FAIL, "is 0 GPUs, fails below 1"),
    ({"warn_above": 0, "unit": "banks"}, 3, None, Verdict.WARN, "is 3 banks, warns above 0"),
    ({"fail_below": 0.00123456}, 0.0012345, None, Verdict.FAIL, "is 0.001234, fails below 0.00123456"),
    (
        {"fail_below": 0.985, "of": "pool.median"},
        9.8,
        10,
        Verdict.FAIL,
        "is 9.8, fails below 0.985 of 10 (0.98)",
    ),
    ({"fail_above": 5, "warn_above": 2}, 6.5, None, Verdict.FAIL, "is 6.5, fails above 5"),
    ({"fail_above": 5, "warn_above": 2}, 2, None, Verdict.PASS, ""),
    (RATIO, 1439, 1439, Verdict.PASS, ""),
    (RATIO, 1410.0, 1439, Verdict.PASS, "is 1410, no platinum below 0.98 of 1439 (0.9798)"),
    (RATIO, 1294.5, 1439, Verdict.FAIL, "is 1294, fails below 0.90 of 1439 (0.8996)"),
    ({"is": False}, True, None, Verdict.FAIL, "is true, expected false"),
    ({"is": 8}, 8.0, None, Verdict.PASS, ""),
    ({"is": "up"}, "down\n", None, Verdict.FAIL, "is down, expected up"),
    ({"is": "up"}, "\x1b[2J", None, Verdict.FAIL, "is \ufffd[2J, expected up"),
    ({"is": "up"}, "x" * 99, None, Verdict.FAIL, f"is {'x' * 79}…, expected up"),
    ({"is": "up"}, "", None, Verdict.FAIL, 'is "", expected up'),
    ({"one_of": ["a", "b"], "else": "warn"}, "c", None, Verdict.WARN, "is c, expected one of a, b"),
    ({"is_of": "accelerator.nvlinks"}, 17, 18, Verdict.FAIL, "is 17, expected 18 (accelerator.nvlinks)"),
    ({"is_of": "accelerator.nvlinks"}, 18, 18, Verdict.PASS, ""),
    ({"same": True}, "580.1", "580.2", Verdict.FAIL, "is 580.1, expected 580.2, as most of its pool"),
    ({"same": True}, "580.2", "580.2", Verdict.PASS, ""),
    ({"at_least": "13.1", "as": "dotted"}, "13.1.0", None, Verdict.PASS, ""),
    (
        {"at_least": "1.19.1", "as": "dotted"},
        "1.17.0",
        None,
        Verdict.FAIL,
        "is 1.17.0, expected at least 1.19.1",
    ),
    (LINES, "580.159.03", None, Verdict.PASS, ""),
    (LINES, "580.95.05", None, Verdict.FAIL, "is 580.95.05, expected at least 580.159.03 on branch 580"),
    (LINES, "550.54.15", None, Verdict.FAIL, "is 550.54.15, branch 550 has ended: no fixed release"),
    (LINES, "575.1", None, Verdict.FAIL, "is 575.1, branch 575 has ended: no fixed release"),
    (LINES, "590.1", None, Verdict.WARN, "is 590.1, newer than every branch this table knows"),
    (
        {"not_affected_by": ["old", "new"], "as": "dotted"},
        "580.95.05",
        None,
        Verdict.FAIL,
        (
            "is 580.95.05, affected by old, first fixed in 580.126.09 (bulletin 1); "
            "affected by new, first fixed in 580.159.03 (bulletin 2)"
        ),
    ),
    ({"not_affected_by": ["old"], "as": "dotted"}, "550.1", None, Verdict.PASS, ""),
    ({"not_affected_by": ["old"], "as": "dotted"}, "535.288.01", None, Verdict.PASS, ""),
    (
        {"not_affected_by": ["new"], "as": "dotted"},
        "1.1",
        None,
        Verdict.FAIL,
        "is 1.1, affected by new, first fixed in 1.2 (bulletin 2)",
    ),
    (
        {**LINES, "at_least": "600.1", "else": "warn"},
        "590.1",
        None,
        Verdict.WARN,
        "is 590.1, expected at least 600.1; newer than every branch this table knows",
    ),
]


@pytest.mark.parametrize(("table", "value", "reference", "verdict", "reason"), CASES)
def test_grade(
    table: dict[str, Any], value: Scalar, reference: Scalar | None, verdict: Verdict, reason: str
) -> None:
    """Each kind of limit gives its verdict and says what is and what was expected, in one grammar."""
    grade = limit(**table).grade(value, reference)
    assert (grade.verdict, grade.reason, grade.reference) == (verdict, reason, reference)
    assert grade.caps_at_gold is ("platinum" in reason)


ERRORS: list[tuple[dict[str, Any], Any, Any, str]] = [
    ({"fail_below": 1}, "8", None, "is 8, expected a number, not a text"),
    ({"fail_below": 1}, True, None, "is true, expected a number, not true or false"),
    ({"fail_below": 1}, math.nan, None, "is NaN, expected a finite number"),
    ({"fail_below": 1}, -math.inf, None, "is -infinity, expected a finite number"),
    ({"fail_below": 1}, 10**400, None, "is 1.000e+400, expected a number of a size that can be compared"),
    ({"fail_below": 1}, None, None, "is not known, expected a number, not nothing"),
    ({"is": False}, 0, None, "is 0, expected true or false, not a number"),
    ({"is": 1}, True, None, "is true, expected a number, not true or false"),
    ({"is": 1.0}, math.nan, None, "is NaN, expected a finite number"),
    ({"one_of": ["1", "2"]}, 1, None, "is 1, expected a text, not a number"),
    ({"is_of": "contract.gpus"}, 8, None, "is 8, not comparable with contract.gpus, which is not known"),
    ({"is_of": "contract.gpus"}, 8, math.nan, "is 8, not comparable with contract.gpus, which is NaN"),
    ({"is_of": "contract.gpus"}, "8", 8, "is 8, expected a number, not a text"),
    ({"same": True}, 8, None, "is 8, not comparable with its pool, which is not known"),
    (RATIO, 1, None, "is 1, not comparable with accelerator.bf16_sustained_tflops, which is not known"),
    (RATIO, 1, 0, "is 1, not comparable with accelerator.bf16_sustained_tflops, which is 0"),
    (RATIO, 1, -5, "is 1, not comparable with accelerator.bf16_sustained_tflops, which is -5"),
    (RATIO, 1, math.inf, "is 1, not comparable with accelerator.bf16_sustained_tflops, which is infinity"),
    (RATIO, 1, "1439", "is 1, not comparable with accelerator.bf16_sustained_tflops, which is 1439"),
    (LINES, "N/A", None, "is N/A, expected a version in the dotted scheme"),
    (LINES, 580, None, "is 580, expected a version, not a number"),
    (
        {"not_affected_by": ["old"], "as": "dotted"},
        "",
        None,
        'is "", expected a version in the dotted scheme',
    ),
]


@pytest.mark.parametrize(("table", "value", "reference", "reason"), ERRORS)
def test_what_cannot_be_compared_is_an_error(
    table: dict[str, Any], value: Any, reference: Any, reason: str
) -> None:
    """A wrong type, NaN, an unorderable version or a lacking reference is never a pass and never a fail."""
    grade = limit(**table).grade(value, reference)
    assert (grade.verdict, grade.reason) == (Verdict.ERROR, reason)


def test_error_is_not_softened() -> None:
    """``else = "warn"`` softens a fail; what could not be compared stays an error."""
    soft = limit(**{"is": False, "else": "warn"})
    assert soft.grade(value=True).verdict is Verdict.WARN
    assert soft.grade(value=0).verdict is Verdict.ERROR


@pytest.mark.parametrize(
    ("table", "text"),
    [
        (
            RATIO,
            "fail below 0.90, warn below 0.95, no platinum below 0.98 of accelerator.bf16_sustained_tflops",
        ),
        ({"fail_below": 1, "unit": "GPUs"}, "fail below 1 GPUs"),
        ({"warn_above": 0, "provisional": True}, "warn above 0 (provisional)"),
        ({"is": False}, "is false"),
        ({"one_of": ["a", "b"], "else": "warn"}, "is one of a, b, else warn"),
        ({"is_of": "subject.width_max"}, "equal to subject.width_max"),
        ({"same": True}, "the same across its pool"),
        (
            {**LINES, "at_least": "570", "not_affected_by": ["old"]},
            "at least 570, at least 570.211.01 on 570, 580.159.03 on 580, not affected by old",
        ),
    ],
)
def test_text(table: dict[str, Any], text: str) -> None:
    """A report can say each limit in plain words."""
    assert limit(**table).text == text


def test_what_must_be_resolved() -> None:
    """A limit says which reference it needs, and whether it is the pool's majority."""
    assert limit(is_of="contract.gpus").of == ("contract", "gpus")
    assert limit(fail_below=0.9, of="pool.median").of == ("pool", "median")
    assert (limit(fail_below=1).of, limit(fail_below=1).same) == (None, False)
    assert (limit(same=True).of, limit(same=True).same) == (None, True)


MISTAKES: list[tuple[Any, str]] = [
    (5, "metric: expected a limit such as"),
    ({}, "metric: expected a limit such as"),
    ({"fail_bellow": 1}, "fail_bellow"),
    ({"is": False, "fail_below": 1}, "bounds and is"),
    ({"is": False, "sofly": "warn"}, "metric.sofly: unknown"),
    ({"is": [1]}, "metric.is: expected a text, a finite number, true or false; found [1]"),
    ({"is": math.nan}, "metric.is: expected"),
    ({"is": False, "else": "pass"}, 'metric.else: expected one of warn; found "pass"'),
    ({"fail_below": 1, "else": "warn"}, "metric.else: unknown"),
    ({"fail_below": "1"}, 'metric.fail_below: expected a finite number; found "1"'),
    ({"fail_below": True}, "metric.fail_below: expected a finite number; found true"),
    ({"fail_below": 10**400}, "metric.fail_below: expected a finite number"),
    (
        {"fail_below": 2, "warn_below": 1},
        "metric.warn_below: expected more than fail_below, which is 2; found 1",
    ),
    ({"warn_below": 2, "fail_above": 2}, "metric.fail_above: expected more than warn_below"),
    ({"of": "accelerator.x"}, "metric: expected a bound beside `of`"),
    ({"fail_below": 1, "of": "bf16"}, "metric.of: expected one of accelerator.NAME"),
    ({"fail_below": 1, "of": "pool.mean"}, "metric.of: expected one of accelerator.NAME"),
    ({"is_of": "pool.median"}, "metric.is_of: expected one of accelerator.NAME"),
    ({"one_of": []}, "metric.one_of: expected a list of at least 1"),
    ({"one_of": [1, "a"]}, "metric.one_of: expected values of one kind"),
    ({"per_line": {"1.": "1.2"}, "as": "dotted"}, "metric.per_line.1.: expected the beginning of versions"),
    ({"one_of": "a"}, "metric.one_of: expected a list"),
    ({"same": False}, "metric.same: expected true"),
    ({"at_least": "1.0"}, "metric.as: is missing; expected one of pep440, dotted, debian, rpm"),
    ({"at_least": "1.0", "as": "semver"}, "metric.as: expected one of pep440"),
    (
        {"at_least": "1.x", "as": "dotted"},
        'metric.at_least: expected a version in the dotted scheme; found "1.x"',
    ),
    ({"as": "dotted"}, "metric: expected one of at_least, per_line, not_affected_by beside `as`"),
    ({"not_affected_by": [], "as": "dotted"}, "metric.not_affected_by: expected a list of at least 1"),
    ({"per_line": {}, "as": "dotted"}, "metric.per_line: expected at least one line"),
    ({"per_line": 580, "as": "dotted"}, "metric.per_line: expected a table, found 580"),
    ({"per_line": {"580": "570.1"}, "as": "dotted"}, "metric.per_line.580: expected a version of this line"),
    ({"per_line": {"580": 580.1}, "as": "dotted"}, "metric.per_line.580: expected a version"),
    ({"not_affected_by": ["odl"], "as": "dotted"}, 'did you mean "old"?'),
    ({"not_affected_by": ["runc"], "as": "dotted"}, "runc orders versions as pep440, not as dotted"),
    ({"is": False, "provisional": "yes"}, "metric.provisional: expected true or false"),
    ({"is": 1, "unit": 5}, "metric.unit: expected a text in quotes; found 5"),
]


@pytest.mark.parametrize(("table", "message"), MISTAKES)
def test_mistakes(table: Any, message: str) -> None:
    """A limit that is not one is refused, with file, table, key and what was expected."""
    with pytest.raises(ConfigError) as caught:
        Limit.parse(table, PLACE, ADVISORIES)
    assert str(caught.value).startswith("thresholds.toml: [audit.health.row_remaps] metric")
    assert message in str(caught.value)
    assert len(caught.value.mistakes) == 1


# --- properties --------------------------------------------------------------------------------------------

VERSIONS = ["1.1", "1.2", "535.1", "535.288.01", "550.1", "580", "580.126.09", "580.159.03", "590.1"]
NUMBERS = [half / 2 for half in range(-9, 10)]
SAMPLES: list[Scalar] = [
    *NUMBERS,
    *range(-4, 5),
    *VERSIONS,
    True,
    False,
    math.nan,
    math.inf,
    10**400,
    "",
    "N/A",
]
REFERENCES: list[Scalar | None] = [1, -1, 0, "580", True, math.nan, None]


@st.composite
def bands(draw: st.DrawFn) -> dict[str, Any]:
    """Draw bounds in rising order, with or without a reference."""
    names = draw(st.lists(st.sampled_from(BOUNDS), min_size=1, unique=True))
    rising = sorted(draw(st.sets(st.integers(-4, 4), min_size=len(names), max_size=len(names))))
    table: dict[str, Any] = dict(zip(sorted(names, key=BOUNDS.index), rising, strict=True))
    return {**table, **draw(st.sampled_from([{}, {"of": "accelerator.x"}]))}


def choices() -> st.SearchStrategy[dict[str, Any]]:
    """Draw lists of numbers, of versions or of both truths."""
    kinds = (st.integers(-2, 2), st.sampled_from(VERSIONS), st.booleans())
    return st.one_of(
        *(st.lists(kind, min_size=1, max_size=3).map(lambda some: {"one_of": some}) for kind in kinds)
    )


def versions() -> st.SearchStrategy[dict[str, Any]]:
    """Draw floors and advisories."""
    optional = {
        "at_least": st.sampled_from(["1.2", "580.126.09", "580.159.03"]),
        "per_line": st.sampled_from(
            [{"535": "535.288.01"}, {"580": "580.1"}, {"535": "535.1", "580": "580.159.03"}]
        ),
        "not_affected_by": st.lists(st.sampled_from(["old", "new"]), min_size=1, unique=True),
    }
    tables = st.fixed_dictionaries({}, optional=optional)
    return tables.filter(bool).map(lambda table: {"as": "dotted", **table})


def others() -> st.SearchStrategy[dict[str, Any]]:
    """Draw limits that are no bands, softened or not."""
    equal = st.sampled_from([{"same": True}, {"is_of": "accelerator.x"}])
    softened = st.sampled_from([{}, {"else": "warn"}])
    return st.tuples(st.one_of(choices(), versions(), equal), softened).map(lambda parts: parts[0] | parts[1])


LIMITS = st.one_of(bands(), others())
PAIRS = st.one_of(*(st.tuples(each, each) for each in (bands(), choices(), versions(), LIMITS)))


def badness(grade: Grade) -> tuple[Verdict, bool]:
    """Put grades in an order: the verdict, and of two passes the one that caps at gold."""
    return grade.verdict, grade.caps_at_gold


@settings(deadline=None)  # a busy machine is no defect
@given(table=bands())
def test_worse_never_fares_better(table: dict[str, Any]) -> None:
    """From the best number outwards, on either side, no grade is better than the one before it."""
    bounded = limit(**table)
    grades = [badness(bounded.grade(number, 1 if bounded.of else None)) for number in NUMBERS]
    best = grades.index(min(grades))
    assert grades[: best + 1] == sorted(grades[: best + 1], reverse=True)
    assert grades[best:] == sorted(grades[best:])


@settings(deadline=None, max_examples=200)
@given(pair=PAIRS)
def test_loosens_is_true_to_grades(pair: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Where a limit is said not to loosen another, no value gets a better grade under it."""
    one, two = limit(**pair[0]), limit(**pair[1])
    assert not one.loosens(one)
    for new, old in ((one, two), (two, one)):
        if not new.loosens(old):
            for value, reference in product(SAMPLES, REFERENCES if new.of or new.same else [None]):
                graded = new.grade(value, reference), old.grade(value, reference)
                assert badness(graded[0]) >= badness(graded[1]), (value, reference)


@settings(deadline=None)
@given(table=LIMITS)
def test_grading_is_total(table: dict[str, Any]) -> None:
    """Every value gets a grade, and everything but a clean pass gets a reason on one line."""
    any_limit = limit(**table)
    for value, reference in product(SAMPLES, REFERENCES):
        grade = any_limit.grade(value, reference)
        assert bool(grade.reason) is (badness(grade) != (Verdict.PASS, False))
        assert "\n" not in grade.reason


@pytest.mark.parametrize(
    ("new", "old", "loosens"),
    [
        ({"fail_below": 0.9}, {"fail_below": 0.8}, False),
        ({"fail_below": 0.8}, {"fail_below": 0.9}, True),
        ({"warn_below": 0.9}, {"fail_below": 0.9}, True),
        ({"fail_below": 0.9}, {"fail_below": 0.8, "warn_below": 0.9}, False),
        ({"fail_below": 0.9}, {"fail_below": 0.9, "platinum_below": 0.95}, True),
        ({"fail_below": 0.9, "of": "accelerator.x"}, {"fail_below": 0.8}, True),
        ({"is": 8}, {"one_of": [8, 16]}, False),
        ({"one_of": [8, 16]}, {"is": 8}, True),
        ({"is": 8}, {"fail_below": 1}, False),
        ({"is": 0}, {"fail_below": 1}, True),
        ({"is": 8, "else": "warn"}, {"is": 8}, True),
        ({"is": 8, "provisional": True}, {"is": 8}, True),
        ({"is": 8}, {"is": 8, "provisional": True, "else": "warn"}, False),
        ({"at_least": "1.2", "as": "dotted"}, {"at_least": "1.10", "as": "dotted"}, True),
        ({"at_least": "1.10", "as": "dotted"}, {"at_least": "1.2", "as": "dotted"}, False),
        ({**LINES, "not_affected_by": ["old"]}, LINES, False),
        (LINES, {**LINES, "not_affected_by": ["old"]}, True),
        ({"as": "dotted", "per_line": {"580": "580.159.03"}}, LINES, True),
        (LINES, {"as": "dotted", "per_line": {"580": "580.159.03"}}, True),
        ({"is": "580.159.03"}, LINES, False),
        ({"is": "580.159.03"}, {"fail_below": 1}, True),
        ({"at_least": "1.10", "as": "dotted"}, {"at_least": "1.2", "as": "debian"}, True),
        ({"same": True}, {"is_of": "contract.gpus"}, True),
    ],
)
def test_loosens(new: dict[str, Any], old: dict[str, Any], loosens: bool) -> None:  # noqa: FBT001 - a case's answer
    """A limit that may let more through loosens; one that surely does not, tightens."""
    assert limit(**new).loosens(limit(**old)) is loosens
