"""pytest's own options and the plugin's: each does what users expect, and none makes a verdict better."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

import pytest

from gpuassay.session import Request, prepare
from judging import table
from plugging import FLEET, INI, OBSERVE, ROOT, Run, audit, check, more, read_results, write_suite

if TYPE_CHECKING:
    from pathlib import Path

pytest_plugins = ["pytester"]

PASSES, FAILS = OBSERVE, "for node in fleet.nodes:\n    observe(node, value=2)"
SITE = '[cluster]\nname = "here"\n\n[[pool]]\nnodes = "gpu[001-004]"\nhas = ["gpu"]\n'
LOCAL = "--target=local"


def three(pytester: pytest.Pytester, first: str = FAILS) -> None:
    """Write a suite of three checks, the first of which fails."""
    write_suite(pytester.path, {"a": check(first) + check(PASSES, "c") + check(PASSES, "d")}, more("c", "d"))


def plain(pytester: pytest.Pytester, *words: str) -> Run:
    """Run pytest with these words only, apart from what makes it quick."""
    done = pytester.runpytest_inprocess("-p", "no:hypothesispytest", *words)
    return Run(int(done.ret), f"{done.stdout.str()}\n{done.stderr.str()}", pytester.path / "run")


# --- choosing ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "verdicts"),
    [
        (["-k", "test_c"], ["not_run", "pass", "not_run"]),
        (["-k", "not test_b"], ["not_run", "pass", "pass"]),
        (["--deselect", "tests_audit/test_a.py::test_b"], ["not_run", "pass", "pass"]),
        (["-m", "audit"], ["fail", "pass", "pass"]),
        (["-m", "perf"], ["not_run"] * 3),
    ],
)
def test_what_is_not_chosen_is_not_run(
    pytester: pytest.Pytester, words: list[str], verdicts: list[str]
) -> None:
    """Every expected check stands in the results, though pytest never heard of it."""
    three(pytester)
    run = audit(pytester, *words)

    assert list(run.verdicts.values()) == verdicts
    for found in run.results["checks"].values():
        assert found["verdict"] != "not_run" or found["reason"] == "not selected for this run"
    assert run.status == (1 if "fail" in verdicts else 5 if words[-1] == "perf" else 0)


def test_one_check_can_be_named(pytester: pytest.Pytester) -> None:
    """By its node id, as pytest prints it."""
    three(pytester)
    where = [f"--target=recording:{FLEET}", "--run-dir=run"]

    assert plain(pytester, *where, "tests_audit/test_a.py::test_c").verdicts == {
        "audit.a.b": "not_run",
        "audit.a.c": "pass",
        "audit.a.d": "not_run",
    }


@pytest.mark.parametrize("option", ["-x", "--maxfail=1"])
def test_a_run_that_stops_at_the_first_failure_says_so(pytester: pytest.Pytester, option: str) -> None:
    """The rest was not run, and why; the ceiling counts it as passed, the tier does not."""
    three(pytester)
    run = audit(pytester, option)

    assert run.status == 1
    assert list(run.verdicts.values()) == ["fail", "not_run", "not_run"]
    assert run.reason("audit.a.d") == "the run stopped early: stopping after 1 failures"


def test_choosing_never_raises_a_tier(pytester: pytest.Pytester) -> None:
    """Whatever is left out, the tier won and the ceiling's own fails are those of the whole run or worse."""
    body = "for gpu in fleet.gpus:\n    observe(gpu, value=1)"
    tables = table(name="audit.a.c", over="gpu", tier="ribbon") + table(name="audit.a.d", over="node")
    write_suite(pytester.path, {"a": check() + check(body, "c") + check(FAILS, "d")}, tables)
    (pytester.path / "site.toml").write_text(SITE)
    whole = audit(pytester, "--site=site.toml")
    assert (whole.results["tier"]["won"], whole.results["tier"]["ceiling"]) == ("ribbon", "ribbon")
    for words, won in (("test_b", None), ("test_c", None), ("not test_d", "ribbon"), ("test_d", None)):
        part = audit(pytester, "--site=site.toml", "-k", words, f"--run-dir=run-{words.replace(' ', '-')}")
        tier = read_results(pytester.path / f"run-{words.replace(' ', '-')}")["tier"]
        assert tier["won"] == won
        assert part.status == (1 if words == "test_d" else 0)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--collect-only", "-q", "-m", "audit"], "tests_audit/test_a.py::test_b"),
        (["--setup-plan"], "tests_audit/test_a.py::test_b (fixtures used: fleet, observe"),
        (["--fixtures"], "Give the callable that takes a check's observations down."),
        (["--fixtures-per-test"], "Give the nodes in service"),
    ],
)
def test_who_only_looks_gathers_nothing_and_leaves_nothing(
    pytester: pytest.Pytester, words: list[str], says: str
) -> None:
    """Options that list checks or fixtures start no probe and make no folder; phases can be chosen too."""
    three(pytester)
    run = plain(pytester, LOCAL, *words, "tests_audit")

    assert run.status == 0
    assert says in run.output
    assert {path.name for path in pytester.path.iterdir()} <= {
        "tests_audit",
        "thresholds.toml",
        "advisories.toml",
        "pyproject.toml",
    }


def test_collecting_finds_mistakes_in_tables(pytester: pytest.Pytester) -> None:
    """A suite that is wrong is wrong before it runs."""
    write_suite(pytester.path, {"a": check() + check(PASSES, "c")})
    run = plain(pytester, "--collect-only", "tests_audit")

    assert run.status == 4
    assert "test_c has no table [audit.a.c] in thresholds.toml" in run.output


def test_a_suite_can_be_reached_by_a_link(pytester: pytest.Pytester) -> None:
    """Whatever its folder is called: its checks are those of the place where they lie."""
    write_suite(pytester.path / "real", {"a": check()})
    (pytester.path / "link").symlink_to("real")
    where = [f"--target=recording:{FLEET}", "--run-dir=run", str(pytester.path / "link" / "tests_audit")]

    assert plain(pytester, *where).verdicts == {"audit.a.b": "pass"}


def test_help_tells_of_the_options(pytester: pytest.Pytester) -> None:
    """In a group of their own, with the phases among the markers; nothing is run."""
    three(pytester)
    run = plain(pytester, "--help")
    assert run.status == 0
    for option in (
        "--target=TARGET",
        "--site=PATH",
        "--thresholds=PATH",
        "--profile",
        "--run-dir=DIR",
        "--require",
    ):
        assert option in run.output
    assert "@pytest.mark.audit: checks of the audit phase" in plain(pytester, "--markers").output
    assert not run.folder.exists()


@pytest.mark.parametrize(
    "plugin", ["xdist", "html", "timeout", "junitxml", "terminal", "cacheprovider", "metadata"]
)
def test_no_other_plugin_is_needed(pytester: pytest.Pytester, plugin: str) -> None:
    """Promised to work, and none of them needed to judge."""
    three(pytester)
    run = audit(pytester, "-p", f"no:{plugin}")

    assert run.status == 1
    assert list(run.verdicts.values()) == ["fail", "pass", "pass"]
    assert (run.folder / "SHA256SUMS").is_file()


def test_a_run_that_asks_for_no_suite_is_left_alone(pytester: pytest.Pytester) -> None:
    """The suite's own tests, and all else, pay nothing for the plugin: no header, no folder, no summary."""
    pytester.makepyfile(test_else="def test_else(): pass")
    (pytester.path / "pyproject.toml").write_text(INI)
    run = plain(pytester)

    assert run.status == 0
    assert "gpuassay" not in run.output.lower()
    assert not (pytester.path / "gpuassay-runs").exists()


def test_a_run_is_kept_in_a_new_folder_by_default(pytester: pytest.Pytester) -> None:
    """Below `gpuassay-runs`, named after the time; two runs get two."""
    write_suite(pytester.path, {"a": check()})
    for _ in range(2):
        assert plain(pytester, f"--target=recording:{FLEET}", "tests_audit").status == 0

    runs = sorted((pytester.path / "gpuassay-runs").iterdir())
    assert len(runs) == 2
    assert all(read_results(run)["checks"]["audit.a.b"]["verdict"] == "pass" for run in runs)


# --- exit status ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "require", "site", "status"),
    [
        (PASSES, "ribbon", SITE, 0),
        (PASSES, "bronze", SITE, 0),
        (PASSES, "platinum", SITE, 1),
        (PASSES, "ribbon", "", 1),
        (FAILS, "ribbon", SITE, 1),
    ],
)
def test_a_tier_can_be_required(
    pytester: pytest.Pytester, first: str, require: str, site: str, status: int
) -> None:
    """The run is red unless the tier was won: a ceiling is not enough, nor is a run without a site file."""
    body = "for gpu in fleet.gpus:\n    observe(gpu, value=1)"
    tables = table(name="audit.a.c", tier="bronze") + table(
        "value = { fail_below = 0, platinum_below = 2 }", name="audit.a.d", over="node", tier="gold"
    )
    write_suite(pytester.path, {"a": check(first) + check(body, "c") + check(PASSES, "d")}, tables)
    (pytester.path / "site.toml").write_text(SITE)
    run = audit(pytester, f"--require={require}", *(["--site=site.toml"] if site else []))

    assert run.status == status
    assert (f"--require={require}: not won" in run.output) is (status == 1)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--target=nowhere"], "or recording:DIR, found nowhere"),
        (["--target=recording:nowhere"], "nowhere: not a recording: expected a folder with a recording.toml"),
        (["--target=recording:"], "not a recording"),
        ([f"--target=recording:{FLEET}", "--nodes=n1"], "--nodes: a recording is judged with all its nodes"),
        (["--target=local", "--nodes=n1"], "--nodes: --target=local asks this machine alone"),
        (["--require=diamond"], "--require"),
        (["--profile=everything"], "--profile"),
        (["--site=nowhere.toml", LOCAL], "nowhere.toml: cannot be read: No such file or directory"),
        (["--site=typo.toml", LOCAL], "typo.toml: [cluster] nmae: unknown"),
        (["--site=typo.toml"], "typo.toml: [cluster] nmae: unknown"),
        (["--thresholds=nowhere.toml", LOCAL], "nowhere.toml: cannot be read"),
        (["--thresholds=typo.toml", LOCAL], "typo.toml: cluster: unknown"),
    ],
)
def test_mistakes_are_told_before_anything_is_touched(
    pytester: pytest.Pytester, words: list[str], says: str
) -> None:
    """Exit status 4 as for any wrong use of pytest, with the place; no folder is made and nobody is asked."""
    three(pytester)
    (pytester.path / "typo.toml").write_text(SITE.replace("name", "nmae"))
    run = audit(pytester, *words)

    assert run.status == 4
    assert says in run.output
    assert not run.folder.exists()


def test_a_profile_needs_its_table(pytester: pytest.Pytester) -> None:
    """To rate by a request that is not there would be to accept."""
    three(pytester)
    tables = pytester.path / "thresholds.toml"
    tables.write_text(tables.read_text().replace('[profile.rating]\nrequires = ["gpu"]', ""))
    run = audit(pytester, "--profile=rating")

    assert run.status == 4
    assert "thresholds.toml: there is no [profile.rating] to judge by" in run.output


@pytest.mark.parametrize(
    ("folder", "says"),
    [
        ("tests_audit", "tests_audit: not empty; a run needs a folder of its own"),
        ("pyproject.toml", "pyproject.toml: File exists"),
        ("pyproject.toml/run", "pyproject.toml/run: Not a directory"),
        ("/proc/run", "/proc/run: "),
    ],
)
def test_a_folder_that_cannot_be_the_runs_is_a_mistake(
    pytester: pytest.Pytester, folder: str, says: str
) -> None:
    """One that holds anything, one that is a file, one that cannot be made: nothing in it is changed."""
    three(pytester)
    run = audit(pytester, f"--run-dir={folder}")

    assert run.status == 4
    assert says in run.output
    assert [path.name for path in (pytester.path / "tests_audit").iterdir()] == ["test_a.py"]


def test_an_empty_folder_can_be_the_runs(pytester: pytest.Pytester) -> None:
    """A CI may have made it."""
    three(pytester, PASSES)
    (pytester.path / "run").mkdir()
    assert audit(pytester).status == 0


@pytest.mark.parametrize(
    ("body", "status"),
    [("raise KeyboardInterrupt", 2), ("pytest.exit('enough')", 2), ("pytest.exit('x', 7)", 7)],
)
def test_an_interrupted_run_keeps_what_was_finished(
    pytester: pytest.Pytester, body: str, status: int
) -> None:
    """The exit status is pytest's own, the reports are there, and what was not finished was not run."""
    files = {"a": "import pytest" + check() + check(body, "c") + check(PASSES, "d")}
    write_suite(pytester.path, files, more("c", "d"))
    run = audit(pytester)

    assert run.status == status
    assert list(run.verdicts.values()) == ["pass", "not_run", "not_run"]
    assert run.reason("audit.a.d") == "the run was interrupted"
    assert (run.folder / "report.html").is_file()


# --- judging otherwise ---------------------------------------------------------------------------


def test_other_numbers_judge_and_are_stamped(pytester: pytest.Pytester) -> None:
    """A run by other thresholds says so, and is named by their hash; its own can be judged by again."""
    three(pytester)
    other = pytester.path / "other.toml"
    other.write_text((pytester.path / "thresholds.toml").read_text().replace("is = 1 }", "is = 2 }"))
    run = audit(pytester, "--thresholds=other.toml")
    assert list(run.verdicts.values()) == ["pass", "fail", "fail"]
    assert "other thresholds" in [stamp["stamp"] for stamp in run.results["stamps"]]

    again = audit(pytester, "--thresholds=run/thresholds.effective.toml", "--run-dir=again")
    other_results = read_results(pytester.path / "again")
    assert again.status == 1
    assert other_results == run.results


def test_a_site_file_is_taken_from_where_pytest_was_started(pytester: pytest.Pytester) -> None:
    """As every path on a command line; pytest may have its root elsewhere."""
    three(pytester, PASSES)
    elsewhere = pytester.mkdir("elsewhere")
    (elsewhere / "site.toml").write_text(SITE)
    pytester.chdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(elsewhere)
        where = [f"--target=recording:{FLEET}", "--run-dir=run", "--site=site.toml"]
        assert plain(pytester, *where, str(pytester.path / "tests_audit")).status == 0
    assert read_results(elsewhere / "run")["recording"]["cluster"] == "here"


def test_a_run_judges_with_the_site_file_that_was_recorded(tmp_path: Path) -> None:
    """The default at replay; another one is stamped re-declared, the very same one is not."""
    recording = ROOT / "fixtures" / "recorded" / "hgx-b200-4" / "recording"

    def stamps(site: Path | None) -> set[str]:
        return {stamp for stamp, _ in prepare(Request(ROOT, site=site), recording).stamps}

    other = tmp_path / "site.toml"
    other.write_text((recording / "site.toml").read_text().replace("gpus        = 8", "gpus = 7"))
    assert stamps(None) == stamps(recording / "site.toml")
    assert stamps(other) == stamps(None) | {"re-declared"}
    assert "re-declared" not in stamps(None)


# --- inside another program ----------------------------------------------------------------------


def test_sigterm_is_given_back(pytester: pytest.Pytester) -> None:
    """A program that calls pytest keeps its own way to end."""
    three(pytester, PASSES)
    before = signal.getsignal(signal.SIGTERM)
    seen = "import signal" + check(
        f"assert signal.getsignal(signal.SIGTERM).__name__ == '_interrupt'\n{OBSERVE}"
    )
    write_suite(pytester.path, {"a": seen})

    assert audit(pytester).verdicts == {"audit.a.b": "pass"}
    assert signal.getsignal(signal.SIGTERM) is before


def test_pytest_may_run_in_a_thread(pytester: pytest.Pytester) -> None:
    """Signals can be handled in the main thread only; elsewhere the run does without."""
    write_suite(pytester.path, {"a": check()})
    runs: list[Run] = []
    thread = threading.Thread(target=lambda: runs.append(audit(pytester)))
    thread.start()
    thread.join()

    assert [run.verdicts for run in runs] == [{"audit.a.b": "pass"}]
