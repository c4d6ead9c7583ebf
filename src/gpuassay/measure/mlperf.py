"""The training workloads of MLPerf Storage, run by DLIO: how busy storage keeps an accelerator.

What DLIO says of itself ("success", an exit of 0) is no figure: its summary counts, where it is whole, of
this very run, and of data that the node cannot have had in memory.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuassay.facts.record import Record
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure import figures
from gpuassay.measure.mounted import Mounted, MountTool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.judge.fact import Fact, Scalar

_COLD = 0.9
_TIMES_MEMORY = 5  # MLPerf Storage, Submission_guidelines.md v2.0, 6.6: so much data is not cached
_MIB = 1 << 20  # DLIO says MB, and divides by 1024 twice
_ROUNDING = 0.01
_ALL = 100.0


class EmulatedTraining(Mounted):
    """A mount as data loaders found it that feed accelerators which are not there."""

    @property
    def unet3d_au(self) -> Fact[float]:
        """The share of its time that an accelerator would work on 3D U-Net: large files, read whole."""
        return self._au("unet3d")

    @property
    def resnet50_au(self) -> Fact[float]:
        """The same of ResNet-50: many small records in files of 140 MB."""
        return self._au("resnet50")

    @property
    def cosmoflow_au(self) -> Fact[float]:
        """The same of CosmoFlow: files of 3 MB, some three hundred a second."""
        return self._au("cosmoflow")

    def _au(self, model: str) -> Fact[float]:
        if self.failed:
            return self.failed
        listed = self.row.listed("runs")
        if isinstance(listed, Unread):
            return listed
        for row in listed.value:
            if row.look("model") == Read(model, row.evidence):
                return self._of_run(Emulated(model, row))
        return Unread("garbled", f"{self.mount.path}: {model} is not among its runs", self.row.evidence)

    def _of_run(self, run: Emulated) -> Fact[float]:
        why = run.failed or run.warm(self.row.look("memory"))
        if why:
            return Unread(why.kind, f"{self.mount.path}: {run.model}: {why.why}", self.row.evidence)
        au, samples, mib = (run.metric(name) for name in (*_FIGURES,))
        rate = f"{samples:.4g} samples/s, {mib * _MIB / 1e9:.3g} GB/s with the first step"
        return self.of(au / _ALL, f"{run.accelerators} emulated H100, {run.gigabytes:.3g} GB, {rate}")


_FIGURES = (
    "train_au_mean_percentage",
    "train_throughput_mean_samples_per_second",
    "train_io_mean_MB_per_second",
)


@dataclass(frozen=True)
class Emulated:
    """One model's run: what the node kept of it."""

    model: str
    row: Record

    @property
    def accelerators(self) -> int:
        """How many accelerators were asked for."""
        return self._count("accelerators")

    @property
    def gigabytes(self) -> float:
        """How much data was made."""
        return self._count("bytes") / 1e9

    @property
    def failed(self) -> Unread | None:
        """Why the summary is none that counts; None if it is."""
        return figures.lack(self.row) or self._ended() or self._summary_is_wrong()

    def warm(self, memory: Fact[Any]) -> Unread | None:
        """Say that the data may have come from the node's memory; None if they cannot.

        It is read once: what was dropped from memory before is not there, and five times as much as the
        node has does not fit.
        """
        cold, told = self.row.look("cold"), self._summary().look("potential_caching")
        gone = _number(cold.value) if isinstance(cold, Read) else None
        if gone is not None and gone >= _COLD:
            return None
        room = _number(memory.value) if isinstance(memory, Read) else None
        cached = told.value if isinstance(told, Read) else True
        if room and self._count("bytes") >= _TIMES_MEMORY * room and not _any(cached):
            return None
        size = f"{room / 1e9:.3g} GB" if room else "unknown size"
        left = f"{1 - gone:.0%}" if gone is not None else "an unknown share"
        said = self._summary().record("metric").look("train_au_meet_expectation")
        word = f", although DLIO says {brief(str(said.value))}" if isinstance(said, Read) else ""
        data = f"{self.gigabytes:.3g} GB of data may be cached in memory of {size}"
        return self._wrong(f"{data}, {left} of them still were{word}")

    def metric(self, name: str) -> float:
        """Give a figure of the summary; not a number where there is none."""
        told = self._summary().record("metric").look(name)
        value = _number(told.value) if isinstance(told, Read) else None
        return math.nan if value is None else value

    def _ended(self) -> Unread | None:
        """Say which of the two commands did not come to a good end."""
        for row, what in (
            (self.row.record("made"), "its data were not made"),
            (self.row, "it was not trained"),
        ):
            late, left = row.look("timed_out"), row.look("exit")
            if isinstance(late, Read):
                return self._wrong(f"{what}: it did not end within {late.value} s")
            if isinstance(left, Unread):
                return left
            if left.value != 0 or isinstance(left.value, bool):
                return self._wrong(f"{what}: it ended with {brief(str(left.value))}: {_last_words(row)}")
        return None

    def _summary(self) -> Record:
        """Read summary.json, which is one JSON document and nothing else."""
        text = self.row.look("summary")
        if isinstance(text, Unread):
            return Record(Unread("failed", "it wrote no summary", self.row.evidence), self.row.evidence)
        try:
            document = json.loads(text.value)
        except (TypeError, ValueError, RecursionError) as error:
            return Record(
                self._garbled(f"its summary cannot be read: {brief(str(error))}"), self.row.evidence
            )
        if not isinstance(document, dict):
            return Record(self._garbled("its summary is no object"), self.row.evidence)
        return Record(document, self.row.evidence)

    def _summary_is_wrong(self) -> Unread | None:
        """Say why the summary does not count: unread, of another run, cut short, or not of one mind."""
        summary, began = self._summary(), self.row.text("began")
        start, end = summary.text("start"), summary.text("end")
        for one in (summary.unread, began, start, end):
            if isinstance(one, Unread):
                return one
        if isinstance(start, Read) and isinstance(began, Read) and start.value < began.value:
            return self._garbled(f"its summary is of an earlier run, which began at {start.value}")
        asked = {"num_accelerators": "accelerators", "num_files_train": "files"}
        for name, key in asked.items():
            if summary.count(name) != self.row.count(key):
                return self._garbled(f"its summary is of another run: {name} is not {self._count(key)}")
        return self._figures_are_wrong(summary)

    def _figures_are_wrong(self, summary: Record) -> Unread | None:
        for name in _FIGURES:
            if not self.metric(name) > 0:
                return self._garbled(f"{name} is no figure above 0")
        epochs = summary.record("metric").look("train_au_percentage")
        each = epochs.value if isinstance(epochs, Read) and isinstance(epochs.value, list) else []
        mean = self.metric(_FIGURES[0])
        if len(each) != 1 or (only := _number(each[0])) is None or abs(only - mean) > _ROUNDING:
            return self._garbled("its mean is not that of the one epoch that was asked for")
        return self._garbled(f"it says {mean:.4g} % of the time") if mean > _ALL + _ROUNDING else None

    def _count(self, key: str) -> int:
        told = self.row.count(key)
        return told.value if isinstance(told, Read) else 0

    def _wrong(self, why: str) -> Unread:
        return Unread("failed", why, self.row.evidence)

    def _garbled(self, why: str) -> Unread:
        return Unread("garbled", why, self.row.evidence)


def _number(value: object) -> float | None:
    """Give a finite number; NaN, which Python's JSON lets pass, is none, and true is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return value


def _any(told: object) -> bool:
    """Tell whether DLIO sees a host whose memory may hold the data: it says so host by host."""
    return any(told) if isinstance(told, list) else bool(told)


def _last_words(row: Record) -> str:
    """Quote the last error, or the last words: an MPI rules off what it adds below."""
    texts = (row.look(key) for key in ("out", "err"))
    said = [one.value for one in texts if isinstance(one, Read) and isinstance(one.value, str)]
    lines = [line.strip() for line in "\n".join(said).splitlines() if re.search(r"\w", line)]
    errors = [line for line in lines if re.match(r"[\w.]*(?:Error|Exception)\b", line)]
    return brief(next(iter([*errors[-1:], *lines[-1:]]), "it said nothing"))


def _plan(args: Mapping[str, Scalar]) -> dict[str, Any]:
    told = {name: args[name] for name in ("accelerators", "writers", "seconds")}
    return {**told, "models": str(args["models"]).split()}


MLPERF = MountTool(
    "mlperf",
    "dlio",
    1,
    "install mlpstorage (github.com/mlcommons/storage) or dlio_benchmark by pip, and an MPI, "
    "into an environment whose bin is in PATH",
    _plan,
    EmulatedTraining,
)
