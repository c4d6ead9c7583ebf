"""The kernel's messages from the journal, where its log may not be read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpuassay.evidence.item import Item
from gpuassay.facts import kernel_log
from gpuassay.judge.fact import Read, Unread
from kernel_log_evidence import Node, value_of

DENIED = Item("kmsg", 1, status="denied", why="/dev/kmsg: Operation not permitted")
UPTIME = Item("uptime", 2, out=b"360000.00 1.00\n")
XID = "NVRM: Xid (PCI:0000:18:00): 79, GPU has fallen off the bus."


def entry(message: Any, usec: int = 0, facility: Any = "0", **more: Any) -> str:
    """Write an entry of the journal."""
    stamp = {"_SOURCE_MONOTONIC_TIMESTAMP": str(usec), "PRIORITY": "4", "SYSLOG_FACILITY": facility}
    return json.dumps({"MESSAGE": message, **stamp, **more})


def read(*lines: str, **changes: Any) -> kernel_log.KernelLog:
    """Read a node whose log is denied and whose journal has these lines."""
    journal = Item("kernel-journal", 3, **{"out": "\n".join(lines).encode(), **changes})
    return kernel_log.read(Node({"kmsg": DENIED, "uptime": UPTIME, "kernel-journal": journal}))


BOOT = entry("Linux version 6.8.0")


def test_an_xid_in_the_journal() -> None:
    """It counts as in the log itself, and the journal reaches back to the boot."""
    log = read(BOOT, entry(XID, 7_200_000_000))
    assert value_of(log.serious_xids) == 1
    assert log.window_hours == Read(100.0, "nodes/gpu001#3", log.window_hours.note)  # type: ignore[union-attr]
    assert "goes back to the boot" in log.window_hours.note


def test_a_journal_that_begins_later_says_so() -> None:
    """Its oldest entry begins the record."""
    log = read(entry("usb 1-1: new device", 180_000_000_000), entry(XID, 190_000_000_000))
    assert log.window_hours.value == 50.0  # type: ignore[union-attr]


@pytest.mark.parametrize("facility", ["1", "3", None, "", "x"])
def test_a_line_that_the_kernel_did_not_write(facility: Any) -> None:
    """Only facility 0 is the kernel's; what does not say its own is not."""
    log = read(BOOT, entry(XID, 1, facility))
    assert (value_of(log.serious_xids), value_of(log.written_by_user)) == (0, 1)


def test_bytes_and_newlines_in_a_message() -> None:
    """A message that is no text comes as numbers, and one of several lines stays one record."""
    assert value_of(read(BOOT, entry([*XID.encode()], 1)).serious_xids) == 1
    assert value_of(read(BOOT, entry(f"{XID}\nmore", 1)).serious_xids) == 1


@pytest.mark.parametrize("line", ["{", "[]", "7", '{"MESSAGE": 5}', "-- No entries --"])
def test_a_line_that_is_no_entry_hides_nothing(line: str) -> None:
    """What was found counts; that there was nothing else cannot be said."""
    log = read(BOOT, entry(XID, 1), line)
    assert value_of(log.serious_xids) == 1
    assert isinstance(log.fatal_sxids, Unread)


@pytest.mark.parametrize(
    "changes", [{"out": b""}, {"status": "failed", "why": "exit status 1"}, {"truncated": True}]
)
def test_no_journal_leaves_the_log_unseen(changes: dict[str, Any]) -> None:
    """Without it the log's own reason stands."""
    log = read(BOOT, **changes)
    assert isinstance(log.serious_xids, Unread)
    assert log.serious_xids.kind == "denied"
    assert "not permitted" in log.serious_xids.why
