"""What the collective library says of itself at work: kept in memory, for nothing is written on a node."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping

_MOST_LINES, _TAIL = 300, 30
_TELLING = re.compile(
    r"NET/| via |NVLS|MNNVL|version|Using network|[Pp]lugin|WARN|GDR|cliqueId|nranks|set by environment"
)
# Lines that differ only in who said them, the channel and the two ranks say one thing.
_WHO = re.compile(r"^.*?\bNCCL (?=INFO|WARN)|Channel \d+(/\d+)?|\d+\[[0-9a-f]+\]|\b0x[0-9a-f]+\b|comm \S+")

# Leaves the GPUs of a node to NVLink and sends all else through the network cards.
APART = {"NCCL_MNNVL_ENABLE": "0", "NCCL_NVLS_ENABLE": "0", "NCCL_PXN_DISABLE": "1"}
_OURS = ("NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE")


def arrange(environment: MutableMapping[str, str], kind: str) -> dict[str, Mapping[str, str]]:
    """Set the library's environment: ``bare`` has none, ``site`` the site's own, ``apart`` also APART.

    Gives what was taken away, what was left and what was added. What asks for the log changes no route.
    """
    found = {name: value for name, value in environment.items() if name.startswith(("NCCL_", "RCCL_"))}
    removed = found if kind == "bare" else {name: found[name] for name in _OURS if name in found}
    for name in removed:
        del environment[name]
    added = APART if kind == "apart" else {}
    environment.update(added)
    return {
        "removed": removed,
        "kept": {name: value for name, value in found.items() if name not in removed},
        "set": added,
    }


class NetLog:
    """The log of this process."""

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        """Tell the library to write it; before it is loaded."""
        self._file = os.memfd_create("nccl")
        environment["NCCL_DEBUG"] = "INFO"
        environment["NCCL_DEBUG_SUBSYS"] = "INIT,NET,ENV"
        environment["NCCL_DEBUG_FILE"] = f"/proc/self/fd/{self._file}"

    def document(self) -> dict[str, Any]:
        """Give the lines that tell something, each kind once and counted, and the last ones as they are."""
        size = os.fstat(self._file).st_size
        return digest(os.pread(self._file, size, 0).decode("utf-8", "replace"))


def digest(text: str) -> dict[str, Any]:
    """Keep of a log what tells something."""
    lines = text.splitlines()
    kinds: dict[str, list[Any]] = {}
    for line in lines:
        if _TELLING.search(line):
            kinds.setdefault(_WHO.sub("", line), [line[:400], 0])[1] += 1
    kept = list(kinds.values())
    return {
        "lines": kept[:_MOST_LINES],
        "left_out": len(kept[_MOST_LINES:]),
        "tail": [line[:400] for line in lines[-_TAIL:]],
    }
