"""junit.xml: valid whatever a node says, complete, red for what is wrong, and the same on every replay."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import xmlschema
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuassay.report import junit
from report_sample import check, results, row

XSD = xmlschema.XMLSchema(Path(__file__).parent.parent / "docs" / "schemas" / "junit-xunit1.xsd")
# All of Unicode with its control characters, and lone surrogates, as a broken file name has them.
TEXT = st.text(st.characters())

PYTEST_SUITE = """
import warnings, pytest
def test_pass(record_property): record_property("verdict", "warn"); print("said")
def test_fail(): assert 0, "\\x1b[31mred\\x00"
def test_skip(): pytest.skip("not run: needs --allow=load")
@pytest.mark.xfail
def test_expected(): assert 0
@pytest.fixture
def broken(): raise OSError("gone")
def test_error(broken): pass
class TestClass:
    @pytest.mark.parametrize("x", ["a b", "<&>"])
    def test_method(self, x): pass
"""


def parsed(document: dict[str, object]) -> ET.Element:
    """Render, validate and parse."""
    text = junit.render(document)
    XSD.validate(text)
    return ET.fromstring(text)  # noqa: S314 - it was written a line above


def cases(root: ET.Element) -> dict[str, ET.Element]:
    """Index the test cases by name."""
    return {case.attrib["name"]: case for case in root.iter("testcase")}


def test_every_expected_check_is_a_case_named_as_pytest_names_it() -> None:
    """A CI sees one history, whether it reads ours or the file of pytest; what was not run is there too."""
    root = parsed(results())
    assert {(case.attrib["file"], case.attrib["classname"], name) for name, case in cases(root).items()} >= {
        ("tests_audit/test_health.py", "tests_audit.test_health", "test_row_remaps"),
        ("tests_perf/test_gemm.py", "tests_perf.test_gemm", "test_bf16"),
    }
    suite = root.find("testsuite")
    assert suite is not None
    assert [suite.attrib[key] for key in ("tests", "failures", "errors", "skipped")] == ["7", "1", "1", "3"]


def test_a_verdict_of_the_plugin_itself_is_a_case_too() -> None:
    """The check over the whole contract has no test function, and still turns a CI red."""
    root = parsed(results({"fleet.contracted": check(row("", "fail"), over="cluster")}))
    assert cases(root)["fleet.contracted"].find("failure") is not None


@pytest.mark.parametrize(
    ("name", "tag", "message"),
    [
        ("test_row_remaps", "failure", "1 GPU waits for a reset"),
        ("test_gid", "error", "1 port was not judged"),
        ("test_xid", "skipped", "unseen: no kernel log in this container"),
        ("test_bf16", "skipped", "not run: needs --allow=load"),
        ("test_ib", "skipped", "skip: no node has infiniband"),
    ],
)
def test_what_is_not_a_pass_says_why(name: str, tag: str, message: str) -> None:
    """Fail and error are red and stay apart; what was not judged is skipped with its word in front."""
    node = cases(parsed(results()))[name].find(tag)
    assert node is not None
    assert node.attrib["message"] == message


def test_red_cases_carry_the_finding_and_the_fix() -> None:
    """A CI's page shows where, what, the evidence and what to do."""
    text = cases(parsed(results()))["test_row_remaps"].findtext("failure")
    assert text is not None
    assert "gpu003/gpu5: a remap is pending [nodes/gpu003#12]" in text
    assert "Fix: drain the node" in text


def test_a_warning_is_green_and_told() -> None:
    """Warn is a passed case with the property and the finding in its output."""
    case = cases(parsed(results()))["test_memlock"]
    assert case.find("failure") is None
    assert "warn: 4 nodes" in case.findtext("system-out", "")
    properties = {node.attrib["name"]: node.attrib["value"] for node in case.iter("property")}
    assert properties == {"verdict": "warn", "category": "reliability", "tier": "bronze"}


def test_the_suite_carries_the_tier() -> None:
    """State, tier, ceiling and recording are properties of the suite."""
    properties = {node.attrib["name"]: node.attrib["value"] for node in parsed(results()).iter("property")}
    assert properties["tier.state"] == "not_rated"
    assert properties["tier.won"] == "none"
    assert properties["tier.ceiling"] == "silver"
    assert properties["recording"] == "cd" * 32


@given(TEXT)
@settings(max_examples=50, deadline=None)
def test_any_text_gives_valid_xml(text: str) -> None:
    """Control characters and lone surrogates are dropped, markup is escaped, and the rest arrives."""
    rows = row(text, "fail", reason=text, evidence=text, value=text)
    checks = {f"audit.a.{text}": check(rows, reason=text, fix=text), f"{text}": check(reason=text)}
    root = parsed(results(checks, stamps=[{"stamp": text, "why": text}]))
    junit.render(results(checks)).encode("utf-8")
    assert len(list(root.iter("testcase"))) == len(checks)


def test_nothing_differs_between_replays() -> None:
    """No time, host or date is in it."""
    text = junit.render(results())
    assert text == junit.render(results())
    assert {case.attrib["time"] for case in parsed(results()).iter("testcase")} == {"0"}
    assert "timestamp" not in text
    assert "hostname" not in text


def test_the_schema_accepts_what_pytest_writes(tmp_path: Path) -> None:
    """The XSD is of the xunit1 form itself, not only of our use of it."""
    (tmp_path / "test_all.py").write_text(PYTEST_SUITE)
    options = ["-q", "-o", "junit_family=xunit1", "-o", "junit_logging=all", "--junitxml=junit.xml"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--rootdir",
        ".",
        "-p",
        "no:cacheprovider",
        *options,
        "test_all.py",
    ]
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    subprocess.run(command, cwd=tmp_path, check=False, capture_output=True)
    XSD.validate(str(tmp_path / "junit.xml"))


def test_the_schema_refuses_what_it_does_not_know() -> None:
    """A test of validity would mean nothing if everything were valid."""
    assert not XSD.is_valid(junit.render(results()).replace("<testcase ", '<testcase verdict="pass" ', 1))
