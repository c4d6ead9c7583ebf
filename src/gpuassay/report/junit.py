"""``junit.xml``: every expected check as one test case, in the xunit1 form that pytest itself writes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from gpuassay.judge.names import natural
from gpuassay.report import view, words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuassay.report.view import Check, Results

# Both turn a CI run red, and stay apart for those who read it: a fail was seen, an error was not.
_RED = {"fail": "failure", "error": "error"}
_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(results: Results) -> str:
    """Write ``junit.xml``. Time is 0 throughout: the same results give the same bytes."""
    checks = sorted(results["checks"].items(), key=lambda item: natural(item[0]))
    verdicts = [check["verdict"] for _, check in checks]
    root = ET.Element("testsuites", name="gpuassay")
    suite = ET.SubElement(
        root,
        "testsuite",
        name="gpuassay",
        errors=str(verdicts.count("error")),
        failures=str(verdicts.count("fail")),
        skipped=str(sum(map(_is_skipped, verdicts))),
        tests=str(len(verdicts)),
        time="0",
    )
    _properties(suite, _of_suite(results))
    for check_id, check in checks:
        _case(suite, check_id, check)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _of_suite(results: Results) -> Iterable[tuple[str, str]]:
    tier, recording = results["tier"], results["recording"]
    yield "tier.state", tier["state"]
    yield "tier.won", tier["won"] or "none"
    yield "tier.ceiling", tier["ceiling"] or "none"
    yield "recording", recording["digest"]
    if results["earlier"]:
        yield "earlier", results["earlier"]["digest"]
    if "plan" in results:
        yield "plan", results["plan"]["sha256"]
    if "sla" in results:
        yield "sla", results["sla"]["name"]
        yield "sla.digest", results["sla"]["digest"]
        yield "sla.outcome", results["sla"]["outcome"]
        yield from ((f"sla.{one['term']}", one["outcome"]) for one in results["sla"]["terms"])
    yield "suite.version", results["suite"]["version"]
    yield "suite.thresholds", results["suite"]["thresholds"]
    for stamp in results["stamps"]:
        yield "stamp", stamp["stamp"]


def _case(suite: ET.Element, check_id: str, check: Check) -> None:
    case = ET.SubElement(suite, "testcase", {**_address(check_id), "time": "0"})
    _properties(case, ((key, check[key]) for key in ("verdict", "category", "tier")))
    verdict, said = check["verdict"], _clean(check["reason"] or check["title"])
    if verdict in _RED:
        node = ET.SubElement(case, _RED[verdict], message=said, type=verdict)
        node.text = _clean(_account(check))
    elif _is_skipped(verdict):
        word = words.VERDICTS[verdict].label.lower()
        ET.SubElement(case, "skipped", message=f"{word}: {said}", type=verdict)
    elif verdict == "warn":
        ET.SubElement(case, "system-out").text = _clean(f"warn: {check['reason']}\n{_account(check)}")


def _is_skipped(verdict: str) -> bool:
    return words.VERDICTS[verdict].outcome == "skipped"


def _address(check_id: str) -> dict[str, str]:
    """Name a case as pytest names the test function, so that a CI sees one history."""
    phase, _, rest = check_id.partition(".")
    module, _, name = rest.partition(".")
    if not name:
        return {"classname": "gpuassay", "name": _clean(check_id)}
    folder, file = _clean(f"tests_{phase}"), _clean(f"test_{module}")
    return {"classname": f"{folder}.{file}", "name": _clean(f"test_{name}"), "file": f"{folder}/{file}.py"}


def _account(check: Check) -> str:
    advice = ": ".join(view.advice(check))
    return "\n".join([check["title"], *view.row_lines(check), advice, f"Source: {check['source']}"])


def _properties(parent: ET.Element, pairs: Iterable[tuple[str, str]]) -> None:
    node = ET.SubElement(parent, "properties")
    for name, value in pairs:
        ET.SubElement(node, "property", name=name, value=_clean(value))


def _clean(text: str) -> str:
    """Drop what XML 1.0 cannot carry, and the control characters that it could."""
    return _FORBIDDEN.sub("", text)
