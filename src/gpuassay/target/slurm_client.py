"""Slurm's own programs: what they are asked of the cluster, written down as they answered, and ended."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import time
from dataclasses import replace
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING

from gpuassay.evidence.item import Item
from gpuassay.facts import slurm as facts
from gpuassay.facts import slurm_limits as limits
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read
from gpuassay.probe import nccl
from gpuassay.probe.commands import environment
from gpuassay.target import TargetError
from gpuassay.target.slurm_program import words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


PREFIX = "gpuassay-"
"""With this the names of all our jobs and steps begin: by it they are found when they are to be removed."""

PATIENCE_S = 30.0
"""For an answer of the controller: Slurm's programs try for minutes to reach one that is not there."""

_ENDED_S = 120.0  # a node has KillWait, 30 s by default, and an epilog to end a job
_LOOK_S = 0.5
_NEEDED = ("scontrol", "squeue", "srun", "scancel", "salloc")
_KEPT = ("SLURM_CONF", "SLURM_JWT")
_SHOW = ("scontrol", "--all", "--details", "show")

_TABLE = ("sacctmgr", "--parsable2", "show")

# Of jobs no more is asked than who holds which node: no names, no users, no command lines.
_ASKED: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...] = (
    (facts.VERSION, (("scontrol", "--version"),)),
    # Versions before 23.02 do not know --json there, and some later ones were built without it.
    (facts.NODES, ((*_SHOW, "nodes", "--json"), (*_SHOW, "nodes"))),
    (facts.PARTITIONS, (("scontrol", "--all", "show", "partition"),)),
    (facts.CONFIG, (("scontrol", "show", "config"),)),
    (
        facts.JOBS,
        (("squeue", "--all", "--noheader", "--states=running,suspended,completing", "--format=%A %N"),),
    ),
    (facts.TOPOLOGY, (("scontrol", "show", "topology"),)),
    (facts.CONTROLLERS, (("scontrol", "ping"),)),
    (facts.MPI, (("srun", "--mpi=list"),)),
    (facts.SRUN, (("srun", "--help"),)),
    (facts.TRES, (("sacctmgr", "--noheader", "--parsable2", "show", "tres"),)),
    (limits.ACCOUNTS, ((*_TABLE, "assoc", "user=", f"format={limits.OWN_COLUMNS}"),)),
    (limits.QOS, ((*_TABLE, "qos", f"format={limits.QOS_COLUMNS}"),)),
)


class Client:
    """Slurm's programs on this machine. Raises TargetError where they are not."""

    def __init__(self) -> None:
        """Find them, by this process's PATH."""
        found = {name: shutil.which(name) for name in _NEEDED}
        self.programs = {name: path for name, path in found.items() if path}
        missing = found.keys() - self.programs.keys()
        if missing:
            raise TargetError(
                f"Slurm's {', '.join(sorted(missing))} cannot be found here: run this on a login node,"
                " where the PATH leads to them"
            )

    @cached_property
    def environment(self) -> Mapping[str, str]:
        """What Slurm's programs are given, and jobs by them: no option of an outer job, no secrets.

        The node's own tools come first in the PATH: those of this machine may be built for another.
        """
        system = environment({})["PATH"]
        given = {**environment(os.environ), **nccl.settings(os.environ)}
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        return {**given, **kept, "PATH": f"{system}:{os.environ.get('PATH', '')}".strip(":")}

    def run(self, *argv: str, patience_s: float = PATIENCE_S) -> Item:
        """Run one to its end, which it has to find in time."""
        asked, program = {"command": list(argv)}, shutil.which(argv[0]) or argv[0]
        try:
            done = subprocess.run(  # noqa: S603 - an argument list of our own
                [program, *argv[1:]],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=patience_s,
                env={**self.environment, "SLURM_TIME_FORMAT": "standard"},
                start_new_session=True,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            err = (late.stderr or b"").decode(errors="replace")
            why = f"{argv[0]} was not done within {patience_s:g} s{_last(err)}"
            return Item(argv[0], 0, "timed_out", asked, out=late.stdout or b"", err=err, why=why)
        except OSError as error:
            why = f"{argv[0]}: {error.strerror}"
            missing = isinstance(error, FileNotFoundError)
            return Item(argv[0], 0, "not_found" if missing else "failed", asked, why=why)
        err = done.stderr.decode(errors="replace")
        if done.returncode == 0:
            return Item(argv[0], 0, "ok", asked, 0, out=done.stdout, err=err)
        why = f"{argv[0]} ended with {done.returncode}{_last(err)}"
        return Item(argv[0], 0, "failed", asked, done.returncode, out=done.stdout, err=err, why=why)

    def ask(self) -> Cluster:
        """Ask all that is recorded of the cluster. Raises TargetError if the nodes cannot be had."""
        number = count(1)
        items = []
        for item_id, ways in _ASKED:
            for argv in ways:
                item = replace(self.run(*argv), id=item_id, seq=next(number))
                items.append(item)
                if item.status in ("ok", "timed_out"):
                    break
            if item_id == facts.NODES and item.status != "ok":
                raise TargetError(
                    f"Slurm cannot be asked for its nodes: {item.why} (does `scontrol show nodes` work here?)"
                )
        items.append(replace(self._own_limits(), id=limits.OWN, seq=next(number)))
        setting = Cluster(items).setting("HealthCheckProgram")
        if isinstance(setting, Read) and setting.value:
            items.append(words_of(setting.value, next(number)))
        return Cluster(items)

    def _own_limits(self) -> Item:
        """Ask for what binds the user who runs this; nothing is asked of another."""
        try:
            user = pwd.getpwuid(os.geteuid()).pw_name
        except KeyError:
            return Item(limits.OWN, 0, "not_found", why=f"user {os.geteuid()} has no name here")
        return self.run(*_TABLE, "assoc", f"user={user}", f"format={limits.OWN_COLUMNS}")

    def cancel(self, prefix: str, job: str = "") -> list[str]:
        """End our jobs whose names begin so, or within one job our steps; give what was ended."""
        _, ours = self._ours(prefix, job)
        if ours:
            self.run("scancel", *ours)
        return ours

    def end(self, prefix: str, job: str = "") -> list[str]:
        """End them as above, and wait until Slurm knows of none any more. Raises TargetError."""
        ended = self.cancel(prefix, job)
        until = time.monotonic() + _ENDED_S
        while True:
            shown, left = self._ours(prefix, job)
            if shown.status == "ok" and not left:
                return ended
            if time.monotonic() > until:
                what = f"are not over after {_ENDED_S:g} s: {', '.join(left)}" if left else shown.why
                raise TargetError(f"jobs of ours that a killed run has left {what} (see: squeue, scancel)")
            time.sleep(_LOOK_S)

    def _ours(self, prefix: str, job: str) -> tuple[Item, list[str]]:
        """Ask for our jobs whose names begin so, or within one job our steps; gives the answer too."""
        listing = ("--steps", "--format=%i %j", f"--jobs={job}") if job else ("--format=%A %j",)
        shown = self.run("squeue", "--noheader", f"--user={os.geteuid()}", *listing)
        lines = (line.split(None, 1) for line in shown.out.decode(errors="replace").splitlines())
        return shown, [one[0] for one in lines if len(one) == 2 and one[1].startswith(prefix)]  # noqa: PLR2004


class Cluster(facts.Slurm):
    """What Slurm said of the cluster just now; ``items`` are its answers as they came.

    ``limits`` are those of the user who runs this.
    """

    def __init__(self, items: Sequence[Item]) -> None:
        """Take the answers."""
        answers = _Answers(items)
        super().__init__(answers)
        self.items = items
        self.limits = limits.Limits(self, answers)


class _Answers:
    """Answers as evidence to be read from, before they are part of a recording."""

    problems = ()

    def __init__(self, items: Iterable[Item]) -> None:
        self._items = {item.id: item for item in items}

    def item(self, item_id: str, /) -> Item | None:
        return self._items.get(item_id)

    def ref(self, item: Item, /) -> str:
        return f"cluster#{item.seq}"


def _last(err: str) -> str:
    """End a sentence with the last line that a program complained in, if it did."""
    lines = err.split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "")
    return f": {brief(last)}" if last else ""
