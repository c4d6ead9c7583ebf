"""Real outputs, where a folder of them is at hand: none makes a reader raise, and none is lost in silence."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from facts_evidence import absent, node, unread, value
from gpuassay.judge.fact import Unread

SAMPLES = Path(os.environ.get("GPUASSAY_SAMPLES", Path(__file__).parents[2] / "shared"))
LOGS = sorted(SAMPLES.glob("captures/nvidia-smi-xml/*.xml"))

pytestmark = pytest.mark.skipif(not LOGS, reason=f"no samples in {SAMPLES}: set GPUASSAY_SAMPLES")


def read(log: Path | bytes) -> Any:
    """Read a node of which only nvidia-smi answered."""
    printed = log if isinstance(log, bytes) else log.read_bytes()
    return node({"nvml": absent("not_found", "no library"), "nvidia-smi-xml": printed, "pci": {}})


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.stem)
def test_every_log_is_read(log: Path) -> None:
    """Each GPU that the tool counts is a subject, with its identity and link, whatever the driver's age."""
    sample = read(log)
    text = log.read_text()
    counted = int(text.partition("<attached_gpus>")[2].partition("<")[0])
    listed = text.count("<gpu id=")
    assert len(sample.gpus) == value(sample.gpus_in_driver) == counted
    assert value(sample.driver_version) in text
    for gpu in sample.gpus[:listed]:
        assert value(gpu.name) in text
        assert value(gpu.uuid) in text
        assert value(gpu.ecc_current) is True
        assert value(gpu.pstate) in (0, 8)
    for gpu in sample.gpus[listed:]:
        assert f"counts {counted} GPUs and lists {listed}" in unread(gpu.name).why


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.stem)
def test_how_each_gpu_is_set_is_read(log: Path) -> None:
    """Memory, power, clocks and firmware, whatever the driver's age; of a lost GPU that it is lost."""
    text = log.read_text()
    for gpu in read(log).gpus[: text.count("<gpu id=")]:
        if isinstance(gpu.memory_mib, Unread):
            assert "GPU is lost" in gpu.memory_mib.why
            continue
        assert f"{value(gpu.memory_mib)} MiB" in text
        assert f"{value(gpu.power_limit_w):.2f} W" in text
        assert value(gpu.power_limit_w) == value(gpu.power_default_w)
        assert value(gpu.vbios) in text
        assert value(gpu.pcie_gen_max) in (3, 4, 5, 6)
        assert value(gpu.clock_max_mhz) >= 1410
        assert isinstance(gpu.clock_limit_mhz, Unread) or gpu.clock_limit_mhz == gpu.clock_default_mhz


def lanes(name: str) -> list[tuple[int, int]]:
    """Read the links of a log."""
    sample = read(SAMPLES / "captures/nvidia-smi-xml" / name)
    return [(value(gpu.pcie_width), value(gpu.pcie_width_max)) for gpu in sample.gpus]


def test_links_are_read_whatever_they_are() -> None:
    """Two cloud machines have half their lanes; the others all."""
    assert lanes("qx_b200.xml") == [(16, 16)] * 8
    assert lanes("qx_gb300.xml") == [(16, 16)] * 4
    assert lanes("qx_a10g_515.xml") == lanes("qx_t4.xml") == [(8, 16)]


def test_a_lost_gpu_is_found_in_its_log() -> None:
    """The driver keeps names and links of a GPU that it has lost; the other one is whole."""
    sample = read(SAMPLES / "captures/nvidia-smi-xml/mock_qx_gb200_lost.xml")
    first, lost = sample.gpus
    assert (value(first.remap_pending), value(first.remap_failed)) == (False, True)
    assert unread(first.remap_banks_exhausted).kind == "unsupported"
    assert unread(lost.remap_pending).kind == "failed"
    assert "GPU is lost" in unread(lost.remap_failed).why
    assert unread(lost.pcie_width).kind == "failed"


def test_row_remaps_are_read_or_unsupported() -> None:
    """A T4 has none; an A100 with MIG does not tell, and says why; Hopper and later count their banks."""
    kinds = {"qx_t4.xml": "unsupported", "qx_a100_mig_535.xml": "denied"}
    for name, kind in kinds.items():
        fact = read(SAMPLES / "captures/nvidia-smi-xml" / name).gpus[0].remap_pending
        assert unread(fact).kind == kind
    for name in ("qx_b200.xml", "qx_gb200.xml", "qx_gb300.xml", "qx_a10g_515.xml"):
        gpus = read(SAMPLES / "captures/nvidia-smi-xml" / name).gpus
        assert {value(gpu.remap_banks_exhausted) for gpu in gpus} == {0}
        assert {value(gpu.remap_pending) for gpu in gpus} == {False}


def test_the_fabric_of_every_log() -> None:
    """A board has no cluster, a rack has one; one GPU has an unhealthy route, one is lost."""
    logs = {log.stem: read(log) for log in LOGS}
    for name in ("qx_b200", "qx_gb200", "qx_gb300"):
        for gpu in logs[name].gpus:
            assert (value(gpu.fabric.state), value(gpu.fabric.status)) == ("completed", "success")
            assert (value(gpu.fabric.faults), value(gpu.fabric.unsettled)) == ("none", "none")
    assert value(logs["qx_b200"].rack.outside) == 8
    assert value(logs["qx_gb300"].rack.domain) == "00000001-0000-0000-0000-000000000001.32766"
    degraded = [value(gpu.fabric.faults) for gpu in logs["mock_qx_gb200_fabric-degraded"].gpus]
    assert degraded[0] == "none"
    assert "unhealthy" in degraded[1]
    assert unread(logs["mock_qx_gb200_lost"].gpus[1].fabric.state).kind == "failed"
    assert unread(logs["qx_a100"].gpus[0].fabric.state).kind == "unsupported"
    shows = {
        name: [getattr(log.shows(need), "value", None) for need in ("nvswitch", "nvl72")]
        for name, log in logs.items()
    }
    assert shows["qx_gb300"] == shows["qx_gb200"] == [True, True]
    assert shows["qx_b200"] == [True, False]
    assert shows["qx_a100"] == shows["qx_t4"] == shows["qx_a10g_515"] == [False, False]


@pytest.mark.parametrize("share", [3, 7, 11])
@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.stem)
def test_a_cut_log_loses_no_gpu(log: Path, share: int) -> None:
    """Whatever part of it is left, each GPU that was counted is still a subject."""
    whole = log.read_bytes()
    sample = read(whole[: len(whole) * share // 12])
    counted = int(whole.partition(b"<attached_gpus>")[2].partition(b"<")[0])
    assert len(sample.gpus) == value(sample.gpus_in_driver) == counted


def test_the_mismatch_of_a_public_case_is_named() -> None:
    """Both versions, and what helps."""
    case = SAMPLES / "cases/drv-lib-mismatch"
    sample = node(
        {
            "nvml": absent("failed", "NVML: RM has detected an NVML/RM version mismatch. (18)"),
            "nvidia-smi-xml": absent("failed", "exit status 18", out=(case / "nvidia-smi.txt").read_bytes()),
            "nvidia-module": (case / "proc_driver_nvidia_version.txt").read_text(),
            "pci": {},
        }
    )
    for word in ("mismatch", "570.172.08", "570.195", "reboot", "reload"):
        assert word in unread(sample.driver_version).why


def test_a_flat_dump_of_an_infiniband_host_is_read() -> None:
    """Two adapters of a real node, rebuilt from its sysfs files."""
    tree: dict[str, Any] = {}
    dump = SAMPLES / "captures/sysfs-infiniband/sys_class_infiniband_h100_2hca_flat.txt"
    for line in dump.read_text().splitlines():
        path, _, text = line.partition(":")
        parts = path.split("/")
        if parts[1] == "ports" and len(parts) == 4:
            tree.setdefault(parts[0], {"ports": {"1": {}}})["ports"]["1"][parts[3]] = text
    sample = node({"infiniband": tree, "net": {}})
    assert [port.name for port in sample.ports] == ["mlx5_0/1", "mlx5_4/1"]
    assert value(sample.shows("infiniband")) is True
    assert value(sample.shows("roce")) is False
