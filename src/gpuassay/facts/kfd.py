"""The compute topology of AMD's driver (KFD): what programs may use, a GPU or each partition of one."""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

from gpuassay.facts.source import document
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.facts.record import Record
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

_AMD = 0x1002
_MOST_PROCESSES = 1 << 22  # PID_MAX_LIMIT
_PROPERTY = re.compile(r"^(\w{1,40}) (\d{1,20})$", re.MULTILINE | re.ASCII)


class Topology:
    """The nodes of the topology that compute. A processor is one too, and has no SIMD unit."""

    def __init__(self, evidence: Evidence) -> None:
        """Look at what the probe read from ``/sys/class/kfd``."""
        self._nodes = document(evidence, "kfd", missing="not_found")
        self._users = document(evidence, "kfd-users")

    @cached_property
    def unread(self) -> Unread | None:
        """Why there may be more than what is listed: a container sees only the GPUs that it was given."""
        unread = (node.unread or self._properties(node) for _, node in self._nodes.items())
        return self._nodes.unread or next((one for one in unread if isinstance(one, Unread)), None)

    def partitions(self, address: str) -> Fact[int]:
        """Count what programs see of the GPU at an address."""
        if self.unread:
            return self.unread
        note = f"{sum(self._listed.values())} in the node's topology"
        return Read(self._listed[address], self._nodes.evidence, note)

    @property
    def listed(self) -> Fact[int]:
        """How many GPUs, or partitions of them, programs see on the node."""
        return self.unread or Read(sum(self._listed.values()), self._nodes.evidence)

    def lacks(self, address: str) -> str:
        """Say why programs cannot use the GPU at an address; empty if they can, or it cannot be told."""
        if self.unread or self._listed[address]:
            return ""
        return "its driver holds it, and does not offer it to programs (no node of KFD's topology)"

    @property
    def users(self) -> Fact[int]:
        """How many processes use any of the GPUs."""
        return self._users.count("processes", most=_MOST_PROCESSES)

    @cached_property
    def _listed(self) -> Mapping[str, int]:
        listed: Counter[str] = Counter()
        for _, node in self._nodes.items():  # noqa: PERF102 - a Record has no values()
            values = self._properties(node)
            if (
                not isinstance(values, Unread)
                and values.get("simd_count")
                and values.get("vendor_id") == _AMD
            ):
                listed[_address(values)] += 1
        return listed

    def _properties(self, node: Record) -> Mapping[str, int] | Unread:
        said = node.look("properties")
        if isinstance(said, Unread):
            return said
        values = {
            key: int(value)
            for key, value in _PROPERTY.findall(said.value if isinstance(said.value, str) else "")
        }
        needed = {"simd_count", "vendor_id", "location_id", "domain"}
        return (
            values
            if needed <= values.keys()
            else node.garbled("properties", said.value, "those of a node of KFD")
        )


def _address(values: Mapping[str, int]) -> str:
    """Write the address of the GPU whose partition a node is.

    Bits 28 and up of the location, in some releases its lowest three, are the number of the partition
    (kfd_topology.c): a GPU's own function is 0.
    """
    location = values["location_id"]
    return f"{values['domain']:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.0"
