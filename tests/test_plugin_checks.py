"""Checks that misbehave: whatever one does, it does not pass unless it has seen that all is well."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from judging import table
from plugging import OBSERVE, audit, check, more, one_check, write_suite

if TYPE_CHECKING:
    from plugging import Run

pytest_plugins = ["pytester"]

FOUR = "gpu[001-004]"


def test_a_check_that_sees_all_in_order_passes(pytester: pytest.Pytester) -> None:
    """It is one item of pytest, green, and its rows fold into one line over the fleet."""
    run = one_check(pytester, OBSERVE)
    (row,) = run.results["checks"]["audit.a.b"]["observations"]

    assert (run.status, run.verdicts) == (0, {"audit.a.b": "pass"})
    assert (row["where"], row["count"], row["metric"], row["value"]) == (FOUR, 4, "value", 1)
    assert "1 passed" in run.output


@pytest.mark.parametrize(
    ("limit", "verdict", "status", "word"),
    [
        ("{ fail_above = 0 }", "fail", 1, "1 failed"),
        ("{ warn_above = 0 }", "warn", 0, "1 passed"),
        ('{ is = "1" }', "error", 1, "1 failed"),
    ],
)
def test_the_table_judges_and_the_exit_status_follows(
    pytester: pytest.Pytester, limit: str, verdict: str, status: int, word: str
) -> None:
    """The same check, the same fleet, three limits: a warning is green, a fail and an error are red."""
    write_suite(pytester.path, {"a": check()})
    tables = (pytester.path / "thresholds.toml").read_text().replace("value = { is = 1 }", f"value = {limit}")
    (pytester.path / "thresholds.toml").write_text(tables)
    run = audit(pytester)

    assert (run.verdicts["audit.a.b"], run.status) == (verdict, status)
    assert word in run.output


@pytest.mark.parametrize(
    ("kind", "verdict", "word"),
    [
        ("denied", "unseen", "1 skipped"),
        ("not_asked", "not_run", "1 skipped"),
        ("timed_out", "error", "1 failed"),
    ],
)
def test_what_could_not_be_read_is_told_apart(
    pytester: pytest.Pytester, kind: str, verdict: str, word: str
) -> None:
    """Skipped with a word before the reason, where the seat or the probe is at fault; failed elsewhere."""
    body = f"for node in fleet.nodes:\n    observe(node, value=Unread('{kind}', 'that is why'))"
    run = one_check(pytester, body, "-rs", before="from gpuassay.judge.fact import Unread\n")

    assert run.verdicts == {"audit.a.b": verdict}
    assert run.status == (1 if verdict == "error" else 0)
    assert word in run.output
    assert f"{verdict.replace('_', ' ')}: gpu001: value" in run.output


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("raise ValueError('boom')", "raised ValueError: boom"),
        ("pytest.skip('not today')", "raised Skipped: not today"),
        ("pytest.fail('no')", "raised Failed: no"),
        ("pytest.xfail('known')", "raised XFailed: known"),
        ("pytest.importorskip('no_such_module')", "raised Skipped: could not import 'no_such_module'"),
        ("assert not fleet.nodes", "raised AssertionError"),
        ("raise SystemExit(0)", "raised SystemExit: 0"),
        ("raise GeneratorExit", "raised GeneratorExit"),
        ("observe(None, value=1)", "raised TypeError: NoneType is no subject"),
    ],
)
@pytest.mark.parametrize("before", ["pass", OBSERVE])
def test_a_check_that_raises_is_an_error(
    pytester: pytest.Pytester, body: str, says: str, before: str
) -> None:
    """Whatever it raises, pytest's own words too, and although all that it had observed was in order."""
    run = one_check(pytester, f"{before}\n{body}", before="import pytest\n")

    assert (run.status, run.verdicts) == (1, {"audit.a.b": "error"})
    assert says in run.reason()
    assert "1 failed" in run.output


def test_what_failed_before_a_check_raised_has_failed(pytester: pytest.Pytester) -> None:
    """An exception masks no fail: both are in the results."""
    run = one_check(pytester, "observe(fleet.nodes[0], value=2)\nraise ValueError('boom')")

    assert run.verdicts == {"audit.a.b": "fail"}
    assert run.reason().startswith("gpu001: value is 2, expected 1")
    assert {row["verdict"] for row in run.results["checks"]["audit.a.b"]["observations"]} == {"fail", "error"}


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("pass", "value: 0 of 1 nodes observed (and 3 more)"),
        ("return [True]", "value: 0 of 1 nodes observed"),
        ("for node in fleet.nodes[1:]:\n    observe(node, value=1)", "gpu001: value: 0 of 1 nodes observed"),
        ("for node in fleet.nodes:\n    observe(node, value=None)", "NoneType was given, which is no value"),
        ("for node in fleet.nodes:\n    observe(node, value=float('nan'))", "value is NaN"),
        ("for node in fleet.nodes:\n    observe(node, **{'val' + 'ues': 1})", "has no limit for values"),
    ],
)
def test_a_check_that_has_not_seen_everything_is_an_error(
    pytester: pytest.Pytester, body: str, says: str
) -> None:
    """Nothing, one node too few, no value, no number, another metric: none of it is a pass."""
    run = one_check(pytester, body, "-W", "ignore::pytest.PytestReturnNotNoneWarning")

    assert run.verdicts == {"audit.a.b": "error"}
    assert (
        says
        in "\n".join(row["reason"] for row in run.results["checks"]["audit.a.b"]["observations"])
        + run.reason()
    )


def test_a_check_that_asks_for_no_pen_has_written_nothing(pytester: pytest.Pytester) -> None:
    """Without `observe` there is nothing to judge."""
    write_suite(pytester.path, {"a": check("assert fleet.nodes", arguments="fleet")})
    assert audit(pytester).verdicts == {"audit.a.b": "error"}


@pytest.mark.parametrize(
    "mark",
    [
        "pytest.mark.skip(reason='not today')",
        "pytest.mark.skipif(True, reason='not today')",
        "pytest.mark.xfail(run=False, reason='not today')",
        "pytest.mark.usefixtures('not_there')",
    ],
)
def test_a_mark_on_the_file_excuses_no_check(pytester: pytest.Pytester, mark: str) -> None:
    """What pytest does not run could not be judged: the reason is the mark's, and the run is red."""
    run = one_check(pytester, OBSERVE, before=f"import pytest\npytestmark = {mark}\n")

    assert (run.status, run.verdicts) == (1, {"audit.a.b": "error"})
    assert run.reason().startswith("the check could not be run: ")


def test_a_fail_that_was_expected_is_a_fail(pytester: pytest.Pytester) -> None:
    """`xfail` on the file turns nothing green."""
    mark = "import pytest\npytestmark = pytest.mark.xfail(strict=False)\n"
    run = one_check(pytester, "for node in fleet.nodes:\n    observe(node, value=2)", before=mark)

    assert (run.status, run.verdicts) == (1, {"audit.a.b": "fail"})
    assert "1 failed" in run.output


@pytest.mark.parametrize(
    ("before", "says"),
    [
        ("import pytest\npytest.skip('not today', allow_module_level=True)\n", "not today"),
        ("import pytest\npytest.importorskip('no_such_module')\n", "no_such_module"),
        ("import no_such_module\n", "No module named 'no_such_module'"),
    ],
)
def test_a_file_that_cannot_be_collected_excuses_no_check(
    pytester: pytest.Pytester, before: str, says: str
) -> None:
    """Neither one that skips itself nor one that cannot be imported; checks of other files are judged."""
    files = {"a": before + check(), "c": check(name="d")}
    write_suite(pytester.path, files, table(name="audit.c.d", over="node"))
    run = audit(pytester, "--continue-on-collection-errors")

    assert (run.status, run.verdicts) == (1, {"audit.a.b": "error", "audit.c.d": "pass"})
    assert run.reason().startswith("its file could not be collected: ")
    assert says in run.reason()


def test_a_check_that_pytest_is_asked_to_repeat_keeps_its_worst_outcome(pytester: pytest.Pytester) -> None:
    """Plugins repeat and rerun tests; the id stays that of the function, and one error is not forgotten."""
    write_suite(pytester.path, {"a": "runs = []" + check(f"{OBSERVE}\nruns.append(1)\nassert len(runs) > 1")})
    pytester.makeconftest(
        """
        def pytest_generate_tests(metafunc):
            metafunc.fixturenames.append("again")
            metafunc.parametrize("again", range(3))
        """
    )
    run = audit(pytester)

    assert (run.status, run.verdicts) == (1, {"audit.a.b": "error"})
    assert "2 passed" in run.output


def test_a_timeout_is_an_error_of_its_check(pytester: pytest.Pytester) -> None:
    """pytest-timeout ends a check that hangs, and the next one is judged."""
    hangs = "import signal" + check("signal.pause()") + check(name="c")
    write_suite(pytester.path, {"a": hangs}, more("c"))
    run = audit(pytester, "--timeout=0.3", "--timeout-method=signal")

    assert run.verdicts == {"audit.a.b": "error", "audit.a.c": "pass"}
    assert "Timeout" in run.reason()


def test_a_test_that_is_no_check_stays_a_test(pytester: pytest.Pytester) -> None:
    """Below a folder of a phase people may keep what they like; it is not judged and is not reported."""
    write_suite(pytester.path, {"a": check()})
    inner = pytester.path / "tests_audit" / "inner"
    inner.mkdir()
    (inner / "test_own.py").write_text("def test_mine():\n    assert True\n")
    run = audit(pytester)

    assert (run.status, run.verdicts) == (0, {"audit.a.b": "pass"})
    assert "2 passed" in run.output


def judged_on(pytester: pytest.Pytester, site: str) -> Run:
    """Judge a check over GPUs that sees all of them, with a site file."""
    body = "for gpu in fleet.gpus:\n    observe(gpu, value=1)"
    write_suite(pytester.path, {"a": check() + check(body, "c")}, table(name="audit.a.c", needs=["gpu"]))
    (pytester.path / "site.toml").write_text(f'[cluster]\nname = "here"\n{site}', encoding="utf-8")
    return audit(pytester, "--site=site.toml")


@pytest.mark.parametrize(
    ("site", "verdicts"),
    [
        ('[[pool]]\nnodes = "gpu[001-004]"\nhas = ["gpu"]\ngpus = 8', ["pass", "pass"]),
        ('[[pool]]\nnodes = "gpu[001-004]"\nhas = ["gpu"]\ngpus = 9', ["pass", "error"]),
        ('[[pool]]\nnodes = "gpu[001-005]"\nhas = ["gpu"]', ["error", "error"]),
        ('[[pool]]\nnodes = "gpu[001-003]"', ["pass", "pass"]),
    ],
)
def test_the_site_file_says_what_must_be_there(
    pytester: pytest.Pytester, site: str, verdicts: list[str]
) -> None:
    """A ninth GPU, a fifth node: declared and not seen is an error. What is seen is judged anyhow."""
    run = judged_on(pytester, site)

    assert list(run.verdicts.values()) == verdicts
    assert "RE-DECLARED" in run.output
