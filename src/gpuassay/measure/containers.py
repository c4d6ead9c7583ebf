"""A GPU container on a node that no scheduler gives out, through whichever runtime is there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gpuassay.evidence.item import Item
from gpuassay.facts.containers import Inside, document_of, number, readable, started, unstarted
from gpuassay.facts.record import Record
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure import errand
from gpuassay.measure.container_look import INSIDE
from gpuassay.measure.outside import rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.judge.fact import Fact, Scalar
    from gpuassay.judge.services import Services


@dataclass(frozen=True)
class RunContainer:
    """What came of a container on one node."""

    node: str
    row: Record
    models: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """Its place: the node."""
        return self.node

    @cached_property
    def starts(self) -> Fact[bool]:
        """Whether a runtime is there, and started it."""
        runtime, ref = self.row.look("runtime"), self.row.evidence
        if isinstance(runtime, Unread):
            return runtime
        if not runtime.value:
            return Read(value=False, evidence=ref, note="there is neither docker nor podman nor nerdctl")
        if isinstance(self.row.flag("late"), Read):
            return Read(value=False, evidence=ref, note=f"{runtime.value} run did not end in time")
        code, said = self.row.count("exit", 255), self.row.look("said")
        if isinstance(code, Unread):
            return code
        err = said.value if isinstance(said, Read) and isinstance(said.value, str) else ""
        item = Item("run", 0, "failed", err=err, why=f"{runtime.value} run ended with {code.value}")
        return started(item, ref, self._told)

    @property
    def granted(self) -> Fact[int]:
        """How many GPUs the node has."""
        return self.row.count("granted")

    @property
    def gpus(self) -> Fact[int]:
        """How many of them can be opened in the container."""
        return self._inside.gpus

    @property
    def shm_gib(self) -> Fact[float]:
        """How large /dev/shm is in a container that asked for 1 GiB."""
        return self._inside.shm_gib

    @property
    def locked_memory(self) -> Fact[str]:
        """How much memory may be locked in a container that asked for all."""
        return self._inside.locked_memory

    @property
    def topology_readable(self) -> Fact[bool]:
        """Whether NCCL can read there the file of topology that it is told of."""
        return readable(self._inside.topology)

    @property
    def ready_s(self) -> Fact[float]:
        """How long it took until the container had looked, its image and its end included."""
        had = self.row.flag("had_image")
        note = "the image was there" if isinstance(had, Read) and had.value else "the image was pulled"
        seconds = self._none or number(self.row, "seconds")
        return seconds if isinstance(seconds, Unread) else Read(seconds.value, seconds.evidence, note)

    @property
    def left_behind(self) -> Fact[bool]:
        """Whether the container is still there."""
        return self._none or self.row.flag("left")

    @property
    def kept_after_reload(self) -> Fact[bool]:
        """Whether running containers keep their GPUs when systemd is told to read its units anew.

        It is judged by what decides it, for nobody may reload a provider's daemon: NVIDIA's notice names
        the ways in which a runtime, systemd's cgroups and the device files have to come together.
        """
        if self._none:
            return self._none
        links, driver, mode = (self.row.look(key) for key in ("nodes_linked", "driver", "mode"))
        for fact in (links, driver):
            if isinstance(fact, Unread):
                return fact
        ref, how = self.row.evidence, mode.value if isinstance(mode, Read) else ""
        if links.value is True:  # type: ignore[union-attr]
            return Read(value=True, evidence=ref, note="each device file has its link below /dev/char")
        if how == "cdi":
            return Read(value=True, evidence=ref, note="the toolkit hands GPUs over by CDI")
        if driver.value == "cgroupfs":  # type: ignore[union-attr]
            return Read(value=True, evidence=ref, note="the runtime keeps its cgroups itself")
        if driver.value != "systemd":  # type: ignore[union-attr]
            return Unread("failed", "the runtime did not tell which cgroup driver it uses", ref)
        return Read(
            value=False, evidence=ref, note="systemd keeps the cgroups, and device files have no links"
        )

    @property
    def _none(self) -> Unread | None:
        return unstarted(self.starts)

    @property
    def _inside(self) -> Inside:
        return Inside(Record(self._none, self._none.evidence) if self._none else self._told)

    @property
    def _told(self) -> Record:
        out = self.row.look("out")
        text = out.value if isinstance(out, Read) and isinstance(out.value, str) else ""
        return document_of(Item("run", 0, out=text.encode()), self.row.evidence)


class Containers:
    """One container on each node, with all its GPUs; what was made is removed again."""

    method = 1

    def argv(self, args: Mapping[str, Scalar]) -> tuple[str, ...]:  # noqa: ARG002 - the order has them
        """Give the command: Python, which takes the program from its standard input."""
        return errand.ALONE

    def order(self, services: Services) -> Mapping[str, Any]:
        """Give the image that the site file names."""
        return {"image": services.reach.image}

    def feed(self, args: Mapping[str, Scalar], order: Mapping[str, Any], nodes: Sequence[str]) -> bytes:  # noqa: ARG002 - all alike
        """Pack it, with the program that looks around in the container."""
        return errand.alone("containers", {**order, **args, "look": INSIDE})

    def read(self, node: str, args: Mapping[str, Scalar], item: Item | Unread, ref: str) -> RunContainer:  # noqa: ARG002 - as all tools
        """Read what came of it."""
        return RunContainer(node, rows(item, ref)[0])
