"""Network cards of the ConnectX and BlueField families, as their RDMA devices show them."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from gpuassay.facts.earlier import NO_PAST
from gpuassay.facts.link import GUID
from gpuassay.facts.since import NicSince
from gpuassay.facts.source import document
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.names import natural

if TYPE_CHECKING:
    from gpuassay.facts.record import Record
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

_FIRMWARE = r"[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,5}"  # product, train, release
_FAMILY = re.compile(r"MT[0-9]{4,5}")  # the kernel's hca_type for mlx4 and mlx5 devices
_DEVICE = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class Nic:
    """One device; of a card with two ports there are two, with the same firmware."""

    def __init__(self, node: str, device: str, entry: Record) -> None:
        """``entry`` is what sysfs says of it."""
        self.node = node
        self.device = device
        self._entry = entry

    past = NO_PAST

    @cached_property
    def since(self) -> NicSince:
        """What became of it since an earlier recording."""
        return NicSince(self, self.past)

    @property
    def where(self) -> str:
        """Its place, e.g. ``gpu017/mlx5_0``."""
        return f"{self.node}/{self.device}"

    @cached_property
    def models(self) -> tuple[str, ...]:
        """Its board id (PSID), e.g. ``MT_0000000838``: which firmware image it takes."""
        board = self.board_part
        return (board.value,) if isinstance(board, Read) else ()

    @property
    def board_part(self) -> Fact[str]:
        """Its board id (PSID)."""
        return self._entry.text("board_id", r"[A-Za-z0-9_]{4,32}", "a board id")

    @property
    def identity(self) -> Fact[str]:
        """Its GUID."""
        return self._entry.text("node_guid", GUID, "a GUID")

    @property
    def slot(self) -> Fact[str]:
        """Its PCI address."""
        return self._entry.text("pci", r"[0-9a-f:.]{12,17}", "a PCI address")

    @property
    def told(self) -> str:
        """Its device and GUID in words."""
        guid = self.identity
        return f"{self.device} with GUID {guid.value if isinstance(guid, Read) else 'unread'}"

    @property
    def kind(self) -> dict[str, str]:
        """With which cards its firmware may be compared: those of the same board."""
        return {"board": self.models[0] if self.models else "unknown"}

    @property
    def firmware(self) -> Fact[str]:
        """Train and release of its firmware, as bulletins have it: ``46.3008`` of ``28.46.3008``."""
        whole = self.firmware_version
        if isinstance(whole, Unread):
            return whole
        product, _, train = whole.value.partition(".")
        board = f", board {self.models[0]}" if self.models else ""
        return Read(train, whole.evidence, f"firmware {product}.{train}{board}")

    @property
    def firmware_version(self) -> Fact[str]:
        """The whole version of its firmware: ``28.46.3008``."""
        return self._entry.text("fw_ver", _FIRMWARE, "a firmware version")


class Nics:
    """The devices of a node."""

    def __init__(self, node: str, evidence: Evidence) -> None:
        """Look at what the probe read from ``/sys/class/infiniband``."""
        self._node = node
        self._devices = document(evidence, "infiniband", missing="not_found")

    @property
    def unread(self) -> Unread | None:
        """Why nothing is known of them."""
        return self._devices.unread

    @cached_property
    def connectx(self) -> tuple[Nic, ...]:
        """Those of the families; one that does not say what it is is among them."""
        found = [
            Nic(self._node, name, entry) for name, entry in self._devices.items() if _is_ours(name, entry)
        ]
        return tuple(sorted(found, key=lambda nic: natural(nic.device)))


def _is_ours(name: str, entry: Record) -> bool:
    family = entry.text("hca_type")
    if isinstance(family, Unread):
        return bool(_DEVICE.fullmatch(name)) and name.startswith("mlx")
    return bool(_DEVICE.fullmatch(name) and _FAMILY.fullmatch(family.value))
