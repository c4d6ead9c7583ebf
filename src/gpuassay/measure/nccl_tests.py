"""nccl-tests or rccl-tests on the GPUs of a node, each with its own all-reduce."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuassay.judge.fact import Read, Unread
from gpuassay.measure.nccl_printed import Printed, parse
from gpuassay.measure.started import ToolRun, nothing, start

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.evidence.item import Item
    from gpuassay.judge.fact import Fact, Scalar

GET = "build it from github.com/NVIDIA/nccl-tests (AMD: ROCm/rocm-systems, rccl-tests) into a folder of PATH"

_PLACES = "/opt/*[nr]ccl*tests*/build /opt/*/bin"  # where images put it
_LEAST_RANKS = 2


@dataclass(frozen=True)
class NcclTest(ToolRun[Printed]):
    """One run on one node."""

    @property
    def wrong(self) -> Fact[int]:
        """How many elements were wrong; unread if nothing was compared."""
        printed = self._whole()
        if isinstance(printed, Unread):
            return printed
        counts = [half.wrong for row in printed.rows for half in (row.out_of_place, row.in_place)]
        found = [count for count in counts if count is not None]
        if printed.passed is False and not any(found):
            note = f"out of bounds: {printed.wrong} FAILED, wrong data"
            return Read(max(1, printed.wrong or 0), self.ref, note)
        if not found:
            return Unread("not_found", "it compared nothing: -c 0", self.ref)
        note = f"out of bounds values: {printed.wrong} FAILED, wrong data" if sum(found) else ""
        return Read(sum(found), self.ref, note)

    @property
    def busbw_gbps(self) -> Fact[float]:
        """Bus bandwidth of the largest message, in place; the average over all sizes says little."""
        printed = self._whole()
        if isinstance(printed, Unread):
            return printed
        largest = printed.largest
        if largest is None:
            return Unread("failed", "it printed no row", self.ref)
        value = largest.in_place.busbw if largest.in_place.busbw is not None else largest.out_of_place.busbw
        if value is None:
            return Unread("failed", f"no bandwidth at {largest.size} bytes", self.ref)
        return Read(
            value, self.ref, f"{largest.size} bytes, {printed.ranks} ranks, by {printed.command or 'it'}"
        )

    def _whole(self) -> Printed | Unread:
        """Give what was printed if it is a whole run of two ranks or more."""
        printed = self.printed
        if isinstance(printed, Unread):
            return printed
        said = "; ".join(printed.problems[:3])
        if "system not yet initialized" in said:
            said += " (CUDA error 802: the NVSwitch fabric is not up; look at Fabric Manager)"
        if printed.problems or not printed.finished:
            why = said or f"it ended after {len(printed.rows)} rows, without its last lines"
            return Unread("failed", why, self.ref)
        if printed.ranks < _LEAST_RANKS:
            return Unread("failed", "one rank has no bus: it needs at least 2 GPUs", self.ref)
        return printed


class NcclTests:
    """``all_reduce_perf`` on the GPUs of each node."""

    method = 1

    def argv(self, args: Mapping[str, Scalar]) -> tuple[str, ...]:
        """Give the command: it looks for the tool, counts the GPUs, says how it starts it, and does."""
        sizes = ("-b", str(args["least"]), "-e", str(args["most"]), "-f", str(args["factor"]))
        how = (*sizes, "-n", str(args["calls"]), "-w", str(args["warm"]), "-c", "1", "-g", "{gpus}")
        return start("all_reduce_perf all_reduce_perf_mpi", _PLACES, GET, "{tool}", *how)

    def read(self, node: str, args: Mapping[str, Scalar], item: Item | Unread, ref: str) -> NcclTest:  # noqa: ARG002 - as all tools
        """Read a run; whatever its exit status, for one that found wrong values has another than 0."""
        if isinstance(item, Unread):
            return NcclTest(node, item, ref)
        printed = parse(item.out.decode("utf-8", "replace"))
        if printed.rows or printed.problems:
            return NcclTest(node, printed, ref)
        return NcclTest(node, nothing(item, ref, "all_reduce_perf"), ref)
