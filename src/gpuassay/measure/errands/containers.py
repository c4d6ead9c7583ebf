"""Start a container with all GPUs through the runtime that is here, have it look around, and remove it."""

from __future__ import annotations

import glob
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

RUNTIMES = ("docker", "podman", "nerdctl")
_ROOM = ("--shm-size=1g", "--ulimit=memlock=-1:-1")  # what NVIDIA tells users of NCCL to ask for
_AMD = ("--device=/dev/kfd", "--device=/dev/dri", "--group-add=video")
_DRIVER = {
    "docker": "{{.CgroupDriver}}",
    "podman": "{{.Host.CgroupManager}}",
    "nerdctl": "{{.CgroupDriver}}",
}
_SHORT_S = 30.0
_SAID = 4000


def main(order: dict[str, Any]) -> int:
    """Print what came of it."""
    signal.signal(signal.SIGTERM, stop)
    sys.stdout.write(json.dumps({"rows": [tried(order)]}) + "\n")
    sys.stdout.flush()
    return 0


def stop(*_: object) -> None:
    """End as Ctrl-C does: what was started is removed on the way."""
    raise KeyboardInterrupt


def tried(order: dict[str, Any]) -> dict[str, Any]:
    """Start it, and tell; without a runtime or an image there is nothing to start."""
    runtime = next((name for name in RUNTIMES if shutil.which(name)), "")
    told: dict[str, Any] = {"runtime": runtime, "granted": len(gpus()), "nodes_linked": linked()}
    if not runtime or not order["image"]:
        return told
    told["driver"] = ask(runtime, "info", "--format", _DRIVER[runtime])
    told["mode"] = mode()
    had = subprocess.run(  # noqa: S603 - no shell
        [runtime, "image", "inspect", order["image"]],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    return {**told, "had_image": had.returncode == 0, **run(runtime, order, keep=had.returncode == 0)}


def run(runtime: str, order: dict[str, Any], *, keep: bool) -> dict[str, Any]:
    """Run our program in a container; the container goes, and the image too unless it was there."""
    name = f"gpuassay-{secrets.token_hex(4)}"
    argv = [runtime, "run", "--rm", f"--name={name}", "--network=none", *_ROOM, *given(runtime)]
    argv += [order["image"], "python3", "-I", "-S", "-B", "-c", order["look"], "/dev"]
    began, told = time.monotonic(), {}
    child = subprocess.Popen(  # noqa: S603 - no shell
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = child.communicate(timeout=order["seconds"])
        told = {"exit": child.returncode, "out": out.decode(errors="replace")[-_SAID:]}
        told["said"] = err.decode(errors="replace")[-_SAID:]
    except subprocess.TimeoutExpired:
        told = {"late": True}
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        told["seconds"] = round(time.monotonic() - began, 3)
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        ask(runtime, "rm", "--force", name)
        if not keep:
            ask(runtime, "rmi", order["image"])
    told["left"] = name in ask(runtime, "ps", "--all", "--format", "{{.Names}}").split()
    return told


def given(runtime: str) -> list[str]:
    """Say how this runtime hands all GPUs over."""
    if os.path.exists("/dev/kfd"):  # noqa: PTH110 - small and on its own
        return list(_AMD)
    return ["--device=nvidia.com/gpu=all"] if runtime == "podman" else ["--gpus=all"]


def gpus() -> list[str]:
    """List the device files of GPUs on the node itself."""
    found = [path for path in glob.glob("/dev/nvidia*") if re.fullmatch("/dev/nvidia[0-9]+", path)]  # noqa: PTH207
    return found or (glob.glob("/dev/dri/renderD*") if os.path.exists("/dev/kfd") else [])  # noqa: PTH110, PTH207


def linked() -> bool:
    """Tell whether each device file of NVIDIA's GPUs has its link below /dev/char."""
    for path in (path for path in gpus() if path.startswith("/dev/nvidia")):
        number = os.stat(path).st_rdev  # noqa: PTH116
        if not os.path.exists(f"/dev/char/{os.major(number)}:{os.minor(number)}"):  # noqa: PTH110
            return False
    return True


def mode() -> str:
    """Read in which mode NVIDIA's container runtime works; empty where nothing says so."""
    try:
        with open("/etc/nvidia-container-runtime/config.toml", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            found = re.search(r'^\s*mode\s*=\s*"(\w+)"', file.read(), re.MULTILINE)
    except OSError:
        return ""
    return found[1] if found else ""


def ask(*argv: str) -> str:
    """Ask a runtime something short; nothing where it does not say."""
    try:
        done = subprocess.run(  # noqa: S603 - no shell
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SHORT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else ""
