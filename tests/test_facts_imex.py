"""IMEX: every form of its table, and nothing that is none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts_evidence import absent, evidence, unread, value
from gpuassay.evidence.item import Item
from gpuassay.facts import imex
from gpuassay.judge.fact import Read

SAMPLES = Path(os.environ.get("GPUASSAY_SAMPLES", Path(__file__).parents[2] / "shared"))
CAPTURES = SAMPLES / "captures/nvidia-imex-ctl"
TWO = """\
Connectivity Table Legend:
C - Connected - Ready for operation

3/31/2026 16:57:17.721
Nodes:
Node #0   * 192.0.2.1 *        - READY                - Version: 580.95.09       - Hostname: node-01
Node #1   - 192.0.2.2          - READY                - Version: 580.95.05       - Hostname: node-02

 Nodes From\\To  0   1
       0        C   !V!
       1        N   C
Domain State: DEGRADED
"""


def read(content: Any) -> imex.Imex:
    """Read the daemon's answer."""
    return imex.read(evidence({"imex": content}))


def facts(one: imex.Imex) -> tuple[Any, ...]:
    """Give all that is read of a domain."""
    told = (one.domain, one.members, one.unready, one.unconnected, one.other_versions)
    return tuple(value(fact) for fact in told)


def test_two_nodes_that_differ() -> None:
    """Connections are named from where to where, in words; versions beside the most frequent one."""
    one = read(TWO)
    assert value(one.running) is True
    assert facts(one) == ("degraded", 2, 0, 2, 1)
    note = "node-01 to node-02: versions differ, node-02 to node-01: never connected"
    assert getattr(one.unconnected, "note", "") == note
    assert "node-02 has 580.95.05" in getattr(one.other_versions, "note", "")


@pytest.mark.skipif(not CAPTURES.is_dir(), reason=f"no samples in {SAMPLES}: set GPUASSAY_SAMPLES")
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("imex-ctl_N_degraded_17nodes.txt", ("degraded", 17, 2, 0, 0)),
        ("imex-ctl_N_up_18nodes.txt", ("up", 18, 0, 0, 0)),
        ("imex-ctl_N_up_single_old.txt", ("up", 1, 0, 0, 0)),
    ],
)
def test_real_tables_of_every_age(name: str, told: tuple[Any, ...]) -> None:
    """With and without versions, host names and the mark of the node that was asked."""
    one = read((CAPTURES / name).read_text())
    assert facts(one) == told
    if told[2]:
        assert getattr(one.unready, "note", "") == "node-02 is UNAVAILABLE, node-04 is UNAVAILABLE"


def test_no_daemon_is_an_answer_and_no_permission_is_none() -> None:
    """Without the tool, or with no daemon behind it, none runs; what may not be asked is not known."""
    missing = read(absent("not_found", "nvidia-imex-ctl: No such file or directory"))
    assert value(missing.running) is False
    assert "No such file" in getattr(missing.running, "note", "")
    stopped = read(Item("", 0, status="failed", why="exit status 1", err="Connection refused"))
    assert value(stopped.running) is False
    assert "Connection refused" in unread(stopped.domain).why
    assert unread(read(absent("denied", "Permission denied")).running).kind == "denied"
    assert unread(read(absent("timed_out", "no end within 20 s")).running).kind == "timed_out"
    assert unread(imex.read(evidence({})).running).kind == "not_asked"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Domain State: UP",
        TWO.replace("Domain State: DEGRADED", ""),
        TWO.replace("       1        N   C\n", ""),
        TWO.replace("Node #1", "Node #7"),
        TWO.replace("       0        C   !V!", "       0        C"),
        TWO.replace("READY ", "ready "),
    ],
)
def test_half_a_table_is_none(text: str) -> None:
    """A table that lacks a node, a row or the domain's state is not read as the part that is left."""
    assert unread(read(text).domain).kind == "garbled"
    assert unread(read(text).running).kind == "garbled"


@given(
    st.text(st.sampled_from("Node #012*-READYC!VM \n\tDomainState:UP."), max_size=400)
    | st.binary(max_size=300)
)
def test_any_text_gives_facts(text: str | bytes) -> None:
    """Nothing raises, and nothing garbled is a domain that is up."""
    one = read(text)
    if isinstance(one.domain, Read):
        assert value(one.members) > 0
