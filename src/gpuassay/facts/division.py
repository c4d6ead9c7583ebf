"""How a GPU is divided, what of its memory is out of use, and its links to its peers: AMD's way of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from gpuassay.facts.nvidia import Device
    from gpuassay.facts.record import Record
    from gpuassay.judge.fact import Fact


class Division:
    """The part of a GPU that tells of partitions, bad pages and xGMI."""

    _device: Device

    @property
    def compute_partition(self) -> Fact[str]:
        """Into what its compute units are split, e.g. ``SPX`` (one whole) or ``CPX``."""
        return self._partition.text("compute")

    @property
    def memory_partition(self) -> Fact[str]:
        """Into what its memory is split, e.g. ``NPS1`` (one whole) or ``NPS4``."""
        return self._partition.text("memory")

    @property
    def partitions(self) -> Fact[int]:
        """How many GPUs programs see of it; the note counts those of the whole node."""
        listed, node = self._partition.count("listed"), self._partition.text("node")
        if isinstance(listed, Unread) or isinstance(node, Unread):
            return listed
        return Read(listed.value, listed.evidence, node.value)

    @property
    def partitions_expected(self) -> Fact[int]:
        """How many GPUs its compute partition makes of it."""
        return self._partition.count("of")

    @property
    def pages_pending(self) -> Fact[int]:
        """How many bad pages of memory wait to be taken out of use."""
        return self._pages.count("pending")

    @property
    def pages_unreservable(self) -> Fact[int]:
        """How many bad pages of memory could not be taken out of use; the note counts those that were."""
        fact, retired = self._pages.count("unreservable"), self._pages.count("retired")
        if isinstance(fact, Unread) or isinstance(retired, Unread):
            return fact
        return replace(fact, note=f"{retired.value} pages are out of use")

    @property
    def xgmi_links(self) -> Fact[int]:
        """How many xGMI links it has to the GPUs of its node."""
        return self._device.entry.count("xgmi_links")

    @property
    def _partition(self) -> Record:
        return self._device.entry.record("partition")

    @property
    def _pages(self) -> Record:
        return self._device.entry.record("bad_pages")
