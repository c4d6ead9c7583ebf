"""Findings are told by their cause: what one thing makes speak is one finding, and nothing is lost by it."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpuassay.report import html, terminal
from gpuassay.report.causes import findings
from report_sample import ORDER, check, results, row

SILENT = "silent: no evidence from this node"


def told(*rows: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Make a check of broken parts."""
    return check(*rows, **{"fault": "component", **more})


def test_a_silent_node_is_one_finding_whatever_it_keeps_from_being_judged() -> None:
    """Three checks, over nodes and over GPUs, name one node and one reason: one finding with all three."""
    document = results(
        {
            "audit.a.gpus": check(row("gpu2/gpu[0-7]", "error", 8, value=None, reason=SILENT)),
            "audit.a.host": check(row("gpu2", "error", metric="", value=None, reason=SILENT), over="node"),
            "audit.a.ports": check(row("gpu2", "error", metric="link", value=None, reason=f"link {SILENT}")),
            "audit.a.other": check(row("gpu3", "error", value=None, reason=SILENT)),
        }
    )
    assert [(found.id, [name for name, _ in found.others]) for found in findings(document)] == [
        ("audit.a.gpus", ["audit.a.host", "audit.a.ports"]),
        ("audit.a.other", []),
    ]


def test_a_missing_port_is_told_once_and_by_the_check_that_names_it() -> None:
    """The count of ports and the rate of the node follow from one port: the port leads."""
    evidence: dict[str, Any] = {"evidence": "nodes/n1#10"}
    document = results(
        {
            "audit.a.rate": told(row("n1", "fail", metric="connected", value=7, **evidence), over="node"),
            "audit.a.state": told(row("n1/mlx5_3/1", "fail", value="DOWN", **evidence), over="port"),
        }
    )
    (found,) = findings(document)
    assert (found.id, [name for name, _ in found.others]) == ("audit.a.state", ["audit.a.rate"])


def test_what_only_looks_alike_stays_apart() -> None:
    """Other evidence, another node or a wrong design make another finding."""
    one = row("n1", "fail", value=1, evidence="nodes/n1#10")
    document = results(
        {
            "audit.a.one": told(one),
            "audit.a.elsewhere": told({**one, "evidence": "nodes/n1#11"}),
            "audit.a.on_another": told({**one, "where": "n2"}),
            "audit.a.design": told(one, fault="design"),
            "audit.a.unproven": told({**one, "evidence": ""}),
        }
    )
    assert all(not found.others for found in findings(document))


@given(st.lists(st.tuples(st.sampled_from(ORDER), st.sampled_from(["n1", "n2/gpu0"])), max_size=12))
def test_every_check_that_is_not_in_order_is_told_exactly_once(rows: list[tuple[str, str]]) -> None:
    """However findings are put together, page and terminal name each check, and the page links to each."""
    checks = {
        f"audit.a.c{n}": told(row(where, verdict, reason="x")) for n, (verdict, where) in enumerate(rows)
    }
    document = results(checks)
    wrong = sorted(name for name, one in checks.items() if one["verdict"] not in ("pass", "skip"))
    assert sorted(name for found in findings(document) for name, _ in found.all) == wrong
    page = html.render(document)
    said = "\n".join(line.text for line in terminal.lines(document))
    assert all(page.count(f'id="{name}"') == 1 for name in wrong)
    assert [name for name in wrong if not re.search(rf"{re.escape(name)}(?![0-9])", said)] == []
