"""AMD's driver is told to inject an uncorrectable error into a block of a GPU: a real one, with a real reset.

Two things it could do are refused: retire a page by command, and an error in memory (umc), for which the
driver retires the page by itself. Both are written into the GPU's EEPROM and stay.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuassay.fault.node.words import Blocked, NotRestored, Plan, Refused, need_root

if TYPE_CHECKING:
    from collections.abc import Mapping

_BLOCKS = ("gfx", "sdma", "mmhub", "athub", "pcie_bif", "hdp", "xgmi_wafl", "df")  # Linux, amdgpu_ras.c
_FOR_GOOD = ("umc", "retire_page")
_COUNT_S = 20.0
_RESET_S = 60.0


class AmdRas:
    """``block`` is the part of the GPU, ``card`` its number in /sys/class/drm."""

    def __init__(self, args: Mapping[str, Any], root: str = "/") -> None:
        """Only hold."""
        self._block, self._card = str(args.get("block", "gfx")), int(args.get("card", 0))
        self._command = Path(root) / f"sys/kernel/debug/dri/{self._card}/ras/ras_ctrl"
        self._device = Path(root) / f"sys/class/drm/card{self._card}/device"

    def plan(self) -> Plan:
        """Look for the driver's command file and its counter. Raises Refused."""
        need_root()
        if self._block in _FOR_GOOD:
            raise Refused(f"{self._block} is never injected: the GPU would keep a retired page for good")
        if self._block not in _BLOCKS:
            raise Refused(f"block = {self._block}: expected one of {', '.join(_BLOCKS)}")
        if not self._command.exists():
            raise Refused(f"the driver of card {self._card} takes no injection: there is no {self._command}")
        before = self._errors()
        if before is None:
            raise Refused(f"card {self._card} does not count errors of {self._block}")
        return Plan(
            does=(f"echo 'inject {self._block} ue 0 0 0' > {self._command}",),
            undoes=(),
            expects=f"an uncorrectable error of {self._block}, and the driver resets the GPU",
            state={"before": before},
            warns=(
                "the driver undoes it by a reset, which may take all GPUs that XGMI joins",
                "before ROCm 6.2.2 the reset may leave the node undefined: then it has to be restarted",
            ),
        )

    def inject(self, state: Mapping[str, Any]) -> None:
        """Give the command. Raises Blocked."""
        try:
            self._command.write_text(f"inject {self._block} ue 0 0 0\n", encoding="ascii")
        except OSError as error:
            raise Blocked(f"the driver does not inject: {error}") from error

    def verify_injected(self, state: Mapping[str, Any]) -> str:
        """See the counter rise. Raises Blocked."""
        until = time.monotonic() + _COUNT_S
        while True:
            now = self._errors()
            if now is not None and now > state["before"]:
                return f"card {self._card} counts {now} uncorrectable errors of {self._block}"
            if time.monotonic() > until:
                raise Blocked(f"card {self._card} counts {now} errors of {self._block}, as before")
            time.sleep(0.1)

    def undo(self, state: Mapping[str, Any]) -> None:
        """Leave it to the driver, which resets the GPU."""

    def verify_undone(self, state: Mapping[str, Any]) -> str:
        """Find the GPU answering. Raises NotRestored."""
        until = time.monotonic() + _RESET_S
        while self._errors() is None:
            if time.monotonic() > until:
                raise NotRestored(f"card {self._card} does not answer after its reset")
            time.sleep(0.1)
        return f"card {self._card} answers"

    def _errors(self) -> int | None:
        """Read how many uncorrectable errors the block has had; None where that cannot be read."""
        try:
            text = (self._device / f"ras/{self._block}_err_count").read_text(encoding="ascii")
        except OSError:
            return None
        words = [line.partition(":") for line in text.splitlines()]
        counts = [value.strip() for name, _, value in words if name.strip() == "ue"]
        return int(counts[0]) if counts and counts[0].isdigit() else None
