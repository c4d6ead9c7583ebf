"""``nvidia-smi -q -x`` gives the same facts as NVML."""

from __future__ import annotations

from typing import Any

import pytest

from facts_evidence import absent, function, node, unread, value
from gpuassay.judge.fact import Unread

HEAD = '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">\n'
GPU = """
<gpu id="00000000:{bus}:00.0">
  <product_name>NVIDIA B200</product_name>
  <mig_mode><current_mig>Disabled</current_mig></mig_mode>
  <serial>1650000000001</serial>
  <uuid>GPU-00000000-0000-4000-8000-000000000000</uuid>
  <pci>
    <pci_device_id>290110DE</pci_device_id>
    <pci_gpu_link_info>
      <pcie_gen><max_link_gen>5</max_link_gen><current_link_gen>5</current_link_gen></pcie_gen>
      <link_widths><max_link_width>16x</max_link_width><current_link_width>8x</current_link_width></link_widths>
    </pci_gpu_link_info>
  </pci>
  <performance_state>P0</performance_state>
  <ecc_mode><current_ecc>Enabled</current_ecc><pending_ecc>Disabled</pending_ecc></ecc_mode>
  {remapped}
</gpu>
"""
REMAPPED = """
<remapped_rows>
  <remapped_row_corr>0</remapped_row_corr>
  <remapped_row_pending>Yes</remapped_row_pending>
  <remapped_row_failure>No</remapped_row_failure>
  <row_remapper_histogram>
    <row_remapper_histogram_max>3839 bank(s)</row_remapper_histogram_max>
    <row_remapper_histogram_none>1 bank(s)</row_remapper_histogram_none>
  </row_remapper_histogram>
</remapped_rows>
"""


def log(*gpus: str) -> str:
    """Write a log of these GPUs."""
    version, count = (
        "<driver_version>580.105.08</driver_version>",
        f"<attached_gpus>{len(gpus)}</attached_gpus>",
    )
    return f"{HEAD}<nvidia_smi_log>{version}{count}{''.join(gpus)}</nvidia_smi_log>"


def gpu(bus: str = "1A", remapped: str = REMAPPED) -> str:
    """Write one GPU."""
    return GPU.format(bus=bus, remapped=remapped)


def read(printed: Any) -> Any:
    """Read a node of which NVML could not be asked."""
    nvml = absent("not_found", "no library")
    pci = {"0000:1a:00.0": function(current_link_width="8")}
    return node({"nvml": nvml, "nvidia-smi-xml": printed, "pci": pci})


def test_the_tool_tells_what_the_library_would() -> None:
    """Every fact of a GPU that checks and identity rest on is in the XML."""
    sample = read(log(gpu()))
    (one,) = sample.gpus
    assert one.where == "n1/gpu0"
    assert one.models == ("NVIDIA B200", "10de:2901")
    assert value(sample.driver_version) == "580.105.08"
    assert value(sample.gpus_seen) == 1
    assert value(one.uuid) == "GPU-00000000-0000-4000-8000-000000000000"
    assert value(one.serial) == "1650000000001"
    assert (value(one.pstate), value(one.pcie_gen)) == (0, 5)
    assert (value(one.ecc_current), value(one.ecc_pending)) == (True, False)
    assert (value(one.remap_pending), value(one.remap_failed)) == (True, False)
    assert value(one.remap_banks_exhausted) == 1
    assert (value(one.pcie_width), value(one.pcie_width_max)) == (8, 16)
    assert one.remap_pending.evidence == "nodes/n1#2"


@pytest.mark.parametrize(
    ("remapped", "kind"),
    [
        ("<remapped_rows>N/A</remapped_rows>", "unsupported"),
        ("<remapped_rows>GPU is lost</remapped_rows>", "failed"),
        ("<remapped_rows><remapped_row_pending>maybe</remapped_row_pending></remapped_rows>", "garbled"),
        ("<remapped_rows></remapped_rows>", "not_found"),
        ("", "not_found"),
    ],
)
def test_a_part_without_its_values_says_why(remapped: str, kind: str) -> None:
    """One word in place of a whole part stands for all that would be in it."""
    (one,) = read(log(gpu(remapped=remapped))).gpus
    assert unread(one.remap_pending).kind == kind
    assert unread(one.remap_banks_exhausted).kind in (kind, "not_found")


def test_a_lost_gpu_is_not_seen() -> None:
    """The tool prints what it remembers of a lost GPU, and says that it is lost where it must ask."""
    sample = read(log(gpu(remapped="<remapped_rows>GPU is lost</remapped_rows>")))
    assert "GPU is lost" in sample.gpus[0].loss
    assert value(sample.gpus_seen) == 0
    assert value(sample.gpus_in_driver) == 1


@pytest.mark.parametrize("status", ["ok", "failed", "timed_out"])
def test_good_data_of_a_tool_that_failed_are_read(status: str) -> None:
    """nvidia-smi prints all and then exits with 14 when an infoROM is corrupt."""
    sample = read(absent(status, "exit status 14", out=log(gpu()).encode()))
    assert value(sample.gpus[0].remap_pending) is True


def test_what_a_cut_log_holds_is_kept() -> None:
    """A tool that was killed half-way loses the rest, and each lost GPU says so."""
    whole = log(gpu("1A"), gpu("2A"), gpu("3A"))
    sample = read(absent("timed_out", "no end within 60 s", out=whole[: whole.rindex("<gpu ") + 60].encode()))
    assert value(sample.gpus_in_driver) == 3
    assert [value(one.remap_pending) for one in sample.gpus[:2]] == [True, True]
    assert "not whole" in unread(sample.gpus[2].remap_pending).why


@pytest.mark.parametrize(
    "printed",
    [
        "",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        HEAD,
        f"{HEAD}<nvidia_smi_log>",
        f"{HEAD}<other_log><attached_gpus>0</attached_gpus></other_log>",
        log(gpu()).replace("<attached_gpus>1", "<attached_gpus>many"),
        log(gpu()).replace("<attached_gpus>1</attached_gpus>", ""),
        b'<?xml version="1.0" encoding="no-such"?><nvidia_smi_log/>',
        b'<?xml version="1.0"?><nvidia_smi_log>\xff\x00</nvidia_smi_log>',
    ],
)
def test_what_is_no_log_counts_no_gpu(printed: Any) -> None:
    """Nothing that is not a whole log reads as "this driver has no GPU"."""
    assert unread(read(printed).gpus_in_driver).kind in ("garbled", "not_found")


def test_a_driver_without_a_gpu_says_so() -> None:
    """The tool has one sentence for it, on standard output."""
    sample = read(absent("failed", "exit status 6", out=b"No devices were found\n"))
    assert value(sample.gpus_in_driver) == 0


def test_entities_are_refused() -> None:
    """A few lines would unfold to gigabytes; a log of this tool declares none."""
    bomb = '<?xml version="1.0"?><!DOCTYPE nvidia_smi_log [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]>'
    sample = read(f"{bomb}<nvidia_smi_log><attached_gpus>&b;</attached_gpus></nvidia_smi_log>")
    assert "declares an entity" in unread(sample.gpus_in_driver).why
    inner = read(log(gpu()).replace("Enabled", "&undeclared;"))
    unread(inner.gpus[0].ecc_current)


def test_a_log_nested_without_end_is_read_to_its_end() -> None:
    """Depth costs no stack."""
    deep = "<x>" * 100_000 + "</x>" * 100_000
    assert value(read(log(gpu(remapped=deep))).gpus[0].ecc_current) is True


def test_where_neither_answers_the_graver_reason_counts() -> None:
    """A library that is not there and a tool that failed: the tool's words say more."""
    sample = read(absent("failed", "exit status 9", out=b"NVIDIA-SMI has failed"))
    assert unread(sample.driver_version) == Unread("failed", "NVIDIA-SMI has failed", "nodes/n1#2")
