"""A node as Slurm offers it to jobs, beside what it really has."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from gpuassay.facts import gres
from gpuassay.facts.record import mapped
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Collection

    from gpuassay.facts.node import Node
    from gpuassay.facts.slurm import Slurm, SlurmNode
    from gpuassay.facts.slurm_topology import Topology
    from gpuassay.judge.fact import Fact


class OnSlurm:
    """One node; ``products`` are the names of all that the catalogue knows."""

    def __init__(self, node: Node, slurm: Slurm, topology: Topology, products: Collection[str]) -> None:
        """Take the node, and what Slurm said of all and of the network."""
        self._node = node
        self._topology = topology
        self._slurm = slurm
        self._products = products
        self.where = self.node = node.name

    @property
    def models(self) -> tuple[str, ...]:
        """Names and PCI ids of its GPUs."""
        return self._node.models

    @property
    def gpus(self) -> Fact[int]:
        """How many GPUs Slurm gives out on it; the note has it in Slurm's words."""
        known = self._known
        if isinstance(known, Unread):
            return known
        counted = known.value.gpus
        if isinstance(counted, Unread):
            return Unread(counted.kind, counted.why, known.evidence)
        return Read(counted.value, known.evidence, f"Gres={known.value.gres or '(null)'}")

    @property
    def gpus_to_give(self) -> Fact[int]:
        """How many GPUs it has for jobs: those on its bus, or the parts of them if Slurm has these."""
        on_bus, parts = self._node.gpus_on_bus, self._node.amdgpu.topology.listed
        modes = [one.partition_mode for one in self._node.gpus]
        if any(isinstance(mode, Read) and mode.value == "mig" for mode in modes):
            return Unread("denied", "it has GPUs in MIG mode, and how many instances is not read")
        offered = self.gpus
        if isinstance(parts, Read) and isinstance(offered, Read) and offered.value == parts.value > 0:
            return parts
        return on_bus

    @property
    def other_product(self) -> Fact[bool]:
        """Whether the type by which jobs ask for its GPUs names another product than it has.

        A type that names no product, or none at all, may be any word of the site.
        """
        known = self._known
        if isinstance(known, Unread):
            return known
        listed = gres.read_gres(known.value.gres, known.evidence)
        if isinstance(listed, Unread):
            return listed
        types = [one.type for one in listed.value if one.name == "gpu" and one.type]
        note = f"Gres={known.value.gres or '(null)'}"
        if not types:
            return Read(value=False, evidence=known.evidence, note=note)
        own = self._product
        if isinstance(own, Unread):
            return own
        others = {name for kind in types for name in self._named(kind) if not own.value.startswith(name)}
        note += f", and its GPUs are {own.value}" if others else ""
        return Read(bool(others), known.evidence, note)

    @property
    def version(self) -> Fact[str]:
        """The version of slurmd on it."""
        known = self._known
        if isinstance(known, Unread):
            return known
        if not known.value.version:
            return Unread("not_found", "Slurm tells no version of its slurmd", known.evidence)
        return Read(known.value.version, known.evidence)

    @property
    def spreads_flows(self) -> Fact[bool]:
        """Whether a connection has several queue pairs, where the nodes are below several leaf switches."""
        leaves, pairs = self._topology.leaves, self._node.fabric.queue_pairs
        if isinstance(leaves, Unread):
            return leaves
        if leaves.value > 1 and isinstance(pairs, Unread):
            return pairs
        if leaves.value <= 1:
            return Read(value=True, evidence=leaves.evidence, note="its nodes are below one leaf switch")
        return mapped(pairs, lambda count: count > 1)

    @property
    def pyxis(self) -> Fact[bool]:
        """Whether its list of Slurm's plugins names pyxis."""
        return self._node.equipment.pyxis

    @property
    def _product(self) -> Fact[str]:
        products = [one.product for one in self._node.gpus]
        return products[0] if products else Unread("not_found", "it shows no GPU")

    def _named(self, kind: str) -> list[str]:
        words = set(re.split(r"[^a-z0-9]+", kind.lower()))
        return [name for name in self._products if name in words]

    @cached_property
    def _known(self) -> Fact[SlurmNode]:
        nodes = self._slurm.nodes
        if isinstance(nodes, Unread):
            return nodes
        known = self._slurm.find(self.node)
        if known is None:
            return Unread("not_found", "Slurm lists no node of this name", nodes.evidence)
        return Read(known, nodes.evidence)
