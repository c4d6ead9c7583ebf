"""NVLink and its fabric as facts: counts, rates, words, and what of it needs which check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from facts_evidence import device, fabric, function, mark, node, nvlink, small, unread, value

if TYPE_CHECKING:
    from gpuassay.facts import Gpu, Node

UNSUPPORTED = mark("unsupported", "NVML: Not Supported (3)")
NO_LINKS = {"active": UNSUPPORTED, "speed_mbps": UNSUPPORTED, "counters": UNSUPPORTED}
RACK = "00000001-0000-0000-0000-000000000001"


def machine(*gpus: dict[str, Any], pci_id: str = "0x2901", **more: Any) -> Node:
    """Make a node with these GPUs in the driver's list and on the bus."""
    devices = [device(index, 0x1A + index, **changes) for index, changes in enumerate(gpus)]
    bus = {f"0000:{0x1A + index:02x}:00.0": function(device=pci_id) for index in range(len(gpus))}
    nvml = {"driver": "580.95.05", "count": len(devices), "devices": devices}
    return node(small(nvml=nvml, **{"pci": bus, **more}))


def gpu(**changes: Any) -> Gpu:
    """Make one GPU, changed in part."""
    return machine(changes, {}).gpus[0]


def counted(**counters: list[int]) -> Gpu:
    """Make a GPU whose links have counted this."""
    links = nvlink()
    return gpu(nvlink=links | {"counters": links["counters"] | counters})


def test_links_that_are_down_are_counted_and_named() -> None:
    """Up to four by number, the rest by count."""
    links = gpu(nvlink=nvlink(active=[link not in (3, 7) for link in range(18)])).nvlink
    assert value(links.up) == 16
    assert getattr(links.up, "note", "") == "links 3, 7 are down, of 18"
    dead = gpu(nvlink=nvlink(active=[False] * 18)).nvlink
    assert value(dead.up) == 0
    assert "none of its 18 links is up" in unread(dead.slow).why
    assert "and 14 more are down" in getattr(dead.up, "note", "")


@pytest.mark.parametrize("active", [[], [True] * 40, [True, None], [1] * 18, "18", None, {"0": True}])
def test_what_is_no_list_of_links_is_no_value(active: Any) -> None:
    """An empty list is not a GPU without links, and a number is not a state."""
    assert unread(gpu(nvlink=nvlink(active=active)).nvlink.up).kind == "garbled"


def test_a_link_that_is_slower_is_named_and_one_that_is_down_is_not_slow() -> None:
    """The speeds of links that are up are compared within the GPU."""
    speeds = [53125] * 18
    speeds[4], speeds[9] = 26562, 0
    links = gpu(nvlink=nvlink(active=[link != 9 for link in range(18)], speed_mbps=speeds)).nvlink
    assert (value(links.slow), value(links.speed_mbps)) == (1, 53125)
    assert getattr(links.slow, "note", "") == "link 4 has 26562; the fastest has 53125 MB/s"
    assert unread(gpu(nvlink=nvlink(speed_mbps=speeds)).nvlink.slow).kind == "failed"


@pytest.mark.parametrize(
    ("raw", "rate"), [(4095, 15e-255), (0, 0.0), (0x30B, 3e-11), (0x10C, 1e-12), (0x106, 1e-6)]
)
def test_error_rates_are_decoded_and_the_worst_link_counts(raw: int, rate: float) -> None:
    """Eight bits of exponent below four bits of mantissa."""
    rates = [4095] * 18
    rates[11] = raw
    assert value(counted(effective_ber=rates).nvlink.effective_ber) == max(rate, 15e-255)


def test_a_rate_of_more_than_twelve_bits_is_none() -> None:
    """It is no rate, whatever its lower bits say."""
    assert unread(counted(effective_ber=[4095] * 17 + [4096]).nvlink.effective_ber).kind == "garbled"


def test_counters_of_both_generations() -> None:
    """Recoveries are counted by either; what one lacks is unsupported; the note names links."""
    new = counted(recovered=[0, 2] + [0] * 16, recovery_failed=[1] + [0] * 17, remote=[0] * 17 + [5]).nvlink
    assert value(new.recoveries) == 3
    assert getattr(new.recoveries, "note", "") == "2 x recovered on link 1, 1 x recovery failed on link 0"
    assert value(new.packet_errors) == 5
    assert unread(new.replays).kind == unread(new.crc_errors).kind == "unsupported"
    older = dict.fromkeys(("replay", "recovery", "crc_flit", "crc_data"), [1] * 18)
    younger = dict.fromkeys((*nvlink()["counters"].keys() - older.keys(),), UNSUPPORTED)
    old = gpu(nvlink=nvlink(counters={**older, **younger})).nvlink
    assert [value(old.recoveries), value(old.replays), value(old.crc_errors)] == [18, 18, 36]
    assert unread(old.packet_errors).kind == unread(old.effective_ber).kind == "unsupported"


def test_what_an_older_probe_did_not_ask_is_not_asked() -> None:
    """Its recordings have no such part; they are no worse for it."""
    entry = device(0, 0x1A)
    del entry["nvlink"], entry["fabric"]
    nvml = {"driver": "580.95.05", "count": 1, "devices": [entry]}
    old = node(small(nvml=nvml, pci={"0000:1a:00.0": function()})).gpus[0]
    facts = (old.nvlink.up, old.nvlink.slow, old.nvlink.recoveries, old.fabric.state, old.fabric.faults)
    assert {unread(fact).kind for fact in facts} == {"not_asked"}


@pytest.mark.parametrize(
    ("mask", "summary", "faults", "unsettled"),
    [
        (0xAA, 1, "none", "none"),
        (0x1AA, 1, "none", "none"),
        (0x80, 1, "none", "none"),
        (0x19A, 2, "unhealthy route, unhealthy", "none"),
        (0x1A9, 3, "degraded bandwidth, limited capacity", "none"),
        (0x1A6, 1, "none", "route recovery in progress"),
        (0x16A, 1, "none", "recovery from an access timeout in progress"),
        (0x5AA, 2, "insufficient NVLinks, unhealthy", "none"),
        (0xFAA, 1, "incorrect configuration 15", "none"),
        (0xA1AA, 1, "none", "no partition assigned, fabric manager disconnected"),
    ],
)
def test_the_health_mask_in_words(mask: int, summary: int, faults: str, unsettled: str) -> None:
    """Two bits for each trouble, 1 true and 2 false: 0xaa is healthy, and not "half the paths"."""
    told = gpu(fabric=fabric(health_mask=mask, health_summary=summary)).fabric
    assert (value(told.faults), value(told.unsettled)) == (faults, unsettled)


def test_a_driver_that_says_nothing_of_health_is_not_healthy() -> None:
    """Hopper's answer is all zeros: unsupported, which is a skip only for products that are known for it."""
    told = gpu(fabric=fabric(health_mask=0, health_summary=0)).fabric
    assert unread(told.faults).kind == "unsupported"
    older = mark("not_found", "this driver's NVML does not tell it")
    assert unread(gpu(fabric=fabric(health_mask=older)).fabric.faults).kind == "not_found"


def test_a_gpu_that_was_turned_away_is_completed_and_no_success() -> None:
    """The case of a rack whose monitor only looked for N/A."""
    told = gpu(fabric=fabric(status=23)).fabric
    assert (value(told.state), value(told.status)) == ("completed", "insufficient resources")
    waiting = gpu(fabric=fabric(state=2)).fabric
    assert value(waiting.state) == "in progress"
    assert "no result yet" in unread(waiting.status).why
    assert value(gpu(fabric=fabric(state=9)).fabric.state) == "state 9"
    assert value(gpu(fabric=fabric(status=77)).fabric.status) == "NVML error 77"


def shown(one: Node) -> dict[str, Any]:
    """Tell which of the needs of this area a node shows; the kind of what is unread."""
    facts = {need: one.shows(need) for need in ("nvlink", "nvswitch", "nvl72")}
    return {
        need: getattr(fact, "value", None) if hasattr(fact, "value") else unread(fact).kind
        for need, fact in facts.items()
    }


ALONE = {"name": "NVIDIA GH200 480GB", "pci_device_id": "0x234210DE"}
TRAY = {"name": "NVIDIA GB300", "pci_device_id": "0x31C210DE", "fabric": fabric(cluster=RACK, clique=5)}
CARD = {"name": "NVIDIA L40S", "pci_device_id": "0x26B910DE", "nvlink": NO_LINKS, "fabric": UNSUPPORTED}


@pytest.mark.parametrize(
    ("one", "needs"),
    [
        (machine({}, {}), (True, True, False)),
        (machine(*[TRAY] * 4, pci_id="0x31c2"), (True, True, True)),
        (machine(TRAY, pci_id="0x31c2"), (True, True, True)),
        (
            machine(*[CARD] * 8, pci_id="0x26b9"),
            (True, False, False),
        ),  # several: their product says what it lacks
        (machine(ALONE | {"nvlink": nvlink(active=[False] * 18)}, pci_id="0x2342"), (False, False, False)),
        (
            machine(ALONE | {"fabric": UNSUPPORTED, "nvlink": NO_LINKS}, pci_id="0x2342"),
            (False, False, False),
        ),
        (
            machine({"nvlink": nvlink(active=[False] * 18)}),
            (False, True, False),
        ),  # a VM with one GPU of eight
        (machine({}), (True, True, False)),
        (
            machine(*[TRAY | {"fabric": UNSUPPORTED}] * 4, pci_id="0x31c2"),
            (True, False, False),
        ),  # joined directly
        (machine({"name": UNSUPPORTED, "fabric": mark("failed", "x")}, {}), (True, True, False)),
    ],
)
def test_what_a_node_needs_follows_from_products_and_fabric(one: Node, needs: tuple[Any, ...]) -> None:
    """By exact products, never by parts of a name: a GH200 is no H200, and some boards have no switch."""
    assert tuple(shown(one).values()) == needs


def test_switches_on_the_bus_need_a_fabric_whatever_the_driver_says() -> None:
    """An HGX A100 has no fabric state, and six switches that are bridges on its bus."""
    switch = function(device="0x1af1", **{"class": "0x068000"})
    bus = {f"0000:{bus:02x}:00.0": function(device="0x20b2") for bus in (0x1A, 0x1B)}
    one = machine({"fabric": UNSUPPORTED}, {"fabric": UNSUPPORTED}, pci=bus | {"0000:5a:00.0": switch})
    assert shown(one) == {"nvlink": True, "nvswitch": True, "nvl72": False}
    assert len(one.gpus) == 2


def test_a_node_of_a_rack_and_its_domain() -> None:
    """Cluster and clique together; a GPU outside is named, and differing GPUs are told apart."""
    whole = machine(*[TRAY] * 4).rack
    assert (value(whole.domains), value(whole.outside), value(whole.domain)) == (1, 0, f"{RACK}.5")
    split = machine(*[TRAY] * 3, TRAY | {"fabric": fabric(cluster=RACK, clique=6)}).rack
    assert (value(split.domains), value(split.domain)) == (2, f"{RACK}.5")
    assert getattr(split.domains, "note", "") == f"gpu0, gpu1, gpu2 in {RACK}.5; gpu3 in {RACK}.6"
    outside = machine(*[TRAY] * 3, TRAY | {"fabric": fabric()}).rack
    assert (value(outside.domains), value(outside.outside)) == (2, 1)
    lost = machine(*[TRAY] * 3, TRAY | {"fabric": mark("failed", "GPU is lost")}).rack
    assert unread(lost.domains).why == "gpu3: GPU is lost"
