"""What is looked at in a container, and beside it on its node: one small program, and its image's names."""

from __future__ import annotations

import re
from typing import Final

# Device files are what a container is given; a library in its image says nothing of them. They are opened
# and closed, which asks nothing of a GPU. The file that NCCL would read is looked for in NCCL's own order.
LOOK: Final = """\
import hashlib, json, os, re, resource, sys, time
def devices(folder):
    names = os.listdir(folder)
    found = [os.path.join(folder, name) for name in names if re.fullmatch("nvidia[0-9]+", name)]
    if "kfd" in names and "dri" in names:
        inner = os.path.join(folder, "dri")
        found += [os.path.join(inner, name) for name in os.listdir(inner) if name.startswith("renderD")]
    return found
def opens(path):
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError:
        return False
    return True
def named():
    if os.environ.get("NCCL_TOPO_FILE"):
        yield "the environment", os.environ["NCCL_TOPO_FILE"]
    own = os.environ.get("NCCL_CONF_FILE") or os.path.expanduser("~/.nccl.conf")
    for place in (own, "/etc/nccl.conf"):
        try:
            with open(place, encoding="utf-8", errors="replace") as lines:
                parts = [line.partition("=") for line in lines]
        except OSError:
            continue
        for name, _, value in parts:
            if name.strip() == "NCCL_TOPO_FILE" and value.strip():
                yield place, value.strip()
    default = "/var/run/nvidia-topologyd/virtualTopology.xml"
    if os.path.exists(default):
        yield "NCCL's default", default
def topology():
    for source, path in named():
        told = {"from": source, "path": path}
        try:
            with open(path, "rb") as file:
                held = file.read(1 << 24)
            told["sha256"], told["xml"] = hashlib.sha256(held).hexdigest(), b"<system" in held
        except OSError as error:
            told["why"] = error.strerror or str(error)
        return told
    return {}
def shared():
    try:
        found = os.statvfs("/dev/shm")
    except OSError:
        return 0
    return found.f_blocks * found.f_frsize
def look(folder):
    found = devices(folder)
    lock = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    return {
        "seen": len(found),
        "opens": sum(map(opens, found)),
        "topology": topology(),
        "shm_bytes": shared(),
        "memlock": "unlimited" if lock == resource.RLIM_INFINITY else str(lock),
        "at": time.time(),
        "job": os.environ.get("SLURM_JOB_ID", ""),
    }
"""

INSIDE: Final = LOOK + "print(json.dumps(look(sys.argv[1])), flush=True)\n"
"""The program of a container; its argument is the folder of device files."""

# What Enroot keeps goes into a folder of its own, which is removed, also where the job is told to end.
BESIDE: Final = (
    LOOK
    + """\
import shutil, signal, subprocess, tempfile
def stop(*_):
    raise SystemExit(143)
def imported(image, seconds):
    folder = tempfile.mkdtemp(prefix="gpuassay-")
    kept = ("CACHE", "DATA", "RUNTIME", "TEMP")
    places = {"ENROOT_%s_PATH" % name: os.path.join(folder, name.lower()) for name in kept}
    child, began, told = None, time.monotonic(), {"folder": folder}
    try:
        for path in places.values():
            os.mkdir(path)
        output = os.path.join(folder, "image.sqsh")
        argv = ["enroot", "import", "--output", output, "docker://" + image]
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        child = subprocess.Popen(argv, env={**os.environ, **places}, start_new_session=True, **quiet)
        said = child.communicate(timeout=seconds)[1].decode(errors="replace").split("\\n")
        told["exit"] = child.returncode
        told["bytes"] = os.path.getsize(output) if os.path.exists(output) else 0
        told["said"] = next((line.strip() for line in said if "ERROR" in line), "")
    except FileNotFoundError:
        told["missing"] = "enroot"
    except OSError as error:
        told["said"] = error.strerror or str(error)
    except subprocess.TimeoutExpired:
        told["late"] = seconds
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        told["seconds"] = round(time.monotonic() - began, 3)
        if child is not None:
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except OSError:
                pass
            child.wait()
        shutil.rmtree(folder, ignore_errors=True)
    told["left"] = os.path.exists(folder)
    return told
signal.signal(signal.SIGTERM, stop)
told = {"node": look(sys.argv[1])}
if sys.argv[2]:
    told["import"] = imported(sys.argv[2], float(sys.argv[3]))
print(json.dumps(told), flush=True)
"""
)
"""The program beside it: its arguments: that folder, an image to import or nothing, the seconds for it."""

_FILE: Final = ("/", "./", "../")
_HOST: Final = re.compile(r"[^/#]*[.:][^/#]*|localhost", re.ASCII)


def for_enroot(image: str) -> str:
    """Name an image as Enroot does: the registry ends with ``#``, and a digest stands in the tag's place.

    Its own form, and the path of an image file, stay as they are.
    """
    if is_file(image) or "#" in image:
        return image
    name, _, digest = image.partition("@")
    host, slash, rest = name.partition("/")
    registry, path = (f"{host}#", rest) if slash and _HOST.fullmatch(host) else ("", name)
    if not digest:
        return f"{registry}{path}"
    return f"{registry}{path.partition(':')[0]}:{digest}"


def is_file(image: str) -> bool:
    """Tell whether an image is a file, which is not imported."""
    return image.startswith(_FILE)
