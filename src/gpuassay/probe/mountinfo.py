"""The kernel's table of mounts, /proc/self/mountinfo (proc(5)): who mounted what, where, and how."""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

from gpuassay.probe.files import contents

TABLE = "/proc/self/mountinfo"

LOCAL = frozenset(
    ("bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "rootfs", "tmpfs", "xfs", "zfs")
)
"""File systems of this machine's own: they answer without a network."""

_TABLE_CAP = 1 << 22
_ESCAPED = re.compile(r"\\([0-7]{3})")  # blanks and backslashes in names


class Mount(NamedTuple):
    """One line of the table; ``root`` is what of the file system is mounted, ``super`` its own options."""

    device: str
    root: str
    place: str
    options: str
    type: str
    source: str
    super: str


def mounted(table: str = TABLE) -> list[Mount]:
    """List the mounts, the newest last; what is no line of the table is no mount. Raises OSError."""
    lines = contents(table, _TABLE_CAP).decode(errors="replace").splitlines()
    return [one for one in map(_parse, lines) if one]


def _parse(line: str) -> Optional[Mount]:
    """Read a line: six fields, any number of tags, a dash, three fields."""
    fields = [_ESCAPED.sub(lambda match: chr(int(match[1], 8)), field) for field in line.split(" ")]
    if "-" not in fields[6:]:
        return None
    rest = fields[fields.index("-", 6) + 1 :]
    if len(rest) < 3:  # noqa: PLR2004 - type, source, options
        return None
    return Mount(fields[2], fields[3], fields[4], fields[5], rest[0], rest[1], rest[2])
