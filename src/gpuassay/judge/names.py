"""Names of nodes and places: natural order, and node sets as Slurm and ClusterShell write them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

from gpuassay.judge.config import TEXT, Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_NAMES = 100_000  # ten times the largest cluster we aim at; more is a slip of the keyboard
_NAMED = 3
_RANGE = re.compile(r"[\[,]([0-9]+)-([0-9]+)")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]*")


def natural(name: str) -> tuple[list[tuple[int, int | str]], str]:
    """Sort key that puts gpu2 before gpu10, and gpu1 and gpu01 always in the same order."""
    parts = re.split(r"([0-9]+)", name)
    return [(0, int(part)) if index % 2 else (1, part) for index, part in enumerate(parts) if part], name


def expand(expression: str) -> tuple[str, ...]:
    """Write out a node set such as ``gpu[001-004],login1``, in natural order.

    Raises ValueError for one that cannot be read, is empty, is far too large, or holds what is no name
    (groups such as ``@all`` depend on the machine that resolves them, so they are none).
    """
    # A slip in a range must not fill the memory, so its length is looked at before it is written out.
    if any(int(last) - int(first) > MOST_NAMES for first, last in _RANGE.findall(expression)):
        raise ValueError(f"a range in it has more than {MOST_NAMES} names")
    try:
        nodes = NodeSet(expression, resolver=RESOLVER_NOGROUP)
    except NodeSetException as error:
        raise ValueError(str(error)) from error
    if not 0 < len(nodes) <= MOST_NAMES:
        raise ValueError(f"it has {len(nodes)} names")
    for name in nodes:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name")
    return tuple(sorted(nodes, key=natural))


def listed(text: str) -> tuple[str, ...]:
    """Read a host file: each line begins with a node or a node set; what else is on it is passed over.

    Raises ValueError for one that names no node, or holds what is no name.
    """
    lines = (line.partition("#")[0].split() for line in text.splitlines())
    return expand(",".join(words[0] for words in lines if words))


def folded(names: Sequence[str]) -> str:
    """Write names as one node set, such as ``gpu[001-004]``; as a list where NodeSet cannot."""
    try:
        nodes = NodeSet.fromlist(names, resolver=RESOLVER_NOGROUP)
    except NodeSetException:
        return ",".join(names)
    return str(nodes) if len(nodes) == len(set(names)) else ",".join(names)


def first_of(names: Sequence[str]) -> str:
    """Name the first few, and count the rest: "gpu1, gpu2, gpu3 and 5 more"."""
    named = ", ".join(names[:_NAMED])
    return named if len(names) <= _NAMED else f"{named} and {len(names) - _NAMED} more"


def _nodes(value: object) -> tuple[str, ...]:
    nodes = expand(TEXT.read(value))
    inside = [name for name in nodes if "/" in name]
    if inside:
        raise ValueError(f"{inside[0]} is a place in a node")
    return nodes


NODES: Kind[tuple[str, ...]] = Kind("nodes such as gpu[001-004],login1", _nodes, ())
PORTS: Kind[tuple[str, ...]] = Kind("ports such as mlx5_[0-7]", lambda value: expand(TEXT.read(value)), ())
