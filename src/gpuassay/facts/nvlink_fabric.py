"""How a GPU stands in its NVLink fabric: registered or not, in which domain, and in what health."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpuassay.facts.record import Record, mapped
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from gpuassay.judge.fact import Fact

# The numbers of nvml.h, nvmlGpuFabricState_t, where 0 means that there is no fabric
STATES: Final[Mapping[int, str]] = {1: "not started", 2: "in progress", 3: "completed"}
NO_STATE: Final = 0
# nvmlReturn_t, in nvidia-smi's words
STATUSES: Final[Mapping[int, str]] = {
    0: "success",
    3: "not supported",
    8: "insufficient external power",
    10: "timeout",
    15: "gpu is lost",
    16: "gpu requires reset",
    21: "no data",
    23: "insufficient resources",
    27: "not ready",
    29: "invalid state",
    999: "unknown error",
}
NO_CLUSTER: Final = "00000000-0000-0000-0000-000000000000"

# NVML_GPU_FABRIC_HEALTH_MASK_…: two bits each, 0 not supported, 1 true, 2 false
_TRUE: Final = 1
DEGRADED, RECOVERING, UNHEALTHY, TIMED_OUT, CONFIGURATION, PARTITION, MANAGER = 0, 2, 4, 6, 8, 12, 14
_BAD: Final[Mapping[int, str]] = {DEGRADED: "degraded bandwidth", UNHEALTHY: "unhealthy route"}
_PASSING: Final[Mapping[int, str]] = {
    RECOVERING: "route recovery in progress",
    TIMED_OUT: "recovery from an access timeout in progress",
}
_ABSENT: Final[Mapping[int, str]] = {
    PARTITION: "no partition assigned",
    MANAGER: "fabric manager disconnected",
}
# The two bits of these say "no" with 2
_FALSE: Final = 2
CONFIGURATIONS: Final[Mapping[int, str]] = {
    2: "incorrect system GUID",
    3: "incorrect chassis serial number",
    4: "no partition",
    5: "insufficient NVLinks",
    6: "incompatible GPU firmware",
    7: "invalid location",
    8: "invalid GPU state",
}
_SUMMARIES: Final[Mapping[int, str]] = {2: "unhealthy", 3: "limited capacity"}
_FINE: Final = "none"


@dataclass(frozen=True, slots=True)
class Fabric:
    """What the driver says of a GPU's place in its fabric; drivers before R535 do not know all of it."""

    entry: Record

    @property
    def state(self) -> Fact[str]:
        """How far the GPU's registration with the fabric's manager is: ``completed`` is all of it."""
        state = self._fabric.count("state", most=255)
        if isinstance(state, Unread):
            return state
        if state.value == NO_STATE:
            return Unread("unsupported", "this GPU is in no NVLink fabric", state.evidence)
        return Read(STATES.get(state.value, f"state {state.value}"), state.evidence)

    @property
    def status(self) -> Fact[str]:
        """What its registration ended with, ``success`` or the driver's word for what went wrong."""
        state = self.state
        if isinstance(state, Unread):
            return state
        if state.value != STATES[3]:
            return Unread(
                "failed", f"its registration is {state.value}: there is no result yet", state.evidence
            )
        status = self._fabric.look("status")
        if isinstance(status, Read) and isinstance(status.value, str):
            return mapped(self._fabric.text("status"), str.casefold)
        number = self._fabric.count("status")
        if isinstance(number, Unread):
            return number
        return Read(STATUSES.get(number.value, f"NVML error {number.value}"), number.evidence)

    @property
    def cluster(self) -> Fact[str]:
        """The UUID of the multi-node domain that the GPU is in; all zeros for none."""
        pattern = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
        cluster = self._fabric.text("cluster", pattern, "a UUID")
        return cluster if isinstance(cluster, Unread) else Read(cluster.value.lower(), cluster.evidence)

    @property
    def domain(self) -> Fact[str]:
        """Cluster UUID and clique: only both together name a domain. Empty for a GPU that is in none."""
        cluster, clique = self.cluster, self._fabric.count("clique", most=2**32 - 1)
        if isinstance(cluster, Unread):
            return cluster
        if cluster.value == NO_CLUSTER:
            return Read("", cluster.evidence)
        return (
            clique
            if isinstance(clique, Unread)
            else Read(f"{cluster.value}.{clique.value}", cluster.evidence)
        )

    @property
    def faults(self) -> Fact[str]:
        """What is wrong with its links and routes, in words; ``none`` if nothing is."""
        mask = self._mask
        if isinstance(mask, Unread):
            return mask
        return Read(", ".join(dict.fromkeys(self._faults(mask.value))) or _FINE, mask.evidence)

    @property
    def unsettled(self) -> Fact[str]:
        """What should pass by itself, such as a route that is being recovered; ``none`` if nothing is."""
        mask = self._mask
        if isinstance(mask, Unread):
            return mask
        passing = [words for shift, words in _PASSING.items() if mask.value >> shift & 3 == _TRUE]
        passing += [words for shift, words in _ABSENT.items() if mask.value >> shift & 3 == _FALSE]
        return Read(", ".join(passing) or _FINE, mask.evidence)

    def _faults(self, mask: int) -> Iterator[str]:
        yield from (words for shift, words in _BAD.items() if mask >> shift & 3 == _TRUE)
        configuration = mask >> CONFIGURATION & 0xF
        told = self._fabric.text("configuration")  # nvidia-smi's own words for one that we have no number for
        if isinstance(told, Read):
            yield brief(told.value).lower()
        elif configuration > _TRUE:
            yield CONFIGURATIONS.get(configuration, f"incorrect configuration {configuration}")
        summary = self._fabric.count("health_summary", most=255)
        if isinstance(summary, Read) and summary.value in _SUMMARIES:
            yield _SUMMARIES[summary.value]

    @property
    def _mask(self) -> Fact[int]:
        mask, summary = (
            self._fabric.count("health_mask", most=2**32 - 1),
            self._fabric.count("health_summary"),
        )
        state = self.state
        if isinstance(state, Unread):
            return state
        if isinstance(mask, Read) and not mask.value and not (isinstance(summary, Read) and summary.value):
            return Unread("unsupported", "the driver says nothing of this GPU's fabric health", mask.evidence)
        return mask

    @property
    def _fabric(self) -> Record:
        # An older probe did not ask: its answers have no such part.
        return Record(self.entry.values, self.entry.evidence, "not_asked").record("fabric")


# Exact names and PCI ids: a part of a name is that of other products too ("GH200" ends like "H200")
_STANDALONE: Final = frozenset({"NVIDIA GH200 480GB", "10de:2342"})
_RACK: Final = frozenset({"NVIDIA GB200", "10de:2941", "NVIDIA GB300", "10de:31c2", "10de:31c3"})


def in_fabric(models: Collection[str], fabric: Fabric) -> Fact[bool]:
    """Tell whether switches join a GPU to others.

    A GH200 that stands alone has a fabric state like any Hopper, and nothing behind it.
    """
    state = fabric.state
    if isinstance(state, Unread):
        # A driver that does not know the question is older than the first GPU with such a fabric.
        none = state.kind in ("unsupported", "not_found")
        return Read(value=False, evidence=state.evidence) if none else state
    return Read(_STANDALONE.isdisjoint(models), state.evidence)


def in_rack(models: Collection[str], fabric: Fabric) -> Fact[bool]:
    """Tell whether a GPU is of a product whose NVLinks leave the machine. The driver or the bus names it.

    A board of four such GPUs that are joined directly has the same name, and no fabric.
    """
    if models and _RACK.isdisjoint(models):
        return Read(value=False)
    return in_fabric(models, fabric)
