"""Who may open what on a recorded node: as the distributions' packages set it up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recorded.items import library

if TYPE_CHECKING:
    from gpuassay.evidence.item import Item

FIRST_PID_NAMESPACE = "pid:[4026531836]"


def item(*, virtual: bool) -> Item:
    """Return what is told of a node in good order: a physical one has an IPMI device, for root alone."""
    host_keys = {f"/etc/ssh/ssh_host_{kind}_key": access(0o600) for kind in ("ecdsa", "ed25519", "rsa")}
    munge = {} if virtual else {"/etc/munge/munge.key": access(0o400, uid=998, way=0o700)}
    told = {
        "uid": 0,
        "pid_ns": FIRST_PID_NAMESPACE,
        "ipmi_class": [] if virtual else ["ipmi0"],
        "ipmi": {} if virtual else {"/dev/ipmi0": access(0o600)},
        "rshim": {},
        "secrets": host_keys | munge,
        "sockets": {"/run/containerd/containerd.sock": access(0o660, way=0o711)},
        "tcp": [] if virtual else ["0100007F:15B3"],
        "tcp6": [],
    }
    return library("exposure", "access", told)


def virtualization(machine: str, *, virtual: bool) -> Item:
    """Return what could run virtual machines: a guest cannot nest, and metal leaves /dev/kvm to a group."""
    flag: Any = {"unread": "not_found", "why": "this architecture has no flag for it"}
    extensions = not virtual if machine == "x86_64" else flag
    device = {} if virtual else {"/dev/kvm": access(0o660)}
    return library("virtualization", "virtualization", {"extensions": extensions, "device": device})


def access(mode: int, uid: int = 0, way: int = 0o755) -> dict[str, Any]:
    """Return the access to one file, as root is told it."""
    return {"mode": mode, "uid": uid, "way": way, "ours": True}
