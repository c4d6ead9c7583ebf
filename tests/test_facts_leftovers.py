"""Errors on the PCI bus, and what is left in shared memory."""

from __future__ import annotations

from typing import Any

import pytest

from facts_evidence import device, function, mark, node, small, unread, value
from gpuassay.judge.fact import Unread

NONE = {
    "aer_dev_correctable": "TOTAL_ERR_COR 0",
    "aer_dev_nonfatal": "TOTAL_ERR_NONFATAL 0",
    "aer_dev_fatal": "TOTAL_ERR_FATAL 0",
}
GPU, NIC, PORT = "0000:1a:00.0", "0000:1b:00.0", "0000:19:00.0"
SHM = {"size_bytes": 1000, "free_bytes": 1000, "entries": 0, "owners": {}, "newest_age_s": 0}


def bus(**errors: Any) -> Any:
    """Make a node of one GPU and one network card below one port; ``errors`` replace what they counted."""
    places = {"gpu": GPU, "nic": NIC, "port": PORT}
    functions: dict[str, Any] = {
        GPU: {**function(parent=PORT), "aer": NONE},
        NIC: {"vendor": "0x15b3", "device": "0x1021", "class": "0x020000", "parent": PORT, "aer": NONE},
        PORT: {"vendor": "0x8086", "device": "0x352a", "class": "0x060400", "aer": NONE},
    }
    for place, counts in errors.items():
        functions[places[place]]["aer"] = (
            counts if counts is None or "unread" in counts else {**NONE, **counts}
        )
    functions = {
        at: {key: said for key, said in one.items() if said is not None} for at, one in functions.items()
    }
    nvml = {"driver": "580.95.05", "count": 1, "devices": [device(0, 0x1A)]}
    return node(small(pci=functions, nvml=nvml, uptime="36000.00 1.00\n")).pci_errors


def test_a_bus_without_errors() -> None:
    """All four are known, and none is above zero; 0 stands for three files that all say so."""
    for errors in (bus(), node(small(uptime="36000.00 1.00\n")).pci_errors):
        assert (value(errors.fatal), value(errors.nonfatal)) == (0, 0)
        assert (value(errors.corrected_per_hour), value(errors.replays_per_minute)) == (0, 0)


def test_each_place_is_named_with_its_errors() -> None:
    """The GPU, the network card, and the port above both."""
    errors = bus(
        gpu={"aer_dev_fatal": "DLP 2\nTOTAL_ERR_FATAL 2"},
        nic={"aer_dev_fatal": "SDES 1\nTOTAL_ERR_FATAL 1"},
        port={"aer_dev_fatal": "TOTAL_ERR_FATAL 4", "aer_dev_correctable": "RxErr 50\nTOTAL_ERR_COR 50"},
    )
    assert value(errors.fatal) == 7
    for told in (
        f"GPU {GPU}: DLP 2",
        f"network card {NIC}: SDES 1",
        f"port {PORT} above GPU {GPU}: 4 in all",
    ):
        assert told in errors.fatal.note
    assert value(errors.corrected_per_hour) == 5
    assert "RxErr 50" in errors.corrected_per_hour.note


def test_without_counters_nothing_is_known_but_what_others_counted() -> None:
    """A virtual machine's GPU counts nothing: unseen; an error that its port counted is still one."""
    silent = dict.fromkeys(NONE)
    for key in silent:
        silent[key] = mark("not_found", "no such file")
    assert unread(bus(gpu=silent).fatal).kind == "denied"
    assert value(bus(gpu=silent, port={"aer_dev_fatal": "TOTAL_ERR_FATAL 1"}).fatal) == 1
    assert value(bus(nic=silent).fatal) == 0
    assert unread(bus(gpu=None).fatal).kind == "not_asked"


@pytest.mark.parametrize(
    "text", ["", "TOTAL_ERR_FATAL", "TOTAL_ERR_FATAL -1", 7, None, "TOTAL_ERR_FATAL 1 2"]
)
def test_odd_counts_are_no_counts(text: Any) -> None:
    """None of them is taken for zero."""
    assert isinstance(bus(port={"aer_dev_fatal": text}).fatal, Unread)


def test_shared_memory_and_whose_it_is() -> None:
    """Owners are numbers, but for root; the largest comes first."""
    owners = {"0": {"files": 1, "bytes": 1 << 20}, "1000": {"files": 3, "bytes": 5 << 20}}
    left = node(
        small(shm=SHM | {"free_bytes": 100, "owners": owners, "newest_age_s": 7200})
    ).shared_memory.left_share
    assert value(left) == 0.9
    assert "uid 1000 3 files, 5 MiB, root 1 files, 1 MiB; the newest written 2.0 h ago" in left.note  # type: ignore[union-attr]


def test_shared_memory_of_a_running_job_is_not_left_behind() -> None:
    """It is unseen while a GPU works, and not asked for by an older probe."""
    busy = device(0, 0x1A)
    busy["usage"] = busy["usage"] | {"busy_percent": 50}
    nvml = {"driver": "1.1", "count": 2, "devices": [busy, device(1, 0x2A)]}
    assert (
        unread(node(small(shm=SHM | {"free_bytes": 0}, nvml=nvml)).shared_memory.left_share).kind == "denied"
    )
    assert unread(node(small()).shared_memory.left_share).kind == "not_asked"


@pytest.mark.parametrize("free", [-1, 1001, "0", None, True, 0.5])
def test_odd_sizes_are_no_share(free: Any) -> None:
    """More free than there is, and what is no number, is garbled."""
    assert unread(node(small(shm=SHM | {"free_bytes": free})).shared_memory.left_share).kind == "garbled"
