"""What a node offers to jobs beside its hardware: programs, libraries and users; nothing is started."""

# pathlib is slow to import and to use, and these are many small looks.
# ruff: noqa: PTH110, PTH111, PTH116, PTH119, PTH207

from __future__ import annotations

import glob
import os
import pwd
import shutil
import stat
from typing import TYPE_CHECKING, Any

from gpuassay.probe.answer import unread_because
from gpuassay.probe.files import head

if TYPE_CHECKING:
    from collections.abc import Iterable

PROGRAMS = ("enroot", "apptainer", "singularity", "docker", "podman", "mpirun", "nhc", "dcgmi", "ncu", "nsys")
LMOD = (
    "/usr/share/lmod/lmod/init/profile",
    "/opt/apps/lmod/lmod/init/profile",
    "/usr/local/lmod/lmod/init/profile",
    "/etc/profile.d/lmod.sh",
    "/etc/profile.d/z00_lmod.sh",
    "/etc/profile.d/00-modulepath.sh",
)
LIBRARIES = (
    "/usr/lib/*-linux-gnu",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/local/cuda/lib64",
    "/opt/nvidia/hpc_sdk/Linux_*/*/comm_libs/nccl/lib",
)
STARTERS = ("/usr/libexec/apptainer/bin/starter-suid", "/usr/libexec/singularity/bin/starter-suid")
PYXIS = (
    "/usr/lib/*-linux-gnu/slurm*/spank_pyxis.so",
    "/usr/lib64/slurm/spank_pyxis.so",
    "/usr/local/lib/slurm/spank_pyxis.so",
)
PLUGSTACKS = (
    "/etc/slurm/plugstack.conf",
    "/etc/slurm/plugstack.conf.d/*.conf",
    "/run/slurm/conf/plugstack.conf",
    "/usr/local/etc/slurm/plugstack.conf",
)
HPC_SDK = "/opt/nvidia/hpc_sdk/Linux_*/[0-9]*"
NAMESPACES = (
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
)
SOCKET = "/var/run/docker.sock"
_HOSTBASED = "hostbasedauthentication"
_LARGEST = 1 << 16


def equipment(root: str = "") -> dict[str, Any]:
    """Look for all of it; ``root`` stands before each path."""
    return {
        "programs": {name: path for name in PROGRAMS if (path := shutil.which(name))},
        "lmod": _there(root, LMOD),
        "hpc_sdk": sorted(os.path.basename(path) for path in glob.glob(root + HPC_SDK)),
        "nccl": _names(root, (f"{folder}/libnccl.so*" for folder in LIBRARIES)),
        "setuid_starters": [path for path in _there(root, STARTERS) if _is_setuid(path)],
        "pyxis": {"plugins": _there(root, PYXIS), "loaded": _loaded(root)},
        "namespaces": {path: _line(root + path) for path in NAMESPACES if os.path.exists(root + path)},
        "docker_socket": {"there": os.path.exists(root + SOCKET), "open": os.access(root + SOCKET, os.W_OK)},
        "passwd": _sources(root),
        "user_known": _is_known(),
        "ssh": {"hostbased": _hostbased(root), "own_key": _own_key(os.path.expanduser("~/.ssh"))},
    }


def _there(root: str, patterns: Iterable[str]) -> list[str]:
    return sorted({path for pattern in patterns for path in glob.glob(root + pattern)})


def _names(root: str, patterns: Iterable[str]) -> list[str]:
    """Give the names of files as they are called where links end: the version is in them."""
    return sorted({os.path.basename(os.path.realpath(path)) for path in _there(root, patterns)})


def _is_setuid(path: str) -> bool:
    found = os.stat(path)
    return found.st_uid == 0 and bool(found.st_mode & stat.S_ISUID)


def _line(path: str) -> str:
    return head(path, 64).strip()


def _loaded(root: str) -> Any:
    """Tell whether a configuration of Slurm's plugins names pyxis, outside comments."""
    try:
        texts = [head(path, _LARGEST) for path in _there(root, PLUGSTACKS)]
    except OSError as error:
        return unread_because(error)
    lines = (line.strip() for text in texts for line in text.splitlines())
    return any("spank_pyxis" in line for line in lines if not line.startswith("#"))


def _sources(root: str) -> Any:
    """Name where the system looks for users."""
    try:
        text = head(f"{root}/etc/nsswitch.conf", _LARGEST)
    except OSError as error:
        return unread_because(error)
    lines = (line.partition("#")[0].partition(":") for line in text.splitlines())
    return next((words.split() for key, _, words in lines if key.strip() == "passwd"), [])


def _is_known() -> bool:
    """Tell whether the user as whom this runs has a name here; what users come from is asked for it."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return True


def _hostbased(root: str) -> Any:
    """Tell whether sshd lets machines of the cluster in by their own keys; the first word counts."""
    paths = [*_there(root, ("/etc/ssh/sshd_config.d/*.conf",)), *_there(root, ("/etc/ssh/sshd_config",))]
    try:
        lines = [line.split() for path in paths for line in head(path, _LARGEST).splitlines()]
    except OSError as error:
        return unread_because(error)
    said = [words[1].lower() for words in lines if len(words) > 1 and words[0].lower() == _HOSTBASED]
    return bool(said) and said[0] == "yes"


def _own_key(folder: str) -> Any:
    """Tell whether a key of this user's own opens this user's account; no key is kept."""
    try:
        allowed = {
            key for line in head(f"{folder}/authorized_keys", 1 << 20).splitlines() for key in line.split()
        }
    except FileNotFoundError:
        return False
    except OSError as error:
        return unread_because(error)
    for path in glob.glob(f"{folder}/*.pub"):
        words = head(path, _LARGEST).split()
        if len(words) > 1 and words[1] in allowed and os.path.exists(path[: -len(".pub")]):
            return True
    return False
