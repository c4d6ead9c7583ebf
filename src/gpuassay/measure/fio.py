"""fio's sweeps as figures: each point, the best of them, where more in flight no longer helps, wrong data."""

from __future__ import annotations

import statistics
from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure.fio_points import AXES, Figure, Point, fits, is_widest, knee, points, size
from gpuassay.measure.fio_printed import Printed, parse
from gpuassay.measure.mounted import Mounted, MountTool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpuassay.facts.record import Record
    from gpuassay.judge.fact import Fact


class FioVolume(Mounted):
    """A mount and how fast fio found it."""

    @cached_property
    def points(self) -> tuple[Point, ...]:
        """All points of the sweep; one that was not reported is unread."""
        made: list[Point] = []
        for at in points(self.args)["points"]:
            if "repeat" in at:
                continue
            gbps, iops = self._rates(at)
            lesser = tuple(one for one in made if fits(one.at, at))
            made.append(Point(self.node, self.where, self.models, {**self.at, **at}, gbps, iops, lesser))
        return tuple(made)

    @property
    def read_gbps(self) -> Fact[float]:
        """Sequential reading with the largest block, the deepest queue and most jobs."""
        return self._sequential("read")

    @property
    def write_gbps(self) -> Fact[float]:
        """Sequential writing, synced at the end, with the same."""
        return self._sequential("write")

    @property
    def read_iops(self) -> Fact[float]:
        """The most random reads a second of the smallest block."""
        return self._random("randread")

    @property
    def write_iops(self) -> Fact[float]:
        """The most random writes a second of the smallest block."""
        return self._random("randwrite")

    @property
    def read_of_fastest(self) -> Fact[float]:
        """Its sequential reading beside that of the node which is fastest at the same mount."""
        return self.beside_fastest(lambda one: one.read_gbps)

    @property
    def write_of_fastest(self) -> Fact[float]:
        """Its sequential writing beside that of the fastest node."""
        return self.beside_fastest(lambda one: one.write_gbps)

    @property
    def iops_of_fastest(self) -> Fact[float]:
        """Its random reading beside that of the fastest node."""
        return self.beside_fastest(lambda one: one.read_iops)

    def read_scaling(self, alone: Sequence[FioVolume]) -> Fact[float]:
        """Compare what all nodes read together with as many times what one reads alone."""
        return self._scaling(alone, lambda one: one.read_gbps)

    def write_scaling(self, alone: Sequence[FioVolume]) -> Fact[float]:
        """Compare what all nodes write together with as many times what one writes alone."""
        return self._scaling(alone, lambda one: one.write_gbps)

    @property
    def promised(self) -> list[Figure]:
        """Each figure that the contract promises: what share of it was found."""
        made = []
        for name, sold in self.mount.speeds.items():
            found: Fact[float] = getattr(self, name)
            if isinstance(found, Read):
                note = f"{found.value:.4g} of {sold:g} {name}; {found.note}"
                found = Read(found.value / sold, found.evidence, note)
            made.append(Figure({**self.at, "figure": name}, found))
        return made

    @property
    def corrupt(self) -> Fact[int]:
        """How many blocks were not what had been written; what was cut short is unread."""
        printed = [parsed for _, parsed in self._runs]
        laid = self._laid
        if isinstance(laid, Unread):
            return laid
        found = sum(one.corrupt for one in (laid, *printed))
        if not found and laid.problems:
            return Unread("failed", f"{self.mount.path}: {laid.problems[0]}", self.row.evidence)
        if not found and not any(job.read.ios for job in laid.jobs):
            return Unread(
                "failed", f"{self.mount.path}: nothing that was written was read back", self.row.evidence
            )
        note = f"{self.mount.path}: checksums of blocks that were read back; {self.volume}"
        return Read(found, self.row.evidence, note if found else "")

    @property
    def short(self) -> Fact[int]:
        """How many reads and writes came back with less than they should, though the files are whole."""
        if not self._runs:
            return self.failed or Unread("failed", "nothing was run", self.row.evidence)
        problems = [problem for _, parsed in self._runs for problem in parsed.problems]
        if problems:
            return Unread("failed", f"{self.mount.path}: {problems[0]}", self.row.evidence)
        flows = [flow for _, parsed in self._runs for job in parsed.jobs for flow in (job.read, job.write)]
        return Read(sum(flow.short for flow in flows), self.row.evidence)

    # --- beside others ------------------------------------------------------------------------------

    def _scaling(self, alone: Sequence[FioVolume], figure: Callable[[FioVolume], Fact[float]]) -> Fact[float]:
        base = [figure(one) for one in alone if one.mount.path == self.mount.path]
        single = (
            base[0] if base else Unread("failed", f"{self.mount.path} was not measured from one node alone")
        )
        if isinstance(single, Unread):
            return single
        every = [figure(one) for one in self.alike]
        unread = next((fact for fact in every if isinstance(fact, Unread)), None)
        if unread:
            return unread
        total = sum(fact.value for fact in every if isinstance(fact, Read))
        note = f"{total:.4g} GB/s on {len(every)} nodes, {single.value:.4g} on one; {self.volume}"
        return Read(total / len(every) / single.value, self.row.evidence, note)

    # --- from runs to rates --------------------------------------------------------------------------

    @cached_property
    def _runs(self) -> list[tuple[Mapping[str, str], Printed]]:
        listed = self.row.listed("runs")
        if isinstance(listed, Unread):
            return []
        runs: list[tuple[Mapping[str, str], Printed]] = []
        for run in listed.value:
            point = run.look("point")
            if isinstance(point, Read) and isinstance(point.value, dict):
                runs.append(({str(key): str(value) for key, value in point.value.items()}, _printed(run)))
        return runs

    @property
    def _laid(self) -> Printed | Unread:
        laid = self.row.record("laid")
        return self.failed or laid.unread or _printed(laid)

    def _rates(self, at: Mapping[str, str]) -> tuple[Fact[float], Fact[float]]:
        """Give bytes and operations a second of a point: the median of its repeats."""
        if self.failed:
            return self.failed, self.failed
        direct = self.row.flag("direct")
        if isinstance(direct, Unread):
            return direct, direct
        if not direct.value:
            why = f"{self.mount.path} takes no O_DIRECT: what fio reads here comes from memory"
            unread = Unread("failed", why, self.row.evidence)
            return unread, unread
        wanted = {axis: at[axis] for axis in AXES}
        runs = [run for point, run in self._runs if {axis: point.get(axis) for axis in AXES} == wanted]
        name = " ".join(f"{axis} {value}" for axis, value in wanted.items())
        return self._median(runs, name)

    def _median(self, runs: Sequence[Printed], name: str) -> tuple[Fact[float], Fact[float]]:
        problem = next((run.problems[0] for run in runs if run.problems), "")
        lone = all(len(run.jobs) == 1 for run in runs)
        if not runs or problem or not lone:
            why = problem or (
                "it ran several jobs, which may have run apart" if runs else "it was not reported"
            )
            unread = Unread("failed", f"{self.mount.path}, {name}: {why}", self.row.evidence)
            return unread, unread
        flows = [[run.jobs[0].read, run.jobs[0].write] for run in runs]
        bytes_each = [sum(flow.bytes_per_s for flow in pair) for pair in flows]
        median = statistics.median(bytes_each)
        spread = (max(bytes_each) - min(bytes_each)) / median if median else 0.0
        if spread > float(self.args["noise"]) or not median:
            why = f"inconclusive: its repeats lie {spread:.0%} apart" if median else "nothing was moved"
            unread = Unread("failed", f"{self.mount.path}, {name}: {why}", self.row.evidence)
            return unread, unread
        iops = statistics.median(sum(flow.iops for flow in pair) for pair in flows)
        note = f"{name}, {len(runs)} repeats {spread:.0%} apart" if len(runs) > 1 else name
        return self.of(median / 1e9, note), self.of(iops, note)

    def _sequential(self, pattern: str) -> Fact[float]:
        ours = [one for one in self.points if one.at["pattern"] == pattern and is_widest(one.at, self.args)]
        return ours[0].gbps if ours else Unread("not_asked", f"{pattern} is no part of the sweep")

    @property
    def lines(self) -> list[Figure]:
        """For each pattern and block, the knee: from how many in flight on more gain less than a tenth."""
        found: dict[tuple[str, str], list[Point]] = defaultdict(list)
        for one in self.points:
            found[one.at["pattern"], one.at["block"]].append(one)
        return [
            Figure({**self.at, "pattern": pattern, "block": block}, knee(line))
            for (pattern, block), line in found.items()
        ]

    def _random(self, pattern: str) -> Fact[float]:
        block = min(str(self.args["block"]).split(), key=size)
        ours = [one.iops for one in self.points if one.at["pattern"] == pattern and one.at["block"] == block]
        unread = next((fact for fact in ours if isinstance(fact, Unread)), None)
        if unread or not ours:
            return unread or Unread("not_asked", f"{pattern} is no part of the sweep", self.row.evidence)
        return max((fact for fact in ours if isinstance(fact, Read)), key=lambda fact: fact.value)


def _printed(run: Record) -> Printed:
    """Read one run: its document, or the text around it; a run that was killed has no figures."""
    late, document = run.look("timed_out"), run.look("json")
    out, err = run.look("out"), run.look("err")
    said = err.value if isinstance(err, Read) and isinstance(err.value, str) else ""
    if isinstance(late, Read):
        return Printed(problems=[f"fio did not end within {brief(str(late.value))} s"])
    if isinstance(document, Read) and isinstance(document.value, dict):
        return parse(document.value, said)
    if isinstance(out, Read) and isinstance(out.value, str):
        return parse(out.value, said)
    return Printed(problems=["nothing was recorded of this run"])


FIO = MountTool(
    "fio",
    "fio",
    1,
    "apt-get install fio, dnf install fio, or build it from github.com/axboe/fio into a folder of PATH",
    points,
    FioVolume,
)
