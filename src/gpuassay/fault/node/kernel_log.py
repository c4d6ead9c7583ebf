"""Lines in the form of an Xid or SXid are written into the kernel log, where a provider's tooling may read.

They are no fault: no GPU is touched. Each is written in two forms, for readers differ: those of /dev/kmsg
expect a driver's line as it is, and journald takes the first word of a program's line for the name of who
wrote it, so that a reader of the journal finds the line whole only behind one more word.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuassay.fault.node import kmsg, pci
from gpuassay.fault.node.words import Blocked, Plan, Refused, need_root

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_WARNING = "<4>"  # the level of the driver's own lines
_PACE_S = 0.6  # the kernel drops what is more than 10 lines in 5 s through one descriptor
_PATIENCE_S = 5.0

# What the driver says behind number and process; only the number is what readers go by.
_XIDS = {
    13: "Graphics SM Warp Exception on (GPC 0, TPC 0, SM 0): Out Of Range Address",
    31: "Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS faulted @ 0x7f00_00000000",
    43: "Ch 00000008",
    48: "An uncorrectable double bit error (DBE) has been detected on GPU",
    64: "Row Remapper Error: failed to record a row",
    79: "GPU has fallen off the bus.",
    95: "Uncontained: FBHUB. RST: Yes, D-RST: No",
}
_SXIDS = {
    11012: "Non-fatal, Link 30 ingress header single bit error",
    20034: "Fatal, Link 30 LTSSM Fault Up",
}
_GSP = 119


class KernelLog:
    """``xids`` and ``sxids`` are numbers, spaces between; ``address`` or ``gpu`` is the GPU they name."""

    def __init__(self, args: Mapping[str, Any], root: str = "/") -> None:
        """Only hold."""
        self._args = args
        self._root = Path(root)
        self._xids = [int(number) for number in str(args.get("xids", "")).split()]
        self._sxids = [int(number) for number in str(args.get("sxids", "")).split()]
        self._mark = f"gpuassay-{args['mark']}"
        self._reader: kmsg.Reader | None = None

    def plan(self) -> Plan:
        """Write the lines down that would be written. Raises Refused."""
        need_root()
        self._refuse()
        lines = [line for own in self._lines() for line in (own, f"kernel: {own}")]
        return Plan(
            does=tuple(f"write to /dev/kmsg: {_WARNING}{line}" for line in lines),
            undoes=(),
            expects="what reads the kernel log finds these numbers there, and does what it does about them",
            state={"lines": lines},
            warns=(
                "a line cannot be taken back: the log, and what was made of it (tickets, events), stays",
                "DCGM 4 takes Xid 79 from the log: its health fails until nv-hostengine is restarted",
                "gpud keeps what it has read until it is told set-healthy",
            ),
        )

    def inject(self, state: Mapping[str, Any]) -> None:
        """Write the lines, not faster than the kernel takes them. Raises Blocked."""
        try:
            self._reader = kmsg.Reader(self._root)
            into = os.open(kmsg.path(self._root), os.O_WRONLY | os.O_APPEND)
        except OSError as error:
            raise Blocked(f"the kernel log cannot be opened: {error}") from error
        try:
            for number, line in enumerate(state["lines"]):
                time.sleep(_PACE_S if number else 0)
                os.write(into, f"{_WARNING}{line}\n".encode())
        except OSError as error:
            raise Blocked(f"the kernel log takes no lines: {error}") from error
        finally:
            os.close(into)

    def verify_injected(self, state: Mapping[str, Any]) -> str:
        """Find every line through a reader that was opened before they were written. Raises Blocked."""
        if self._reader is None:
            raise Blocked("nothing was read before the lines were written, so nothing shows that they came")
        found = self._reader.until(tuple(state["lines"]), _PATIENCE_S)
        self._reader.close()
        texts = "\n".join(record.text for record in found)
        lost = [line for line in state["lines"] if line not in texts]
        if lost:
            raise Blocked(f"{len(lost)} of {len(state['lines'])} lines did not get into the log: {lost[0]}")
        return f"{len(state['lines'])} lines marked {self._mark} were read back: {state['lines'][0]}"

    def undo(self, state: Mapping[str, Any]) -> None:
        """Do nothing: no line can be taken back, and nothing else was done."""

    def verify_undone(self, state: Mapping[str, Any]) -> str:
        """Say what stays."""
        return f"nothing is broken; {len(state['lines'])} lines marked {self._mark} stay in the log"

    def _refuse(self) -> None:
        if _GSP in self._xids:
            raise Refused("Xid 119 is not written: DCGM would stop asking the driver until it is restarted")
        strange = [number for number in self._xids if number not in _XIDS]
        strange += [number for number in self._sxids if number not in _SXIDS]
        if strange or not self._xids + self._sxids:
            known = ", ".join(map(str, [*_XIDS, *_SXIDS]))
            raise Refused(f"no line is known for {strange or 'no number'}: expected some of {known}")
        if not os.access(kmsg.path(self._root), os.R_OK | os.W_OK):
            raise Refused("there is no kernel log here that can be written to: /dev/kmsg")
        setting = self._root / "proc/sys/kernel/printk_devkmsg"
        if setting.exists() and setting.read_text(encoding="ascii").strip() == "off":
            raise Refused("printk.devkmsg is off: the kernel drops what programs write, and says nothing")

    def _lines(self) -> Iterator[str]:
        """Write the lines as the driver would, with our mark in the place of a process's name."""
        if self._xids:
            gpu = pci.chosen(self._root, self._args).rpartition(".")[0]
            for number in self._xids:
                who = f"pid={os.getpid()}, name={self._mark}"
                yield f"NVRM: Xid (PCI:{gpu}): {number}, {who}, {_XIDS[number]}"
        if self._sxids:
            found = pci.switches(self._root)
            if not found:
                raise Refused("there is no NVSwitch on this node")
            where = f"nvidia-nvswitch0: SXid (PCI:{found[0]})"
            for number in self._sxids:
                yield f"{where}: {number:05d}, {_SXIDS[number]} ({self._mark})"
