"""Small files, read as they are, and folders of one-line attributes as /sys has them."""

# Importing pathlib takes longer than all that is read here:
# ruff: noqa: PTH115, PTH119, PTH208
from __future__ import annotations

import errno
import os
import re
from typing import TYPE_CHECKING, Any, Optional

from gpuassay.probe.answer import Answer, unread_because

if TYPE_CHECKING:
    from collections.abc import Iterable

_PCI_ADDRESS = re.compile(r"(?<=/)[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7](?=/|$)")
_ATTRIBUTE_CAP = 1 << 14  # an attribute of sysfs is at most one page


def contents(path: str, size: int) -> bytes:
    """Read up to ``size`` bytes; a pipe that is there instead of a file is not waited for. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        data = b""
        while len(data) < size:
            chunk = os.read(descriptor, size - len(data))
            if not chunk:
                break
            data += chunk
    except OSError as error:
        error.filename = path
        raise
    finally:
        os.close(descriptor)
    return data


def whole(path: str, cap: int) -> Answer:
    """Read a file up to ``cap`` bytes. Raises OSError."""
    data = contents(path, cap + 1)
    return Answer(out=data[:cap], truncated=len(data) > cap)


def head(path: str, size: int) -> str:
    """Read the beginning of a file as text. Raises OSError."""
    return contents(path, size).decode(errors="replace")


def attribute(path: str) -> str:
    """Read a one-line attribute. Raises OSError."""
    return head(path, _ATTRIBUTE_CAP).strip()


def attributes(
    folder: str, names: Iterable[str], absent: tuple[int, ...] = (errno.ENOENT,)
) -> dict[str, Any]:
    """Read attributes of a folder; one whose error says that it is absent is left out."""
    found: dict[str, Any] = {}
    for name in names:
        try:
            found[name] = attribute(f"{folder}/{name}")
        except OSError as error:
            if error.errno not in absent:
                found[name] = unread_because(error)
    return found


def entries(folder: str, above: str) -> list[str]:
    """List a folder of /sys; empty if it is absent while ``above`` shows that /sys itself is there.

    Raises OSError: an empty ``above`` is a /sys that somebody masked, in which absence proves nothing.
    """
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        if os.listdir(above):
            return []
        raise


def pci_addresses(path: str) -> list[str]:
    """Name the PCI devices that a path of /sys leads through, links resolved, the outermost first."""
    return _PCI_ADDRESS.findall(os.path.realpath(path))


def link_name(path: str) -> Optional[str]:
    """Name what a link points to; None where there is no link."""
    try:
        return os.path.basename(os.readlink(path))
    except OSError:
        return None
