"""What exporters call the metrics of GPUs, which of them matter, and which rules of alerts look at what.

Names: NVIDIA/dcgm-exporter, etc/default-counters.csv and etc/dcp-metrics-included.csv;
utkuozdemir/nvidia_gpu_exporter, docs/METRICS.md; ROCm/device-metrics-exporter,
docs/configuration/metricslist.md: in small letters, and with ``amd_`` before them where it is so configured.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from gpuassay.facts.pci import AMD, NVIDIA
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.names import first_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from gpuassay.facts.gpu import Gpu
    from gpuassay.facts.node import Node
    from gpuassay.judge.fact import Fact

ANY = "DCGM_(FI|EXP)_.+|nvidia_smi_.+|(amd_)?(gpu|pcie|xgmi)_.+"
"""A pattern of the names of all metrics of GPUs, as Prometheus reads patterns: from end to end."""

TEMPERATURES = (
    "DCGM_FI_DEV_GPU_TEMP",
    "nvidia_smi_temperature_gpu",
    *(f"{prefix}gpu_{place}_temperature" for prefix in ("", "amd_") for place in ("junction", "edge")),
)
"""Each GPU has one of these, whatever the exporter."""

ACTIVITY = "DCGM_FI_DEV_GPU_UTIL|nvidia_smi_utilization_gpu_ratio|(amd_)?gpu_gfx_activity"
JOB_LABELS = ("hpc_job", "job_id", "jobid", "slurm_job_id")

_UNIQUE = ("UUID", "uuid", "gpu_uuid", "serial_number")
_OF_NODE = ("Hostname", "hostname")
_ORDINAL = ("gpu", "gpu_id")
IDENTITIES = (*_UNIQUE, *_OF_NODE, *_ORDINAL)
"""The labels that tell GPUs apart: world-wide, by node, and in a node."""

FAULTS: Mapping[str, Mapping[str, str]] = {
    NVIDIA: {
        "XID errors": r"DCGM_FI_DEV_XID_ERRORS|DCGM_EXP_XID_ERRORS_COUNT",
        "row remaps": r"(DCGM_FI_DEV|nvidia_smi)_.*(REMAP|remap).*",
        "temperature": r"DCGM_FI_DEV_GPU_TEMP|nvidia_smi_temperature_gpu",
        "power": r"DCGM_FI_DEV_POWER_USAGE|nvidia_smi_(average_)?power_draw.*",
        "PCIe replays": r"DCGM_FI_DEV_PCIE_REPLAY_COUNTER(_total)?|nvidia_smi_pcie_replay.*",
    },
    AMD: {
        "health": r"(amd_)?gpu_(health|afid_errors)",
        "ECC errors": r"(amd_)?gpu_ecc_uncorrect_total",
        "temperature": r"(amd_)?gpu_(junction|edge)_temperature",
        "power": r"(amd_)?gpu_((average_)?package_power|power_usage)",
        "PCIe replays": r"(amd_)?pcie_replay_count",
    },
}
"""What says that a GPU is sick; DCGM's exporter and AMD's serve all of it unless told otherwise."""

WORK: Mapping[str, Mapping[str, str]] = {
    NVIDIA: {
        "ECC errors": r"DCGM_FI_DEV_ECC_\w+|nvidia_smi_ecc_\w+",
        "SM activity (DCGM_FI_PROF_SM_ACTIVE)": r"DCGM_FI_PROF_SM_ACTIVE",
        "tensor activity (DCGM_FI_PROF_PIPE_TENSOR_ACTIVE)": r"DCGM_FI_PROF_PIPE_TENSOR\w*_ACTIVE",
        "memory activity (DCGM_FI_PROF_DRAM_ACTIVE)": r"DCGM_FI_PROF_DRAM_ACTIVE",
        "NVLink": r"DCGM_FI_(DEV|PROF)_NVLINK_\w+",
    },
    AMD: {
        "activity": r"(amd_)?gpu_(gfx_activity|prof_sm_active)",
        "matrix activity": r"(amd_)?gpu_prof_tensor_active_percent",
        "memory activity": r"(amd_)?gpu_umc_activity",
        "XGMI": r"(amd_)?(gpu_)?xgmi_\w+",
    },
}
"""What says how well a GPU is used, and what ails it slowly; some of it an operator has to switch on."""

TOPICS: Mapping[str, str] = {
    "faults": r"DCGM_FI_DEV_XID_ERRORS|DCGM_EXP_XID_ERRORS_COUNT|(amd_)?gpu_(health|afid_errors)"
    r"|problem_(gauge|counter)",
    "memory": r"DCGM_FI_DEV_ECC_\w+|DCGM_FI_DEV_\w*REMAP\w*|DCGM_FI_DEV_RETIRED_\w+"
    r"|nvidia_smi_(ecc|remapped)_\w+|(amd_)?gpu_ecc_\w+",
    "down": r"up|DCGM_FI_DEV_COUNT|(amd_)?gpu_nodes_total|kube_node_status_condition|slurm_node\w*"
    r"|node_boot_time_seconds|probe_success",
    "links": r"(node_)?infiniband_\w+|node_network_(up|carrier\w*)|node_ethtool_\w+|rdma_\w+|ufm_\w+"
    r"|(amd_)?nic_\w+",
}
"""What alerts have to watch, by the metrics that their rules ask for."""

_TEXT = re.compile(r"""(__name__\s*=~?\s*)?("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`)""")
_WORD = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")


def missing(names: Collection[str], fields: Mapping[str, str], evidence: str) -> Read[int]:
    """Count the fields for which none of these names stands; the note lists them."""
    absent = [
        field for field, names_of in fields.items() if not any(re.fullmatch(names_of, one) for one in names)
    ]
    return Read(len(absent), evidence, f"missing: {', '.join(absent)}" if absent else "")


def queried(query: str) -> frozenset[str]:
    """Name what a query asks for: its words, without the texts in it but those that name metrics.

    What is a metric's name cannot be told from a function's; it does no harm.
    """
    plain = _TEXT.sub(lambda text: text[2].replace("|", " ") if text[1] else "", query)
    return frozenset(_WORD.findall(plain))


def about(topic: str, names: Iterable[str]) -> bool:
    """Tell whether one of these names is of a topic."""
    return any(re.fullmatch(TOPICS[topic], name) for name in names)


def is_gpu_query(query: str) -> bool:
    """Tell whether a query asks for a metric of GPUs."""
    return any(re.fullmatch(ANY, name) for name in queried(query))


class Shown:
    """The GPUs that some series show, by their labels."""

    def __init__(self, series: Iterable[Mapping[str, str]]) -> None:
        """Take the labels of one series for each GPU."""
        self._series = list(series)
        self._by_identity: dict[str, set[int]] = defaultdict(set)
        self._by_host: dict[str, set[int]] = defaultdict(set)
        for index, one in enumerate(self._series):
            for key in _UNIQUE:
                if one.get(key):
                    self._by_identity[_plain(one[key])].add(index)
            self._by_host[short(next((one[key] for key in _OF_NODE if one.get(key)), ""))].add(index)

    def lacking(self, node: str, gpus: Collection[Gpu]) -> list[str]:
        """Name the GPUs of a node that are not shown.

        Where an identity is not known, or is AMD's, which is written in several ways, they are counted.
        """
        nameless = [gpu for gpu in gpus if not _identities(gpu)]
        absent = [gpu for gpu in gpus if _identities(gpu) and not self._found(gpu)]
        if all(gpu.vendor == AMD for gpu in absent):
            nameless, absent = [*nameless, *absent], []
        spare = self._of_host(node).difference(*map(self._found, gpus))
        places = {tuple(self._series[index].get(key, "") for key in _ORDINAL) for index in spare}
        return [gpu.where for gpu in (*absent, *nameless[len(places) :])]

    def of(self, node: str, gpus: Collection[Gpu]) -> set[int]:
        """Give the positions of the series that show the GPUs of a node."""
        return self._of_host(node).union(*map(self._found, gpus))

    def _found(self, gpu: Gpu) -> set[int]:
        return set().union(*(self._by_identity.get(one, ()) for one in _identities(gpu)))

    def _of_host(self, node: str) -> set[int]:
        """Give the series of a host, or, where none is named, those of the one page that was asked for."""
        return self._by_host.get(short(node), set()) | self._by_host.get("", set())


def counted(shown: Shown, node: Node, evidence: str) -> Fact[int]:
    """Count the GPUs of a node that are not shown; the note names them."""
    gpus = node.gpus
    if not gpus:
        return Unread("not_found", "no GPU of this node is known, so none can be missed", evidence)
    absent = shown.lacking(node.name, gpus)
    note = f"{len(gpus) - len(absent)} of {len(gpus)}; missing: {first_of(absent)}" if absent else ""
    return Read(len(absent), evidence, note)


def short(name: str) -> str:
    """Give a host's name without its domain."""
    return name.partition(".")[0].lower()


def _identities(gpu: Gpu) -> set[str]:
    return {_plain(fact.value) for fact in (gpu.uuid, gpu.serial) if isinstance(fact, Read)}


def _plain(identity: str) -> str:
    return identity.lower().removeprefix("gpu-").removeprefix("0x").replace("-", "")
