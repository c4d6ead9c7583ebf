"""Folders below /sys, each read into one document of plain attributes."""

# Importing pathlib takes longer than all that is read here:
# ruff: noqa: PTH112, PTH120, PTH208
from __future__ import annotations

import errno
import os
import re
from typing import Any

from gpuassay.probe.answer import unread_because
from gpuassay.probe.files import attributes, contents, entries, link_name, pci_addresses

_DMI = ("sys_vendor", "product_name", "board_vendor", "bios_version", "chassis_type")
_PCI = (
    "vendor",
    "device",
    "subsystem_vendor",
    "subsystem_device",
    "class",
    "revision",
    "current_link_speed",
    "current_link_width",
    "max_link_speed",
    "max_link_width",
    "power_state",
    "numa_node",
)
# Advanced Error Reporting, counted by the kernel since it found the device; read for what carries traffic:
# GPUs, network cards and bridges. Where nobody counts, as in most virtual machines, there are no such files.
_AER = ("aer_dev_correctable", "aer_dev_nonfatal", "aer_dev_fatal")
_ZERO = re.compile("TOTAL_ERR_[A-Z]+ 0")
_AER_CLASSES = ("0x02", "0x03", "0x12", "0x0604")
_RDMA = ("fw_ver", "hca_type", "board_id", "node_guid")
_RDMA_PORT = ("state", "phys_state", "rate", "link_layer", "lid", "sm_lid", "cap_mask")
# Of many counters, those that tell of a bad link or a crowded fabric. Traffic is not among them.
_COUNTERS = (
    "symbol_error",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_xmit_discards",
    "port_xmit_wait",
)
_HW_COUNTERS = (
    "out_of_sequence",
    "packet_seq_err",
    "local_ack_timeout_err",
    "rnr_nak_retry_err",
    "implied_nak_seq_err",
    "duplicate_request",
    "rx_icrc_encapsulated",
    "roce_adp_retrans",
    "np_cnp_sent",
    "rp_cnp_handled",
)
_NET = ("operstate", "mtu", "speed", "carrier_down_count")
_MODULES = ("nvidia_peermem", "nv_peer_mem", "gdrdrv", "amdgpu", "ib_peer_mem")
_BRIDGE = "MT4129"  # ConnectX-7
_LARGEST_VPD = 1 << 12

# A slot of a GID table that is empty, or belongs to another network namespace, answers EINVAL
# (NVIDIA/nccl#1573, #1427); so does the speed of an interface that has none.
_EMPTY = (errno.ENOENT, errno.EINVAL)


def dmi(root: str) -> dict[str, Any]:
    """Read what the firmware says of the machine. Raises OSError."""
    os.listdir(root)
    return attributes(root, _DMI)


def pci(root: str) -> dict[str, Any]:
    """Read all PCI devices, by address; none at all where this machine has no PCI bus. Raises OSError."""
    bus = os.path.dirname(os.path.dirname(root))
    return {address: _pci_device(f"{root}/{address}") for address in entries(root, bus)}


def _pci_device(folder: str) -> dict[str, Any]:
    device = attributes(folder, _PCI)
    if str(device.get("class")).startswith(_AER_CLASSES):
        device["aer"] = _errors(attributes(folder, _AER))
    driver, above = link_name(f"{folder}/driver"), pci_addresses(folder)[:-1]
    if driver:
        device["driver"] = driver
    if above:
        device["parent"] = above[-1]
    return device


def _errors(counts: dict[str, Any]) -> Any:
    """Keep of some sixty counts, such as ``BadTLP 3``, the totals and what is not zero; 0 where all are."""
    kept = {name: _above_zero(text) for name, text in counts.items()}
    return 0 if len(kept) == len(_AER) and all(map(_ZERO.fullmatch, map(str, kept.values()))) else kept


def _above_zero(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    return "\n".join(
        line for line in text.splitlines() if line.startswith("TOTAL") or not line.endswith(" 0")
    )


def infiniband(root: str) -> dict[str, Any]:
    """Read all RDMA devices; none where the kernel has no such class. Raises OSError."""
    return {name: _rdma_device(f"{root}/{name}") for name in entries(root, os.path.dirname(root))}


def _rdma_device(folder: str) -> dict[str, Any]:
    device = attributes(folder, _RDMA)
    device.update(_pci_of(folder))
    if os.path.lexists(f"{folder}/device/physfn"):
        device["virtual_function"] = True
    try:
        ports = sorted(os.listdir(f"{folder}/ports"))
    except OSError as error:
        return {**device, "ports": unread_because(error)}
    found = {port: _rdma_port(f"{folder}/ports/{port}") for port in ports}
    if device.get("hca_type") == _BRIDGE and any(
        port.get("link_layer") == "InfiniBand" for port in found.values()
    ):
        device["manages_nvswitch"] = _manages_nvswitch(folder)
    return {**device, "ports": found}


def _manages_nvswitch(folder: str) -> Any:
    """Tell whether an adapter is the bridge to the NVSwitches of an HGX board, by a mark in its product data.

    NVIDIA's fabric manager finds its devices by the same mark. Of the data nothing else is kept.
    """
    try:
        return b"SMDL=SW_MNG" in contents(f"{folder}/device/vpd", _LARGEST_VPD)
    except OSError as error:
        return unread_because(error)


def _rdma_port(folder: str) -> dict[str, Any]:
    port = attributes(folder, _RDMA_PORT)
    for group, names in (("counters", _COUNTERS), ("hw_counters", _HW_COUNTERS)):
        port[group] = attributes(f"{folder}/{group}", names, _EMPTY)
    port["pkeys"] = _pkeys(f"{folder}/pkeys")
    try:
        slots = sorted(os.listdir(f"{folder}/gids"), key=int)
    except OSError as error:
        return {**port, "gids": unread_because(error)}
    gids = attributes(f"{folder}/gids", slots, _EMPTY)
    gids = {slot: gid for slot, gid in gids.items() if not _is_zero(gid)}
    return {
        **port,
        "gids": gids,
        "types": attributes(f"{folder}/gid_attrs/types", gids, _EMPTY),
        "ndevs": attributes(f"{folder}/gid_attrs/ndevs", gids, _EMPTY),
    }


def _pkeys(folder: str) -> dict[str, Any]:
    """Read the partitions of a port; Ethernet has a table of one, and an empty place is 0x0000."""
    try:
        keys = attributes(folder, sorted(os.listdir(folder), key=int), _EMPTY)
    except OSError as error:
        return unread_because(error)
    return {slot: key for slot, key in keys.items() if key != "0x0000"}


def _is_zero(gid: Any) -> bool:
    return isinstance(gid, str) and not gid.strip("0:")


def net(root: str) -> dict[str, Any]:
    """Read all network interfaces of this network namespace. Raises OSError."""
    names = (name for name in sorted(os.listdir(root)) if os.path.isdir(f"{root}/{name}"))
    return {name: _interface(f"{root}/{name}") for name in names}


def _interface(folder: str) -> dict[str, Any]:
    return {**attributes(folder, _NET, _EMPTY), **_pci_of(folder)}


def modules(root: str) -> dict[str, Any]:
    """Name the modules for GPUDirect that are loaded, with their versions. Raises OSError."""
    return {
        name: attributes(f"{root}/{name}", ("version",))
        for name in entries(root, os.path.dirname(root))
        if name in _MODULES
    }


def _pci_of(folder: str) -> dict[str, str]:
    """Name the PCI device behind a class device; a virtio interface sits one step below its own."""
    addresses = pci_addresses(f"{folder}/device")
    return {"pci": addresses[-1]} if addresses else {}
