"""How ranks reached each other, by the log of NCCL or RCCL (``NCCL_DEBUG=INFO``): never by a setting."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# "Channel 00/0 : 1[1] -> 9[1] [send] via NET/IB/1/GDRDMA", "… via P2P/MNNVL", "… via SHM/direct/direct".
_VIA = re.compile(r"\bvia (?P<way>NET/[\w.\-]+|P2P/[\w/.\- ]*|SHM\b|COLLNET\b|NVLS\b)(?P<rest>\S*)")
_NETWORK = re.compile(r"\bUsing network (?P<name>[\w .\-]+)")
_PLUGIN = re.compile(r"\b[Ll]oaded (?:external )?(?:net(?:work)? )?plugin (?P<name>[\w.\-]+)")
_VERSION = re.compile(r"\b(?:NCCL|RCCL) version:? (?P<version>[0-9][\w.+\-]*)")
_NVLS = re.compile(r"NVLS (?:comm|multicast support is (?:not )?available)|Connected NVLS tree|NVLS tree")
_MNNVL = re.compile(r"\bMNNVL (?P<on>[01])\b")
_SOCKET = re.compile(r"socket", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Ways:
    """What a log shows: ways between ranks, such as ``NET/IB``, and what the library chose."""

    ways: frozenset[str]
    direct: bool | None
    networks: tuple[str, ...]
    plugins: tuple[str, ...]
    version: str
    nvls: bool
    racks: bool
    warnings: tuple[str, ...]

    @property
    def sockets(self) -> bool | None:
        """Whether any data between nodes went through sockets; None if it does not say how it went."""
        between = [way for way in self.ways if way.startswith("NET/")] or list(self.networks)
        return any(map(_SOCKET.search, between)) if between else None

    @property
    def words(self) -> str:
        """Say it in a line."""
        said = [f"NCCL {self.version}" if self.version else "", "via " + ", ".join(sorted(self.ways))]
        said += [f"network {', '.join(self.networks)}" if self.networks else ""]
        said += [f"plugin {', '.join(self.plugins)}" if self.plugins else ""]
        said += ["NVLS" if self.nvls else "", "MNNVL" if self.racks else ""]
        return "; ".join(part for part in said if part not in ("", "via "))


def ways(lines: Iterable[str]) -> Ways:
    """Read lines of a log; any text may stand among them."""
    listed = list(lines)
    via = [found for found in map(_VIA.search, listed) if found]
    net = [found for found in via if found["way"].startswith("NET/")]
    versions = _all(_VERSION, listed, "version")
    return Ways(
        ways=frozenset(_way(found["way"]) for found in via),
        direct=all("GDR" in found["rest"] for found in net) if net else None,
        networks=_all(_NETWORK, listed, "name"),
        plugins=_all(_PLUGIN, listed, "name"),
        version=versions[0] if versions else "",
        nvls=any(_NVLS.search(line) and "not available" not in line for line in listed),
        racks=any(found["on"] == "1" for found in map(_MNNVL.search, listed) if found)
        or any("P2P/MNNVL" in found["way"] for found in via),
        warnings=tuple(dict.fromkeys(line[line.index("WARN") :] for line in listed if "WARN" in line)),
    )


def _way(text: str) -> str:
    """Give ``NET/IB`` of ``NET/IB/1``, and ``P2P/CUMEM`` of ``P2P/CUMEM/read``."""
    return "/".join(text.strip().split("/")[:2])


def _all(pattern: re.Pattern[str], lines: Iterable[str], group: str) -> tuple[str, ...]:
    found = (match[group].strip() for match in map(pattern.search, lines) if match)
    return tuple(dict.fromkeys(found))
