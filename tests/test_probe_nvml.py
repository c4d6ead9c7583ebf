"""NVIDIA GPUs: the real nvidia-ml-py on a stand-in for the driver's library, in a fresh Python each time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import fakenvml
from probing import Mark, python

if TYPE_CHECKING:
    from pathlib import Path

# What the probe does for the item nvml, with a deadline for all and a limit for one call, in seconds.
ASK = """
import json
from gpuassay.probe import nvml
from gpuassay.probe.items import QUESTIONS
question = next(question for question in QUESTIONS if question.id == "nvml")
print(json.dumps(nvml.ask(question._replace(deadline_s={deadline_s}), stall_s={stall_s}).parts()))
"""


REFUSED = {"unread": "unsupported", "why": "NVML: Not Supported (3)", "code": 3}
HEALTH = {
    "ecc_errors": {
        "volatile_uncorrected": 0,
        "volatile_corrected": 0,
        "aggregate_uncorrected": 0,
        "sram_threshold_exceeded": False,
    },
    "repairs_pending": {"channel": False, "tpc": False},
    "unrepairable_memory": False,
    "fields": {
        "memory_c": 39,
        "pcie_replays": 0,
        "slowdown_tlimit_c": -3,
        "recovery_action": 0,
    },
    "clock_event_reasons": 1,
    "temperature": {"gpu_c": 39, "tlimit_c": 49, "slowdown_c": REFUSED, "memory_max_c": REFUSED},
    "usage": {
        "busy_percent": 0,
        "power_mw": 195680,
        "memory_bytes": 0,
        "processes": {"count": 0, "listed": []},
    },
    "addressing": "None",
    "inforom_valid": True,
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the library, once."""
    return fakenvml.build(tmp_path_factory.mktemp("nvml") / "lib")


UNSUPPORTED = {"unread": "unsupported", "why": "NVML: Not Supported (3)", "code": 3}
NVLINK_5 = {
    "active": [True] * 18,
    "speed_mbps": [53125] * 18,
    "counters": {
        **dict.fromkeys(("replay", "recovery", "crc_flit", "crc_data"), UNSUPPORTED),
        **dict.fromkeys(("malformed", "overrun", "receive", "remote", "integrity"), [0] * 18),
        **dict.fromkeys(("recovered", "recovery_failed"), [0] * 18),
        **dict.fromkeys(("effective_ber", "symbol_ber"), [4095] * 18),
    },
}


def ask(environment: dict[str, str], deadline_s: float = 60, stall_s: float = 30) -> dict[str, Any]:
    """Ask for the item."""
    code = ASK.format(deadline_s=deadline_s, stall_s=stall_s)
    return dict(json.loads(python(code, **environment)))


def devices(item: dict[str, Any]) -> list[dict[str, Any]]:
    """Give the GPUs of an item that is ok."""
    assert item["status"] == "ok", item
    return list(json.loads(item["out"])["devices"])


def test_a_healthy_machine(library: Path, tmp_path: Path) -> None:
    """All values come in the form that facts read: plain text, numbers, and addresses as /sys writes them."""
    item = ask(fakenvml.environment(library, tmp_path / "answers"))
    document = json.loads(item["out"])
    gpus = document.pop("devices")
    assert document == {"library": "13.580.95.05", "driver": "580.95.05", "cuda": 13000, "count": 8}
    assert [gpu["index"] for gpu in gpus] == list(range(8))
    health = {key: gpus[7].pop(key) for key in tuple(gpus[7]) if key in HEALTH}
    assert health == {**HEALTH, "usage": health["usage"]}
    assert health["usage"]["processes"].pop("namespace").startswith("pid:[")
    assert health["usage"] == HEALTH["usage"]
    assert gpus[7] == {
        "index": 7,
        "name": "NVIDIA B200",
        "pci": "0000:21:00.0",
        "pci_device_id": "0x290110DE",
        "pci_subsystem_id": "0x199910DE",
        "uuid": "GPU-00000007-0000-0000-0000-000000000000",
        "serial": "1650224000001",
        "board_part": "692-2G525-0200-000",
        "vbios": "97.00.52.00.04",
        "pstate": 0,
        "persistence": True,
        "mig": 0,
        "mig_pending": 0,
        "memory_total_bytes": 192265846784,
        "ecc": {"current": True, "pending": True},
        "remapped_rows": {
            "correctable": 0,
            "uncorrectable": 0,
            "pending": False,
            "failed": False,
            "banks": {"max": 3840, "high": 0, "partial": 0, "low": 0, "none": 0},
        },
        "retired_pages_pending": {"unread": "unsupported", "why": "NVML: Not Supported (3)", "code": 3},
        "pcie": {"gen": 5, "gen_max": 5, "width": 16, "width_max": 16},
        "power": {"enforced_mw": 1_000_000, "default_mw": 1_000_000},
        "clocks": {
            "applications": 1965,
            "applications_default": 1965,
            "memory": 3996,
            "memory_default": 3996,
            "max": 1965,
        },
        "nvlink": NVLINK_5,
        "fabric": {
            "state": 3,
            "status": 0,
            "cluster": "00000000-0000-0000-0000-000000000000",
            "clique": 0,
            "health_mask": 128,
            "health_summary": 1,
        },
    }


def test_one_odd_one_with_errors_one_lost_and_one_that_hangs(library: Path, tmp_path: Path) -> None:
    """Each GPU is told as it is, and none spoils another: not even one whose call never returns."""
    mark = Mark()
    environment = fakenvml.environment(
        library,
        tmp_path / "answers",
        **{
            "1.name": "NVIDIA H200",
            "1.ecc": "0 1",
            "2.remapped_rows": "3 1 1 0",
            "2.banks": "3838 1 1 0 0",
            "4.ecc": "hang",
            "6.handle": "!15",
        },
    )
    gpus = devices(ask(environment | mark.environment, stall_s=1))
    assert [gpu.get("name") for gpu in gpus] == [
        "NVIDIA B200",
        "NVIDIA H200",
        *["NVIDIA B200"] * 4,
        None,
        "NVIDIA B200",
    ]
    assert gpus[1]["ecc"] == {"current": False, "pending": True}
    assert gpus[2]["remapped_rows"]["pending"] is True
    assert gpus[2]["remapped_rows"]["banks"]["partial"] == 1
    assert gpus[6] == {"index": 6, "unread": "failed", "why": "NVML: GPU is lost (15)", "code": 15}
    hung = gpus[4]
    assert hung["memory_total_bytes"] == 192265846784
    assert hung["ecc"] == {"unread": "timed_out", "why": "nvmlDeviceGetEccMode: no answer within 1 s"}
    skipped = {"unread": "timed_out", "why": "not asked: nvmlDeviceGetEccMode gave no answer"}
    assert hung["remapped_rows"] == hung["pcie"]["width"] == skipped
    assert gpus[5]["pcie"] == gpus[7]["pcie"] == {"gen": 5, "gen_max": 5, "width": 16, "width_max": 16}
    assert mark.survivors() == []


def test_refusals_by_their_codes(library: Path, tmp_path: Path) -> None:
    """What the library refuses keeps its kind, its words and its number."""
    kinds = {3: "unsupported", 4: "denied", 10: "timed_out", 13: "not_found", 16: "failed", 26: "unsupported"}
    kinds[999] = "failed"
    refused = {f"{index}.ecc": f"!{code}" for index, code in enumerate(kinds)}
    gpus = devices(ask(fakenvml.environment(library, tmp_path / "answers", count=str(len(kinds)), **refused)))
    assert {gpu["ecc"]["code"]: gpu["ecc"]["unread"] for gpu in gpus} == kinds
    for gpu in gpus:
        assert gpu["ecc"]["why"].startswith("NVML: ")
        assert gpu["ecc"]["why"].endswith(f"({gpu['ecc']['code']})")


def test_a_library_older_than_a_question(tmp_path: Path) -> None:
    """A function that the library lacks is not found, and the rest of that answer is kept."""
    library = fakenvml.build(tmp_path / "lib", "-DOLD")
    rows = devices(ask(fakenvml.environment(library, tmp_path / "answers", count="1")))[0]["remapped_rows"]
    assert rows["pending"] is False
    assert rows["banks"]["unread"] == "not_found"


def test_what_an_older_driver_cannot_be_asked(tmp_path: Path) -> None:
    """Before R535 clocks had throttle reasons; a field that the library does not know is not found."""
    library = fakenvml.build(tmp_path / "lib", "-DOLD")
    answers = {"gpu.clock_reasons": "0x8C", "gpu.field_230": "!2", "gpu.field_226": "0"}
    gpu = devices(ask(fakenvml.environment(library, tmp_path / "answers", count="1", **answers)))[0]
    assert gpu["clock_event_reasons"] == 0x8C
    assert gpu["fields"]["recovery_action"]["unread"] == "not_found"
    assert gpu["fields"]["reset_required"] == 0
    assert gpu["temperature"]["tlimit_c"]["unread"] == "not_found"
    assert gpu["ecc_errors"]["sram_threshold_exceeded"]["unread"] == "not_found"


def test_a_gpu_in_use_and_one_whose_inforom_is_corrupted(library: Path, tmp_path: Path) -> None:
    """Processes are numbers, without names; a corrupted InfoROM keeps NVML's code."""
    answers = {"0.compute": "4711 1048576", "0.graphics": "12 4096", "1.inforom": "!14"}
    used, corrupted = devices(ask(fakenvml.environment(library, tmp_path / "answers", count="2", **answers)))
    assert used["usage"]["processes"]["count"] == 2
    assert used["usage"]["processes"]["listed"] == [
        {"pid": 4711, "bytes": 1048576},
        {"pid": 12, "bytes": 4096},
    ]
    assert corrupted["inforom_valid"]["code"] == 14


def test_values_that_cannot_be(library: Path, tmp_path: Path) -> None:
    """Bytes that are no text, an unknown state, an address without form: unread, not passed on."""
    odd = {"0.name": "NVIDIA \udcff", "0.pstate": "32", "0.pci": "garbage 0 0"}
    gpu = devices(ask(fakenvml.environment(library, tmp_path / "answers", count="1", **odd)))[0]
    assert gpu["name"]["why"].startswith("nvmlDeviceGetName: UnicodeDecodeError")
    assert {gpu[key]["unread"] for key in ("name", "pstate", "pci")} == {"failed"}
    assert gpu["vbios"] == "97.00.52.00.04"


def test_a_library_that_does_not_fit_the_driver(library: Path, tmp_path: Path) -> None:
    """After an upgrade without a reload: failed, in NVML's words, and the library's version is there."""
    item = ask(fakenvml.environment(library, tmp_path / "answers", init="!18"))
    assert item["status"] == "failed"
    assert item["why"] == "NVML: RM has detected an NVML/RM version mismatch. (18)"
    assert json.loads(item["out"]) == {"library": "13.580.95.05", "devices": []}


@pytest.mark.parametrize(("code", "status"), [(9, "failed"), (4, "denied")])
def test_a_driver_that_is_not_loaded_or_not_allowed(
    library: Path, tmp_path: Path, code: int, status: str
) -> None:
    """A library without a driver below it has failed; one that may not be used is denied."""
    assert ask(fakenvml.environment(library, tmp_path / "answers", init=f"!{code}"))["status"] == status


def test_no_library(tmp_path: Path) -> None:
    """It is not found: there is no NVIDIA driver here."""
    item = ask({"LD_LIBRARY_PATH": str(tmp_path)})
    assert item["status"] == "not_found"
    assert item["why"].startswith("libnvidia-ml.so.1: cannot open shared object file")


def test_a_broken_library(tmp_path: Path) -> None:
    """One that is there and cannot be loaded has failed, which nvidia-ml-py alone would call not found."""
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"garbage")
    item = ask({"LD_LIBRARY_PATH": str(tmp_path)})
    assert item["status"] == "failed"
    assert "invalid ELF header" in item["why"] or "file too short" in item["why"]


def test_opening_hangs(library: Path, tmp_path: Path) -> None:
    """A driver that does not even open is timed out as a whole."""
    mark = Mark()
    item = ask(
        fakenvml.environment(library, tmp_path / "answers", init="hang") | mark.environment, deadline_s=1
    )
    assert item["status"] == "timed_out"
    assert item["why"].startswith("no answer within ")
    assert mark.survivors() == []


def test_the_deadline_ends_it_all(library: Path, tmp_path: Path) -> None:
    """Where the whole time is spent on one GPU, it and the rest are timed out, and what was read is kept."""
    item = ask(fakenvml.environment(library, tmp_path / "answers", **{"1.pstate": "hang"}), deadline_s=3)
    gpus = devices(item)
    assert gpus[0]["pcie"]["width"] == 16
    assert gpus[1]["name"] == "NVIDIA B200"
    assert gpus[1]["pstate"]["unread"] == "timed_out"
    assert [gpu["unread"] for gpu in gpus[2:]] == ["timed_out"] * 6
    assert gpus[7]["why"] == "nvmlDeviceGetHandleByIndex: not reached within 3 s"


def test_a_call_that_crashes(library: Path, tmp_path: Path) -> None:
    """A crash of the library costs one GPU its rest; the others are asked by another process."""
    gpus = devices(ask(fakenvml.environment(library, tmp_path / "answers", count="3", **{"1.mig": "crash"})))
    assert gpus[1]["mig"]["unread"] == "failed"
    assert gpus[1]["mig"]["why"] == "nvmlDeviceGetMigMode: the reading process ended: killed by SIGABRT"
    assert gpus[1]["pcie"]["width"]["unread"] == "failed"
    assert gpus[2]["pcie"]["width"] == 16


def test_no_gpu_and_no_count(library: Path, tmp_path: Path) -> None:
    """None is an answer; a count that is refused is not none."""
    none = ask(fakenvml.environment(library, tmp_path / "none", count="0"))
    assert devices(none) == []
    refused = ask(fakenvml.environment(library, tmp_path / "refused", count="!17"))
    assert refused["status"] == "failed"
    assert refused["why"].endswith("(17)")


GATHER = """
import json
from gpuassay.target.local import Local
from gpuassay.target.progress import Tally
class Writer:
    items = {}
    def add(self, node, item): self.items[item.id] = [item.status, item.why]
Local().gather(Writer(), Tally(1, lambda line: None))
print(json.dumps(Writer.items))
"""


def test_nvidia_smi_is_asked_only_in_need(library: Path, tmp_path: Path) -> None:
    """Where the library answers, its tool is not started."""
    items = json.loads(python(GATHER, **fakenvml.environment(library, tmp_path / "answers")))
    assert items["nvml"][0] == "ok"
    assert "nvidia-smi-xml" not in items


def test_the_probe_is_killed_while_a_call_hangs(library: Path, tmp_path: Path) -> None:
    """Killed from outside it cannot clean up: the kernel ends the hanging process, and the target says so."""
    mark = Mark()
    environment = fakenvml.environment(library, tmp_path / "answers", **{"5.ecc": "orphan"})
    items = json.loads(python(GATHER, **environment, **mark.environment))
    assert items["kmsg"][0] != "timed_out"
    assert items["nvml"] == items["probe"] == ["failed", "the probe ended early: killed by signal 9"]
    assert mark.survivors() == []
