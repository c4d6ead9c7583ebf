"""A restart of the node on purpose: what is there before it, how it is begun, and what is there after it.

A file of our own is left on each shared file system, and read again when its node is back: by then nothing
of it is in any cache of the node's.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import shutil
import socket
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuassay.fault.node.deadman import apart
from gpuassay.fault.node.machine import machine
from gpuassay.fault.node.vital import refuse_vital
from gpuassay.fault.node.words import Refused, answer, boot_id, need_root, run

if TYPE_CHECKING:
    from collections.abc import Mapping

_PREFIX = ".gpuassay-reboot-"
_BYTES = 1 << 20
_SOON_S = 3  # until it begins: by then the answer has left the node


def main(order: dict[str, Any]) -> int:
    """Do what ``order["verb"]`` says, and print one document."""
    return answer(order["verb"], lambda: _VERBS[order["verb"]](order))


def _plan(order: Mapping[str, Any]) -> dict[str, Any]:
    """Look at the node, and leave the files. Raises Refused where other nodes depend on it."""
    refuse_vital()
    marks = [_write(mount, order["mark"]) for mount in order["mounts"]]
    here = {"host": socket.gethostname(), "user": os.geteuid(), "boot": boot_id(), "machine": machine()}
    return {**here, "marks": marks}


def _restart(_order: Mapping[str, Any]) -> dict[str, Any]:
    """Have the node's systemd restart it, a moment later. Raises Refused."""
    need_root()
    if not shutil.which("systemctl"):
        raise Refused("there is no systemctl on the node to restart it with")
    words = f"systemctl reboot in {_SOON_S} s"
    if Path("/run/systemd/system").is_dir() and shutil.which("systemd-run"):
        status, said = run("systemd-run", f"--on-active={_SOON_S}s", "systemctl", "reboot")
        if status != 0:
            raise Refused(f"systemd-run cannot have it restarted: {said}")
    else:
        apart("/bin/sh", "-c", f"sleep {_SOON_S}; exec systemctl reboot")
    return {"by": words}


def _look(order: Mapping[str, Any]) -> dict[str, Any]:
    """Read the files again; they stay until all that may look has looked."""
    return {"boot": boot_id(), "machine": machine(), "marks": [_read(mark) for mark in order["marks"]]}


def _sweep(order: Mapping[str, Any]) -> dict[str, Any]:
    """Remove files that were left."""
    removed = []
    for mount in order["mounts"]:
        for place in _places(mount):
            for left in place.glob(f"{_PREFIX}{order['mark']}-*"):
                with suppress(OSError):
                    left.unlink()
                    removed.append(str(left))
    return {"removed": sorted(set(removed))}


_VERBS = {"plan": _plan, "restart": _restart, "look": _look, "sweep": _sweep}


def _write(mount: str, mark: str) -> dict[str, Any]:
    """Leave a file on a file system, at its top or where the user may write; say which, or why none."""
    if not Path(mount).is_dir() or Path(mount).stat().st_dev == Path("/").stat().st_dev:
        return {"mount": mount, "why": "no file system of its own is mounted there"}
    name = f"{_PREFIX}{mark}-{socket.gethostname().partition('.')[0]}"
    content = hashlib.shake_256(f"{name} {mount}".encode()).digest(_BYTES)
    tried = []
    for place in _places(mount):
        path = place / name
        try:
            with path.open("xb") as file:
                file.write(content)
                os.fsync(file.fileno())
        except OSError as error:
            tried.append(f"{place}: {error.strerror}")
            continue
        return {"mount": mount, "file": str(path), "sha256": hashlib.sha256(content).hexdigest()}
    return {"mount": mount, "why": f"nothing can be written there: {'; '.join(tried)}"}


def _read(mark: Mapping[str, Any]) -> dict[str, Any]:
    told = {"mount": mark["mount"], "file": mark.get("file", "")}
    try:
        content = Path(told["file"]).read_bytes() if told["file"] else b""
    except OSError as error:
        return {**told, "lost": error.strerror or str(error)}
    return {**told, "sha256": hashlib.sha256(content).hexdigest()} if told["file"] else {**mark}


def _places(mount: str) -> list[Path]:
    """List where a user may write: at the top, or in the folder that is the user's own."""
    root, home = Path(mount), os.environ.get("HOME", "")
    own = [Path(home)] if home.startswith("/") and root in (Path(home), *Path(home).parents) else []
    with suppress(KeyError, OSError):  # a user without a name
        own.append(root / getpass.getuser())
    return list(dict.fromkeys([*own, root]))
