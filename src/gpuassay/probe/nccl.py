"""Settings of the collective library that were left where every job finds them, and what it would load."""

# Importing pathlib takes longer than all that is read here:
# ruff: noqa: PTH110, PTH118, PTH208
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from gpuassay.probe.answer import unread_because
from gpuassay.probe.files import head

if TYPE_CHECKING:
    from collections.abc import Mapping

NAMES = frozenset(
    """
    NCCL_ALGO NCCL_ALLOC_P2P_NET_LL_BUFFERS NCCL_BUFFSIZE NCCL_CHECKS_DISABLE NCCL_CHECK_POINTERS
    NCCL_COLLNET_ENABLE NCCL_CONF_FILE NCCL_CROSS_NIC NCCL_CUMEM_ENABLE NCCL_CUMEM_HOST_ENABLE
    NCCL_DEBUG NCCL_DEBUG_SUBSYS NCCL_DMABUF_ENABLE NCCL_GDRCOPY_ENABLE NCCL_GRAPH_FILE
    NCCL_IB_ADAPTIVE_ROUTING NCCL_IB_ADDR_FAMILY NCCL_IB_ADDR_RANGE NCCL_IB_AR_THRESHOLD
    NCCL_IB_CUDA_SUPPORT NCCL_IB_DISABLE NCCL_IB_FIFO_TC NCCL_IB_GID_INDEX NCCL_IB_HCA
    NCCL_IB_MERGE_NICS NCCL_IB_PCI_RELAXED_ORDERING NCCL_IB_PKEY NCCL_IB_QPS_PER_CONNECTION
    NCCL_IB_RETRY_CNT NCCL_IB_ROCE_VERSION_NUM NCCL_IB_SL NCCL_IB_SPLIT_DATA_ON_QPS NCCL_IB_TC
    NCCL_IB_TIMEOUT NCCL_IGNORE_CPU_AFFINITY NCCL_LAUNCH_MODE NCCL_MAX_CTAS NCCL_MAX_NCHANNELS
    NCCL_MIN_CTAS NCCL_MIN_NCHANNELS NCCL_MNNVL_CLIQUE_ID NCCL_MNNVL_ENABLE NCCL_NET
    NCCL_NET_GDR_C2C NCCL_NET_GDR_LEVEL NCCL_NET_GDR_READ NCCL_NET_PLUGIN NCCL_NTHREADS
    NCCL_NVLS_ENABLE NCCL_P2P_DISABLE NCCL_P2P_LEVEL NCCL_P2P_NET_CHUNKSIZE NCCL_PROTO
    NCCL_PXN_DISABLE NCCL_SHM_DISABLE NCCL_SOCKET_FAMILY NCCL_SOCKET_IFNAME NCCL_TOPO_FILE
    NCCL_TUNER_PLUGIN NVSHMEM_IB_GID_INDEX UCX_IB_GID_INDEX UCX_NET_DEVICES UCX_TLS
    """.split()  # noqa: SIM905 - a list that people read
)
"""The only names whose values are read, in the environment and in files: what else is there stays there."""

SYSTEM_FILE = "/etc/nccl.conf"
TOPOLOGY = "NCCL_TOPO_FILE"
_LARGEST_FILE = 1 << 16
_FOLDERS = (
    "/usr/lib",
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/local/lib",
    "/usr/local/gib/lib64",
    "/opt/amazon/ofi-nccl/lib",
    "/opt/hpcx/nccl_rdma_sharp_plugin/lib",
    "/opt/hpcx/nccl_spectrum-x_plugin/lib",
    "/opt/rocm/lib",
)
_PLUGIN = ("libnccl-net", "librccl-net")


def nccl() -> dict[str, Any]:
    """Read them from this process's environment, the user's file and the system's."""
    return found(os.environ, SYSTEM_FILE)


def settings(given: Mapping[str, str]) -> dict[str, str]:
    """Choose from an environment what may be read of it."""
    return {name: given[name] for name in sorted(given) if name in NAMES}


def found(given: Mapping[str, str], system_file: str) -> dict[str, Any]:
    """Read settings, files in the order in which the library takes them; the first that sets a name wins."""
    environment = settings(given)
    own = environment.get("NCCL_CONF_FILE") or os.path.join(given.get("HOME", "/"), ".nccl.conf")
    files = [_file(path) for path in (own, system_file)]
    values = [environment, *(dict(file["settings"]) for file in files if "settings" in file)]
    topology = next((value[TOPOLOGY] for value in values if TOPOLOGY in value), "")
    return {
        "environment": environment,
        "files": [file for file in files if file],
        **({"topology_file": {"path": topology, "there": os.path.exists(topology)}} if topology else {}),
        "plugins": [path for path in _plugins(given) if path],
    }


def _file(path: str) -> dict[str, Any]:
    try:
        lines = head(path, _LARGEST_FILE).splitlines()
    except FileNotFoundError:
        return {}
    except OSError as error:
        return {"path": path, **unread_because(error)}
    # As the library reads it: a line that begins with # is a comment, and only there.
    pairs = (line.partition("=") for line in lines if not line.startswith("#"))
    return {
        "path": path,
        "settings": [[name, value] for name, mark, value in pairs if mark and name in NAMES],
    }


def _plugins(given: Mapping[str, str]) -> list[str]:
    """List plugins, those on the library path first: one that is found there is loaded unasked."""
    path = [folder for folder in given.get("LD_LIBRARY_PATH", "").split(":") if folder.startswith("/")]
    paths = []
    for folder in dict.fromkeys((*path, *_FOLDERS)):
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        paths += [f"{folder}/{name}" for name in names if name.startswith(_PLUGIN) and name.endswith(".so")]
    return paths
