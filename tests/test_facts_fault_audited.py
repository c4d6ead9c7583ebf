"""The audit of a node that serves again: what proves it whole, what proves it lesser, what proves nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpuassay.evidence.item import Item
from gpuassay.facts.fault_audited import ANSWER, AUDIT, NOT_COMPARED, Answers, passed, unproven
from gpuassay.facts.fault_sights import Moment, Return, Sight
from gpuassay.fault.audit import Audit
from gpuassay.judge.fact import Read, Unread
from gpuassay.target import TargetError
from recorded import faults

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuassay.judge.fact import Fact

END = Item(AUDIT, 7, asked={"node": "gpu1"}), "#7"
WHOLE, LESS = Read(0, "#3", "it has all"), Read(2, "#3", "7 of 8 ports carry traffic; /home is not mounted")
NOT_ASKED, UNKNOWN = Unread("not_asked", "no load belongs to it"), Unread("failed", "no load was run on it")
GOOD, BAD = Read(value=True), Read(value=False, note="its numbers were wrong")
SERVES = Return(Moment(90.5, 89.0, Sight(91.3, 89.8, "watch/slurm-node", "IDLE", "#2")), other=True)


def test_nothing_less_passes_and_anything_less_is_said() -> None:
    """All that lacks is told, and where it was read."""
    assert passed(END, WHOLE) == Read(value=True, evidence="#3", note="it has all")
    less = passed(END, LESS)
    assert isinstance(less, Read)
    assert less.value is False
    assert less.note == "its audit found less than before: 7 of 8 ports carry traffic; /home is not mounted"


@pytest.mark.parametrize(
    ("end", "lacks", "says"),
    [
        (None, WHOLE, "was not audited"),
        ((replace(END[0], status="timed_out", why="no answer"), "#7"), WHOLE, "was not audited: no answer"),
        (END, NOT_COMPARED, "compared with nothing"),
        (END, Unread("denied", "nvml is not for us"), "not all of its audit is known: nvml is not for us"),
    ],
)
def test_what_was_not_seen_is_no_pass(end: tuple[Item, str] | None, lacks: Fact[int], says: str) -> None:
    """An audit that was cut, refused, or compared with nothing leaves it unknown."""
    found = passed(end, lacks)
    assert isinstance(found, Unread)
    assert says in found.why


@pytest.mark.parametrize(
    ("proofs", "kind", "says"),
    [
        ((GOOD, GOOD), None, ""),
        ((NOT_ASKED, NOT_ASKED), None, ""),
        ((NOT_ASKED, BAD), Read, "let in after 90.5 s, but its numbers were wrong"),
        ((UNKNOWN, BAD), Read, "let in after 90.5 s, but its numbers were wrong"),
        ((GOOD, UNKNOWN), Unread, "let in after 90.5 s, but no load was run on it"),
    ],
)
def test_bad_decides_then_unknown(proofs: tuple[Fact[bool], ...], kind: type | None, says: str) -> None:
    """What was not asked proves nothing either way."""
    found = unproven(SERVES, proofs)
    assert (found is None) is (kind is None)
    if found is not None:
        assert isinstance(found, Read | Unread)
        assert isinstance(found, kind or object)
        assert (found.note if isinstance(found, Read) else found.why) == says


def asking(answer: Callable[[Callable[[str, Item], None]], None]) -> list[Item]:
    """Audit a node that answers in this way."""
    return list(Audit(lambda _node, keep: answer(keep))("gpu1"))


def test_each_answer_is_kept_and_the_end() -> None:
    """Read again they are the answers of a node, each with its reference."""
    found = asking(lambda keep: keep("gpu1", Item("uptime", 1, out=b"9.5 3.1\n")))
    assert [item.id for item in found] == [f"{ANSWER}uptime", AUDIT]
    read = Answers("gpu1", [(replace(item, seq=seq), f"#{seq}") for seq, item in enumerate(found, 5)])
    item = read.item("uptime")
    assert item is not None
    assert (item.id, item.out, read.ref(item)) == ("uptime", b"9.5 3.1\n", "#5")
    assert (read.answered, read.came, read.item("nvml")) == (True, True, None)


def test_a_node_that_cannot_be_asked_says_why_at_the_end() -> None:
    """What it had answered until then is kept."""

    def breaks(keep: Callable[[str, Item], None]) -> None:
        keep("gpu1", Item("uptime", 1, out=b"9.5 3.1\n"))
        raise TargetError("no way to it")

    found = asking(breaks)
    assert [item.id for item in found] == [f"{ANSWER}uptime", AUDIT]
    assert (found[-1].status, found[-1].why) == ("failed", "no way to it")
    assert isinstance(passed((found[-1], "#6"), WHOLE), Unread)


def test_made_up_answers_are_those_of_a_node() -> None:
    """What was measured on it is left out: nobody asks for that."""
    given = [Item("nvml", 1, out=b"{}"), Item("measure/gemm_bf16/0", 2)]
    assert [item.id for item in faults.audits("gpu1", given)] == [f"{ANSWER}nvml", AUDIT]
