"""ior, mdtest and elbencho in the mounts of the site file, and small files as a simulator makes them."""

from __future__ import annotations

import statistics
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gpuassay.judge.fact import Read, Unread
from gpuassay.measure import io_printed
from gpuassay.measure.fio_points import Figure
from gpuassay.measure.mounted import Mounted, MountTool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.facts.record import Record
    from gpuassay.judge.fact import Fact, Scalar
    from gpuassay.measure.io_printed import Printed

_CHOICE = ("nodes", "mounts")
_COLD = 0.9


class ToolVolume(Mounted):
    """A mount as one of the tools found it."""

    @cached_property
    def _printed(self) -> Printed | Unread:
        if self.failed:
            return self.failed
        late = self.row.look("timed_out")
        if isinstance(late, Read):
            return Unread(
                "failed", f"{self.mount.path}: it did not end within {late.value} s", self.row.evidence
            )
        out, err, table = (_text(self.row, key) for key in ("out", "err", "table"))
        tool = self.document.text("tool")
        name = tool.value if isinstance(tool, Read) else ""
        text = f"{out}\n{err}"
        if name == "elbencho":
            return io_printed.elbencho(table, text)
        return io_printed.mdtest(text) if name == "mdtest" else io_printed.ior(text)

    @property
    def wrong(self) -> Fact[int]:
        """How many errors it found in what it read back; unread where it did not come to its end."""
        printed = self._printed
        if isinstance(printed, Unread):
            return printed
        if printed.problems and not printed.wrong:
            return Unread("failed", f"{self.mount.path}: {printed.problems[0]}", self.row.evidence)
        note = printed.said or "errors in data that were read back"
        return Read(printed.wrong, self.row.evidence, note if printed.wrong else "")

    @property
    def figures(self) -> list[Figure]:
        """What it measured, operation by operation."""
        printed = self._printed
        if isinstance(printed, Unread) or printed.problems:
            return [Figure({**self.at, "operation": "all"}, self._why)]
        return [
            Figure({**self.at, "operation": name, "unit": printed.unit}, self.of(rate, name))
            for name, rate in printed.rates.items()
        ]

    @property
    def _why(self) -> Unread:
        wrong = self.wrong
        return wrong if isinstance(wrong, Unread) else Unread("failed", "no figure", self.row.evidence)


class SmallFiles(Mounted):
    """A mount and how it bears many small files."""

    @property
    def open_ms(self) -> Fact[float]:
        """The median time that opening a file takes."""
        return self._median_ms("open_us")

    @property
    def missing_ms(self) -> Fact[float]:
        """The median time until it is known that a file is not there, as a search of packages asks often."""
        return self._median_ms("missing_us")

    @property
    def wrong(self) -> Fact[int]:
        """How many files had another size or content than they were given."""
        if self.failed:
            return self.failed
        counts = [self.row.record(step).count("wrong") for step in ("create", "stat", "read", "delete")]
        unread = next((one for one in counts if isinstance(one, Unread)), None)
        return unread or Read(sum(one.value for one in counts if isinstance(one, Read)), self.row.evidence)

    @property
    def figures(self) -> list[Figure]:
        """Files a second, step by step; whether reading came from memory is said."""
        return [
            Figure({**self.at, "step": step}, self.rate(step))
            for step in ("create", "stat", "read", "delete")
        ]

    @property
    def create_of_fastest(self) -> Fact[float]:
        """How many files it makes a second, beside the node that makes most on the same mount."""
        return self.beside_fastest(lambda one: one.rate("create"))

    @property
    def read_of_fastest(self) -> Fact[float]:
        """How many it reads, beside the node that reads most."""
        return self.beside_fastest(lambda one: one.rate("read"))

    def rate(self, step: str) -> Fact[float]:
        """Give the files a second of one step."""
        if self.failed:
            return self.failed
        files, seconds, cold = (
            self.row.count("files"),
            self.row.record(step).look("seconds"),
            self.row.look("cold"),
        )
        if isinstance(files, Unread):
            return files
        if (
            isinstance(seconds, Unread)
            or not isinstance(seconds.value, (int, float))
            or not seconds.value > 0
        ):
            return Unread("garbled", f"{step}: no time was told", self.row.evidence)
        gone = cold.value if isinstance(cold, Read) and isinstance(cold.value, (int, float)) else 0.0
        memory = f", {1 - gone:.0%} of the files still in memory" if step == "read" and gone < _COLD else ""
        return self.of(files.value / seconds.value, f"{step} of {files.value} files{memory}")

    def _median_ms(self, key: str) -> Fact[float]:
        if self.failed:
            return self.failed
        told = self.row.look(key)
        if isinstance(told, Unread):
            return told
        times = told.value if isinstance(told.value, list) else []
        if not times or not all(isinstance(one, (int, float)) and 0 <= one < float("inf") for one in times):
            return self.row.garbled(key, told.value, "a list of times")
        return self.of(statistics.median(times) / 1e3, f"median of {len(times)}")


def _plan(args: Mapping[str, Scalar]) -> dict[str, Any]:
    return {name: value for name, value in args.items() if name not in _CHOICE}


def _text(row: Record, key: str) -> str:
    told = row.look(key)
    return told.value if isinstance(told, Read) and isinstance(told.value, str) else ""


_IOR = "build it from github.com/hpc/ior (autotools, MPI) into a folder of PATH"
IOR = MountTool("ior", "ior", 1, _IOR, _plan, ToolVolume)
MDTEST = MountTool("mdtest", "mdtest", 1, f"it comes with ior: {_IOR}", _plan, ToolVolume)
ELBENCHO = MountTool(
    "elbencho",
    "elbencho",
    1,
    "take the static program from github.com/breuner/elbencho, releases, into a folder of PATH",
    _plan,
    ToolVolume,
)
SMALL_FILES = MountTool("small_files", "small", 1, "", _plan, SmallFiles)
