"""What Slurm has done for the health of its nodes, and for a sick one: by its configuration."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpuassay.facts.record import mapped
from gpuassay.facts.slurm import HEALTH
from gpuassay.facts.source import document
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from gpuassay.facts.slurm import Slurm
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

# What looks at GPUs: tools of the vendors, agents, and the checks of LBNL's NHC that call them.
_GPU_TOOLS = (
    "dcgmi",
    "nvidia-smi",
    "nvidia_smi",
    "nvsmi",
    "nvidia-healthmon",
    "rocm-smi",
    "amd-smi",
    "rdc",
    "rvs",
    "gpud",
    "check_gpu",
    "health_checks",
)
_OTHER_TOOLS = ("nhc", "ibstat", "ibv_devinfo", "check_hw_ib", "check_fs_mount")
_COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)

# With these Slurm runs it also on nodes that nobody uses: slurm.conf(5), HealthCheckNodeState.
_IDLE_STATES = frozenset({"ANY", "IDLE", "NONDRAINED_IDLE"})


def tools_in(text: str) -> list[str]:
    """Name the well-known tools that occur in a program, outside lines that are comments."""
    code = _COMMENT.sub("", text)
    return [word for word in (*_GPU_TOOLS, *_OTHER_TOOLS) if _occurs(word, code)]


def _occurs(word: str, code: str) -> bool:
    """Tell whether a name stands there whole, or as a part of one with underscores."""
    return re.search(rf"(?<![A-Za-z]){re.escape(word)}(?![A-Za-z])", code) is not None


class HealthCheck:
    """``HealthCheckProgram``, and what Slurm is told to do about nodes by itself."""

    def __init__(self, slurm: Slurm, evidence: Evidence) -> None:
        """Take what Slurm said."""
        self._slurm = slurm
        self._told = document(evidence, HEALTH)

    @property
    def program(self) -> Fact[bool]:
        """Whether there is one; the note names it."""
        program = self._slurm.setting("HealthCheckProgram")
        if isinstance(program, Unread):
            return program
        return Read(
            bool(program.value), program.evidence, f"HealthCheckProgram = {program.value or '(null)'}"
        )

    @property
    def interval_s(self) -> Fact[int]:
        """How many seconds lie between its runs; 0 is never."""
        return self._slurm.number("HealthCheckInterval")

    @property
    def when_idle(self) -> Fact[bool]:
        """Whether it is run on nodes that no job uses."""
        states = self._slurm.setting("HealthCheckNodeState")
        if isinstance(states, Unread):
            return states
        words = {word.strip().upper() for word in states.value.split(",")}
        return Read(bool(words & _IDLE_STATES), states.evidence, f"HealthCheckNodeState = {states.value}")

    @property
    def looks_at_gpus(self) -> Fact[bool]:
        """Whether it starts a tool that looks at GPUs, as far as its text can be read here."""
        tools = self._told.look("tools")
        if isinstance(tools, Unread):
            return self._nothing_to_read or tools
        if not isinstance(tools.value, list):
            return self._told.garbled("tools", tools.value, "a list of names")
        named = brief(", ".join(map(str, tools.value))) or "no tool that we know"
        known = any(tool in _GPU_TOOLS for tool in tools.value)
        return Read(known, tools.evidence, f"as far as its text says, it starts {named}")

    @property
    def after_jobs(self) -> Fact[bool]:
        """Whether a program runs on a node after each job; the notes name it."""
        return self._program("Epilog")

    @property
    def before_jobs(self) -> Fact[bool]:
        """Whether a program runs on a node before each job."""
        return self._program("Prolog")

    @property
    def acts(self) -> Fact[bool]:
        """Whether anything shows that Slurm, or what it starts, acts on a sick node by itself.

        It is a sign: what is done is seen only when a node fails.
        """
        program = self.program
        if isinstance(program, Unread):
            return program
        found = [
            f"{key} = {value}"
            for key in ("RebootProgram", "ResumeProgram", "SlurmctldPlugstack", "UnkillableStepProgram")
            if (value := self._text(key))
        ]
        if program.value:
            found.insert(0, program.note)
        note = "; ".join(map(brief, found)) or "no HealthCheckProgram, RebootProgram or ResumeProgram is set"
        return Read(bool(found), program.evidence, note)

    @property
    def _nothing_to_read(self) -> Fact[bool] | None:
        program = self.program
        if isinstance(program, Read) and not program.value:
            return Read(value=False, evidence=program.evidence, note="there is no HealthCheckProgram")
        return None

    def _program(self, kind: str) -> Fact[bool]:
        """Read a setting that newer versions number: ``Epilog[0]``."""
        first = self._slurm.setting(f"{kind}[0]")
        setting = first if isinstance(first, Read) else self._slurm.setting(kind)
        return mapped(setting, bool)

    def _text(self, key: str) -> str:
        setting = self._slurm.setting(key)
        return setting.value if isinstance(setting, Read) else ""
