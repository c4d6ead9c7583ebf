"""Who may open what commands a machine: modes and owners, and which known ports are listened on.

Nothing is opened but two lists of the kernel's, and nothing is connected to: of a key, no byte is read.
"""

# Importing pathlib takes longer than all that is read here:
# ruff: noqa: PTH112, PTH115, PTH116, PTH120, PTH208
from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any

from gpuassay.probe.answer import unread_because
from gpuassay.probe.files import contents, entries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# A folder and how names in it begin: what stands for them all is looked for, and no more.
IPMI = (("/dev", "ipmi"), ("/dev/ipmi", ""), ("/dev/ipmidev", ""))
SECRETS = (
    "/etc/ssh/ssh_host_dsa_key",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/munge/munge.key",
    "/etc/slurm/slurm.key",
    "/etc/slurm/slurmdbd.conf",
    "/etc/kubernetes/admin.conf",
    "/etc/kubernetes/super-admin.conf",
    "/etc/kubernetes/kubelet.conf",
    "/etc/kubernetes/controller-manager.conf",
    "/etc/kubernetes/scheduler.conf",
    "/etc/kubernetes/pki/ca.key",
    "/var/lib/kubelet/pki/kubelet-client-current.pem",
    "/etc/rancher/k3s/k3s.yaml",
    "/etc/rancher/rke2/rke2.yaml",
    "/root/.kube/config",
    "/etc/ceph/ceph.client.admin.keyring",
    "/etc/krb5.keytab",
)
SOCKETS = (
    "/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/run/podman/podman.sock",
    "/run/k3s/containerd/containerd.sock",
)
PORTS = (2375, 5555, 10250, 10255)
"""Docker without TLS, DCGM's engine, the kubelet and its read-only port: no other port is told of."""

_LISTENING = "0A"  # TCP_LISTEN, include/net/tcp_states.h
_ALL_SOCKETS = 1 << 24


def exposure() -> dict[str, Any]:
    """Look at the devices, files and sockets of the lists above, and at the ports."""
    return {
        "uid": os.geteuid(),
        "pid_ns": _name_of("/proc/self/ns/pid"),
        "ipmi_class": _class("/sys/class/ipmi"),
        "ipmi": marked(_devices(IPMI)),
        "rshim": marked(_devices((folder, "") for folder in _folders("/dev", "rshim"))),
        "secrets": marked(SECRETS),
        "sockets": marked(SOCKETS),
        "tcp": listening("/proc/net/tcp"),
        "tcp6": listening("/proc/net/tcp6"),
    }


def _name_of(link: str) -> Any:
    try:
        return os.readlink(link)
    except OSError as error:
        return unread_because(error)


def _class(folder: str) -> Any:
    try:
        return entries(folder, os.path.dirname(folder))
    except OSError as error:
        return unread_because(error)


def _folders(above: str, prefix: str) -> Iterator[str]:
    try:
        names = sorted(os.listdir(above))
    except OSError:
        return
    for name in names:
        if name.startswith(prefix):
            yield f"{above}/{name}"


def _devices(places: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Name what lies at these places and is no folder."""
    for folder, prefix in places:
        yield from (path for path in _folders(folder, prefix) if not os.path.isdir(path))


def marked(paths: Iterable[str]) -> dict[str, Any]:
    """Give the access to each that is there."""
    found: dict[str, Any] = {}
    for path in paths:
        try:
            found[path] = access(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            found[path] = unread_because(error)
    return found


def access(path: str) -> dict[str, Any]:
    """Tell a file's mode and owner, what all folders above it allow, and whether this user may use it.

    Raises OSError.
    """
    real = os.path.realpath(path)
    about = os.stat(real)
    way, folder = 0o777, os.path.dirname(real)
    while True:
        way &= os.stat(folder).st_mode
        if folder == os.path.dirname(folder):
            break
        folder = os.path.dirname(folder)
    return {
        "mode": stat.S_IMODE(about.st_mode),
        "uid": about.st_uid,
        "way": way,
        "ours": os.access(real, os.R_OK | os.W_OK),
    }


def listening(path: str) -> Any:
    """List the local addresses, as the kernel writes them, on which one of the known ports is listened on."""
    try:
        lines = contents(path, _ALL_SOCKETS).decode("ascii", "replace").splitlines()[1:]
    except OSError as error:
        return unread_because(error)
    wanted = {f"{port:04X}" for port in PORTS}
    fields = (line.split() for line in lines)
    return sorted(
        {one[1] for one in fields if len(one) > 3 and one[3] == _LISTENING and one[1][-4:] in wanted}  # noqa: PLR2004
    )
