"""RoCE addresses (GIDs): what each is good for, and which one NCCL takes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Network, IPv6Address, IPv6Network
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

Scope: TypeAlias = Literal["empty", "unconfigured", "link-local", "ipv4", "ipv6-ula", "ipv6-global", "other"]

ROCE_V2: Final = 2  # over UDP; version 1 is a frame of its own kind, which no router forwards
_ROUTED: frozenset[Scope] = frozenset({"ipv4", "ipv6-ula", "ipv6-global"})
_LINK_LOCAL_PREFIX = IPv6Address("fe80::")
_UNIQUE_LOCAL = IPv6Network("fc00::/7")  # RFC 4193
_GLOBAL = IPv6Network("2000::/3")  # RFC 4291
EMPTY_ADDRESS: Final = IPv6Address(0)


@dataclass(frozen=True, slots=True)
class Gid:
    """One entry of a port's GID table; ``version`` is RoCE's, None where the kernel tells none."""

    index: int
    address: IPv6Address
    version: int | None
    netdev: str = ""

    @property
    def is_ipv4(self) -> bool:
        """Whether it stands for an IPv4 address (``::ffff:10.0.0.1``)."""
        return self.address.ipv4_mapped is not None

    @property
    def scope(self) -> Scope:
        """How far its address reaches; ``unconfigured`` is ``fe80::`` alone."""
        return _scope(self.address)

    @property
    def routable(self) -> bool:
        """Whether packets to it cross a router: RoCE v2, and neither empty nor link-local."""
        return self.version == ROCE_V2 and self.scope in _ROUTED

    @property
    def valid(self) -> bool:
        """Whether NCCL takes it for an address: neither empty, nor unconfigured, nor ``fe80::/10``."""
        return self.is_ipv4 or self.scope not in ("empty", "unconfigured", "link-local")

    @property
    def label(self) -> str:
        """Scope and version, e.g. ``ipv4 v2``, ``link-local v1``."""
        if self.scope == "empty":
            return "empty"
        return f"{self.scope} v{self.version}" if self.version else f"{self.scope} of no version"

    def __str__(self) -> str:
        ipv4 = self.address.ipv4_mapped
        return f"{self.index}: {f'::ffff:{ipv4}' if ipv4 else self.address} ({self.label})"


@lru_cache(maxsize=1024)  # versions 1 and 2 of an address come as a pair
def _scope(address: IPv6Address) -> Scope:
    ipv4 = address.ipv4_mapped
    if (ipv4 or address).is_unspecified:
        return "empty"
    if address == _LINK_LOCAL_PREFIX:
        return "unconfigured"
    if (ipv4 or address).is_link_local:
        return "link-local"
    if ipv4 is not None:
        return "other" if ipv4.is_loopback or ipv4.is_multicast else "ipv4"
    if address in _UNIQUE_LOCAL:
        return "ipv6-ula"
    return "ipv6-global" if address in _GLOBAL else "other"


@lru_cache(maxsize=1024)
def parse_address(text: str) -> IPv6Address | None:
    """Read an address as sysfs writes it, or shorter; None if it is none."""
    try:
        address = IPv6Address(text)
    except AddressValueError:
        return None
    return address if address.scope_id is None else None


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which address NCCL looks for: NCCL_IB_ADDR_FAMILY, NCCL_IB_ADDR_RANGE, NCCL_IB_ROCE_VERSION_NUM."""

    ipv6: bool = False
    network: IPv4Network | IPv6Network | None = None
    version: int = ROCE_V2

    def fits(self, gid: Gid) -> bool:
        """Tell whether an entry is of the family and the subnet."""
        if gid.is_ipv4 is self.ipv6:
            return False
        return self.network is None or (gid.address.ipv4_mapped or gid.address) in self.network


DEFAULTS: Final = Wanted()


def nccl_choice(table: Iterable[Gid], wanted: Wanted = DEFAULTS) -> Gid:
    """Return the entry that NCCL from 2.21 on takes by itself: by default IPv4, RoCE v2, any subnet.

    As ``ncclIbGetGidIndex`` in its ``transport/net_ib``: it starts at index 0 and goes up; it moves to the
    first entry of the wanted family, then to one of the wanted version. Where nothing qualifies it stays
    at 0, without a word: a link-local entry of version 1 on a port that has IPv6 addresses only.
    """
    gids = {gid.index: gid for gid in table}
    chosen = gids.pop(0, None) or Gid(0, EMPTY_ADDRESS, None)
    for _, gid in sorted(gids.items()):
        if not wanted.fits(gid):
            continue
        better = gid.version == wanted.version and (gid.version != chosen.version or not chosen.valid)
        if gid.is_ipv4 is not chosen.is_ipv4 or (gid.valid and better):
            chosen = gid
    return chosen
