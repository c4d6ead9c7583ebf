"""What lies open on a node: its management controller, its DPU, its keys, and what runs containers."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from gpuassay.facts import host
from gpuassay.facts.source import document
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from gpuassay.facts.record import Record
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

BY_OTHERS = 0o006  # the mode's bits for everybody who is neither owner nor group
_READ_BY_OTHERS = 0o004
_WRITTEN_BY_OTHERS = 0o002
_PASSED_BY_OTHERS = 0o001  # of a folder

_FIRST_PID_NAMESPACE = "pid:[4026531836]"  # linux/nsfs.h: PID_NS_INIT_INO

# Ports by the documentation of what listens there: docs/thresholds.md.
_DOCKER, _HOSTENGINE, _KUBELET, _KUBELET_READ_ONLY = 2375, 5555, 10250, 10255
_ADDRESS = re.compile(r"(?:[0-9A-F]{8}|[0-9A-F]{32}):[0-9A-F]{4}")
_IPV6_LOOPBACK = "0" * 24 + "01000000"
_IPV4_MAPPED = "0" * 16 + "FFFF0000"

# Linux, drivers/net/ethernet/mellanox/mlx5/core/main.c; the last three are the rshim's own functions
# (Mellanox/rshim-user-space, src/rshim_pcie.c).
_BLUEFIELDS = frozenset({"0xa2d2", "0xa2d6", "0xa2dc", "0xa2df"})
_RSHIMS = frozenset({"0xc2d2", "0xc2d3", "0xc2d5"})
_MELLANOX = "0x15b3"


class Exposure:
    """Reads modes, owners and listened-on ports; from inside a container they are not the node's."""

    def __init__(self, evidence: Evidence) -> None:
        """Look at what the probe read; nothing was opened and nothing connected to."""
        self._evidence = evidence
        self._all = document(evidence, "exposure")
        self._pci = document(evidence, "pci", missing="not_found")
        self._net = document(evidence, "net", missing="not_found")

    # --- the management controller ---------------------------------------------------------------

    @property
    def ipmi_open_to_users(self) -> Fact[int]:
        """How many IPMI devices others than root can open."""
        return self._open("ipmi", "no IPMI device is there")

    @property
    def ipmi_open_to_root(self) -> Fact[int]:
        """How many IPMI devices there are at all: root can open each."""
        found = self._accesses("ipmi")
        return found if isinstance(found, Unread) else _counted(found.value, found.evidence, "")

    # --- the DPU ---------------------------------------------------------------------------------

    @property
    def has_dpu(self) -> Fact[bool]:
        """Whether the PCI bus shows a BlueField that this node is a host of, and not itself."""
        product = document(self._evidence, "dmi", missing="not_found").text("product_name")
        if isinstance(product, Read) and "BlueField" in product.value:
            return Read(value=False, evidence=product.evidence, note="it is a DPU itself")
        found = self._functions(_BLUEFIELDS | _RSHIMS)
        if isinstance(found, Unread):
            return found
        return Read(bool(found.value), found.evidence, found.note or "no BlueField on the PCI bus")

    @property
    def rshim_functions(self) -> Fact[int]:
        """How many functions on the PCI bus lead to a DPU's own processor and boot image."""
        return self._functions(_RSHIMS)

    @property
    def rshim_open_to_users(self) -> Fact[int]:
        """How many of rshim's devices others than root can open."""
        return self._open("rshim", "no rshim device is there")

    @property
    def rshim_networks(self) -> Fact[int]:
        """How many network interfaces lead into a DPU."""
        unread = self._outside or self._net.unread
        if unread:
            return unread
        if not any(True for _ in self._net.items()):
            return Unread("garbled", "not one network interface was recorded", self._net.evidence)
        found = [name for name, _ in self._net.items() if re.fullmatch(r"tmfifo_net\d{1,3}", name)]
        return _counted(found, self._net.evidence, "")

    # --- keys, and what starts containers --------------------------------------------------------

    @property
    def readable_secrets(self) -> Fact[int]:
        """How many of the known key files everybody on the node can read or write."""
        found = self._accesses("secrets", closed_to_us=True)
        if isinstance(found, Unread):
            return found
        if not found.value:
            why = "none of the key files is here, not even sshd's: this is not the node's own file system"
            return Unread("denied", why, found.evidence)
        exposed = [path for path, one in found.value.items() if allows(one, BY_OTHERS)]
        return _counted(exposed, found.evidence, f"{len(found.value)} key files, none open to everybody")

    @property
    def writable_sockets(self) -> Fact[int]:
        """How many sockets of container runtimes everybody on the node can connect to."""
        found = self._accesses("sockets", closed_to_us=True)
        if isinstance(found, Unread):
            return found
        exposed = [path for path, one in found.value.items() if allows(one, _WRITTEN_BY_OTHERS)]
        return _counted(exposed, found.evidence, "no socket of a container runtime is open to everybody")

    @property
    def unauthenticated_ports(self) -> Fact[int]:
        """How many services that ask nobody who he is listen: Docker without TLS, the kubelet read-only.

        The latter is the kubelet's only where the kubelet's own port is listened on too.
        """
        ports = self._ports
        if isinstance(ports, Unread):
            return ports
        found = [f"Docker's port {_DOCKER} without TLS"] if _DOCKER in ports.value else []
        if {_KUBELET, _KUBELET_READ_ONLY} <= ports.value.keys():
            found.append(f"the kubelet's read-only port {_KUBELET_READ_ONLY}")
        return _counted(found, ports.evidence, "neither Docker without TLS nor the kubelet's read-only port")

    @property
    def open_hostengines(self) -> Fact[int]:
        """How many ports of DCGM's engine are listened on for other machines."""
        ports = self._ports
        if isinstance(ports, Unread):
            return ports
        remote = ports.value.get(_HOSTENGINE, False)
        found = [f"port {_HOSTENGINE}, DCGM's, on more than the loopback"] if remote else []
        return _counted(found, ports.evidence, "")

    # --- reading ---------------------------------------------------------------------------------

    @cached_property
    def _outside(self) -> Unread | None:
        """Say that the probe ran in a container, where the node's files and sockets are not seen."""
        runtime = host.container(self._evidence)
        namespace = self._all.text("pid_ns", r"pid:\[\d{1,12}\]")
        if not runtime and isinstance(namespace, Read) and namespace.value != _FIRST_PID_NAMESPACE:
            runtime = "a PID namespace of its own"
        if runtime:
            return Unread("denied", f"seen from inside a container ({runtime})", self._all.evidence)
        return None

    def _accesses(self, key: str, *, closed_to_us: bool = False) -> Fact[dict[str, Record]]:
        """Take the files of a list.

        With ``closed_to_us``, one that an unprivileged user may not even look at counts as closed.
        """
        uid, listed = self._all.count("uid"), self._all.record(key)
        unread = listed.unread or (uid if isinstance(uid, Unread) else None) or self._outside
        if unread:
            return unread
        found = {}
        for path, one in listed.items():
            shut = one.unread
            if shut and not (shut.kind == "denied" and closed_to_us and _is_user(uid)):
                return Unread(shut.kind, f"{brief(path)}: {shut.why}", shut.evidence)
            odd = None if shut else _odd(one)
            if odd:
                return Unread(odd.kind, f"{brief(path)}: {odd.why}", odd.evidence)
            found[path] = one
        return Read(found, listed.evidence)

    def _open(self, key: str, none: str) -> Fact[int]:
        found, uid = self._accesses(key), self._all.count("uid")
        if isinstance(found, Unread):
            return found
        exposed = [
            path
            for path, one in found.value.items()
            if allows(one, BY_OTHERS) or (_is_user(uid) and one.flag("ours") == Read(True, one.evidence))  # noqa: FBT003
        ]
        return _counted(exposed, found.evidence, "for root alone" if found.value else none)

    def _functions(self, products: Container[str]) -> Fact[int]:
        if self._pci.unread:
            return self._pci.unread
        found = []
        for address, one in self._pci.items():
            vendor = one.text("vendor")
            if isinstance(vendor, Read) and vendor.value.lower() == _MELLANOX:
                device = one.text("device")
                if isinstance(device, Unread):
                    return Unread(
                        device.kind, f"PCI function {brief(address)}: {device.why}", device.evidence
                    )
                found += [address] if device.value.lower() in products else []
        return _counted(found, self._pci.evidence, "")

    @cached_property
    def _ports(self) -> Fact[dict[int, bool]]:
        """Give the ports that are listened on, and whether for more than the loopback."""
        if self._all.unread or self._outside:
            return self._all.unread or self._outside or Unread("garbled", "")
        found: dict[int, bool] = {}
        for key in ("tcp", "tcp6"):
            listed = self._all.look(key)
            if isinstance(listed, Unread):
                if key == "tcp6" and listed.kind == "not_found":  # a kernel without IPv6
                    continue
                return listed
            if not isinstance(listed.value, list):
                return self._all.garbled(key, listed.value, "a list")
            for address in listed.value:
                if not isinstance(address, str) or not _ADDRESS.fullmatch(address):
                    return self._all.garbled(key, address, "an address and port of the kernel's list")
                port = int(address[-4:], 16)
                found[port] = found.get(port, False) or not _is_loopback(address[:-5])
        return Read(found, self._all.evidence)


def _odd(one: Record) -> Unread | None:
    facts: Iterator[Fact[object]] = iter(
        (one.count("mode", 0o7777), one.count("uid"), one.count("way", 0o777), one.flag("ours"))
    )
    return next((fact for fact in facts if isinstance(fact, Unread)), None)


def allows(one: Record, bits: int) -> bool:
    """Tell whether everybody may do one of these things: the file and all folders above it must allow it."""
    mode, way = one.count("mode"), one.count("way")
    if isinstance(mode, Unread) or isinstance(way, Unread):
        return False  # nobody but root may even look: it was told apart before
    return bool(mode.value & bits and way.value & _PASSED_BY_OTHERS)


def _is_user(uid: Fact[int]) -> bool:
    return isinstance(uid, Read) and uid.value != 0


def _is_loopback(address: str) -> bool:
    """Tell it by the kernel's spelling: each 32-bit word in the byte order of the machine, little-endian."""
    if len(address) > 8 and address.startswith(_IPV4_MAPPED):  # noqa: PLR2004 - digits of an IPv4 address
        address = address[-8:]
    return address == _IPV6_LOOPBACK or (len(address) == 8 and address.endswith("7F"))  # noqa: PLR2004


def _counted(found: Iterable[str], evidence: str, none: str) -> Fact[int]:
    names = sorted(found)
    return Read(len(names), evidence, brief(", ".join(names)) if names else none)
