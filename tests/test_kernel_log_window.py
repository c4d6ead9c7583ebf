"""How far back a kernel log reaches, and what it means that there is none, or only a damaged one."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuassay.evidence.item import Item, Status
from gpuassay.facts import kernel_log
from gpuassay.judge.fact import Read, Unread
from kernel_log_evidence import BOOT, HOUR, Node, counts, kmsg, read, record, value_of

if TYPE_CHECKING:
    from gpuassay.facts.kernel_log import KernelLog

XID = "NVRM: Xid (PCI:0000:18:00): 79, GPU has fallen off the bus."


def absences(log: KernelLog) -> set[str]:
    """Give the kinds of absence in a log, ``read`` for what was read."""
    facts = [getattr(log, field.name) for field in fields(log)]
    return {fact.kind if isinstance(fact, Unread) else "read" for fact in facts}


def uptime(hours: float) -> Item:
    """Make /proc/uptime."""
    return Item("uptime", 3, out=f"{hours * HOUR:.2f} 5.00\n".encode())


def test_a_log_from_the_boot_reaches_as_far_as_the_uptime() -> None:
    """The window is the time that the log proves: from its oldest record to now, not to its newest record."""
    log = read("nothing happened", hours=2.0, uptime_hours=100.0)

    assert log.window_hours == Read(
        100.0,
        "nodes/gpu001#9",
        "the record goes back to the boot; uptime 100.0 h; newest record at 2.0 h; 2 records",
    )


def test_an_overwritten_log_reaches_back_to_its_oldest_record() -> None:
    """A machine may be up for two weeks and its log begin an hour ago; the rest was overwritten."""
    lines = kmsg(record("link becomes ready", 335.0, sequence=90114), record("x", 335.5, sequence=90115))
    log = kernel_log.read(Node({"kmsg": lines, "uptime": uptime(336.0)}))

    assert isinstance(log.window_hours, Read)
    assert log.window_hours.value == 1.0
    assert log.window_hours.note.startswith("the record begins 335.0 h after the boot; uptime 336.0 h")


@pytest.mark.parametrize("item", [None, uptime(0.1), Item("uptime", 3, out=b"who knows")])
def test_without_a_usable_uptime_the_newest_record_is_now(item: Item | None) -> None:
    """A container may have an uptime of its own, shorter than the kernel's: no record is from the future."""
    items = {"kmsg": kmsg(BOOT, record("x", 80.0))}
    log = kernel_log.read(Node(items if item is None else {**items, "uptime": item}))

    assert isinstance(log.window_hours, Read)
    assert log.window_hours.value == 80.0


@pytest.mark.parametrize(
    ("status", "kind"),
    [("denied", "denied"), ("not_found", "denied"), ("timed_out", "timed_out"), ("failed", "failed")],
)
def test_a_log_that_did_not_come_is_unread_in_every_fact(status: Status, kind: str) -> None:
    """A container without /dev/kmsg cannot see the log from its seat, just as one that is denied it."""
    log = kernel_log.read(Node({"kmsg": Item("kmsg", 9, status=status, why="/dev/kmsg: no such file")}))

    assert absences(log) == {kind}
    assert isinstance(log.serious_xids, Unread)
    assert "/dev/kmsg: no such file" in log.serious_xids.why
    assert log.serious_xids.evidence == "nodes/gpu001#9"


def test_an_older_probe_did_not_ask() -> None:
    """A recording without the item is not run, unless the node's evidence is damaged: then nobody knows."""
    assert absences(kernel_log.read(Node({}))) == {"not_asked"}
    assert absences(kernel_log.read(Node({}, problems=("line 9 is no JSON",)))) == {"garbled"}


@pytest.mark.parametrize(
    "out", [b"", b"\n \n", b"[    0.000000] Linux version 6.8\n", b"\xff\xfe\x00", b"4,1;x"]
)
def test_a_log_without_a_record_is_garbled(out: bytes) -> None:
    """An empty log, or one in another form, is never a clean one."""
    assert absences(kernel_log.read(Node({"kmsg": Item("kmsg", 9, out=out)}))) == {"garbled"}


def test_a_damaged_log_proves_what_is_in_it_and_nothing_else() -> None:
    """One line that is no record may have been the fault: no count of zero stands, but a found fault does."""
    log = kernel_log.read(Node({"kmsg": kmsg(BOOT, "�� torn", record(XID))}))

    assert value_of(log.serious_xids) == 1
    assert isinstance(log.application_xids, Unread)
    assert log.application_xids.kind == "garbled"
    assert "'�� torn'" in log.application_xids.why
    assert isinstance(log.window_hours, Unread)


def test_a_reading_that_broke_off_proves_what_came() -> None:
    """The same holds where the probe had to stop: its records are kept, and the reason is said."""
    item = Item("kmsg", 9, status="timed_out", why="killed after 5 s", out=record(XID).encode())
    log = kernel_log.read(Node({"kmsg": item}))

    assert value_of(log.serious_xids) == 1
    assert log.unknown_xids == Unread("timed_out", "killed after 5 s", "nodes/gpu001#9")


def test_the_torn_first_line_of_a_cut_log_is_left_out() -> None:
    """Cut inside its priority, a user's record (12) would read as the kernel's own (2)."""
    torn = record(XID, priority=12).removeprefix("1")
    item = Item("kmsg", 9, out=f"{torn}\n{record('x', 2.0)}".encode(), truncated=True)
    log = kernel_log.read(Node({"kmsg": item, "uptime": uptime(3.0)}))

    assert counts(log) == {}
    assert isinstance(log.window_hours, Read)
    assert log.window_hours.value == 1.0


def test_lines_below_a_record_belong_to_it() -> None:
    """The kernel adds KEY=value lines that begin with a space; they are neither records nor damage."""
    log = kernel_log.read(
        Node({"kmsg": kmsg(BOOT, record("pcieport"), " SUBSYSTEM=pci", " DEVICE=+pci:0000:18:00.0")})
    )

    assert counts(log) == {}


@given(st.binary(), st.binary(), st.booleans())
def test_no_bytes_make_the_reader_fail(before: bytes, after: bytes, truncated: bool) -> None:  # noqa: FBT001
    """Arbitrary bytes give facts or reasons; a fault between them is found, unless its own line was torn."""
    line = f"\n{record(XID)}\n".encode()
    log = kernel_log.read(Node({"kmsg": Item("kmsg", 9, out=before + line + after, truncated=truncated)}))

    assert value_of(log.serious_xids) >= 1


@given(st.binary(max_size=400), st.binary(max_size=40), st.binary(max_size=40))
def test_arbitrary_items_give_facts_or_reasons(log: bytes, up: bytes, nvml: bytes) -> None:
    """The items that the note draws on may be anything, too."""
    items = {
        "kmsg": Item("kmsg", 9, out=log + b"\n" + record(XID).encode()),
        "uptime": Item("uptime", 3, out=up),
        "nvml": Item("nvml", 4, out=nvml),
    }

    assert "read" in absences(kernel_log.read(Node(items)))
