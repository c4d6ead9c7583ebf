"""Nodes beside themselves in an earlier recording: what changed, what was counted, what cannot be said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts_evidence import absent, device, evidence, function, mark, node, small, unread, value
from gpuassay.evidence.item import Item
from gpuassay.facts.earlier import Earlier, Past, rate, risen
from gpuassay.facts.node import Node
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Mapping

BOOT = "11111111-2222-4333-8444-555555555555\n"
WEEK = 168.0


def contents(hours: float, *lines: str, boot: str = BOOT, **changes: Any) -> dict[str, Any]:
    """Make what a node answers so many hours after its boot; ``lines`` are those of its kernel log."""
    log = "\n".join(["5,0,0,-;Linux version 6.8.0", *lines])
    return small(**{"boot-id": boot, "uptime": f"{hours * 3600:.2f} 1.00\n", "kmsg": log} | changes)


def beside(
    now: Mapping[str, Any], then: Mapping[str, Any] | None, hours: float = WEEK, **other: Mapping[str, Any]
) -> Node:
    """Make a node that was so some hours before; ``other`` nodes have not changed."""
    earlier = [node(then)] if then is not None else []
    found = [node(now)]
    for name, what in other.items():
        for fleet in (earlier, found):
            fleet.append(Node(name, evidence(what)))
    before = Earlier(earlier, hours)
    before.meet(found)
    found[0].past = Past(found[0], before)
    return found[0]


def gpus(*devices: Mapping[str, Any]) -> dict[str, Any]:
    """Make what NVML answers of these GPUs."""
    return {"driver": "580.95.05", "library": "13.580.95.05", "count": len(devices), "devices": list(devices)}


def line(hours: float, text: str, sequence: int = 7) -> str:
    """Make a line of the kernel log."""
    return f"4,{sequence},{round(hours * 3.6e9)},-;{text}"


XID = "NVRM: Xid (PCI:0000:1a:00): 79, GPU has fallen off the bus."


# --- counters ------------------------------------------------------------------------------------


@given(st.integers(0, 2**63), st.integers(0, 2**63), st.floats(1.0, 1e5))
def test_a_rate_is_never_negative_and_never_made_of_a_reset(now: int, then: int, hours: float) -> None:
    """Whatever two counters say: what went down is unseen, what did not has the difference as its rate."""
    more = risen(Read(now, "nodes/n1#4"), Read(then, "nodes/n1#9"))
    per_hour = rate(more, Read(hours), per=1.0)
    if now < then:
        assert unread(per_hour).kind == "denied"
        assert f"{now} now and {then} earlier" in unread(per_hour).why
    else:
        assert value(more) == now - then
        assert value(per_hour) == pytest.approx((now - then) / hours, abs=0.001)


def test_only_the_judged_recording_is_referred_to() -> None:
    """A reference of the earlier recording would lead to another item of this one."""
    assert risen(Read(3, "nodes/n1#4"), Read(1, "nodes/n1#9")).evidence == "nodes/n1#4"
    lost = unread(risen(Read(3, "nodes/n1#4"), Unread("failed", "no answer", "nodes/n1#9")))
    assert (lost.kind, lost.why, lost.evidence) == ("failed", "in the earlier recording: no answer", "")


def test_less_than_a_day_counts_as_one_where_a_day_is_the_measure() -> None:
    """One flap in an hour is one flap, not 24 a day."""
    assert value(rate(Read(1), Read(1.0), per=24.0, least=24.0)) == 1.0
    assert value(rate(Read(1), Read(1.0), per=24.0)) == 24.0


# --- time ----------------------------------------------------------------------------------------


def test_two_recordings_that_are_too_close_give_no_rate() -> None:
    """An error that says so: whoever compares can name another recording."""
    one = beside(contents(100), contents(99.5), hours=0.5)
    why = unread(one.past.hours)
    assert why.kind == "failed"
    assert "too short: 30 minutes" in why.why
    assert unread(one.since.pci_corrected_per_hour) == why
    assert value(one.since.pci_fatal) == 0  # a count needs no time


@pytest.mark.parametrize(
    ("now", "then"),
    [
        (contents(500, boot=BOOT.replace("1", "2")), contents(300)),
        (contents(100) | {"boot-id": absent("denied")}, contents(300)),
    ],
    ids=["by its boot id", "by its uptime"],
)
def test_a_restart_ends_all_counting(now: dict[str, Any], then: dict[str, Any]) -> None:
    """What the kernel and the driver count began anew: no rate and no zero, whatever the numbers are."""
    since = beside(now, then)
    for fact in (since.past.hours, since.since.pci_fatal, since.gpus[0].since.nvlink_faults):
        assert unread(fact).kind == "denied"
        assert "restarted since" in unread(fact).why
    assert value(since.gpus[0].since.uncorrected) == 0  # the count of its life goes on


def test_who_tells_neither_boot_nor_uptime_is_not_compared() -> None:
    """That nothing says that it was restarted is no proof that it was not."""
    mute = contents(300) | {"boot-id": absent("denied", "no"), "uptime": absent("denied", "no")}
    assert unread(beside(mute, contents(100)).past.hours).kind == "denied"


# --- without a past ------------------------------------------------------------------------------


def test_without_an_earlier_recording_the_reason_tells_how_to_name_one() -> None:
    """No fact of the past is anything but not asked for."""
    alone = node(contents(100))
    facts = (alone.since.gpus_gone, alone.gpus[0].since.part, alone.since.log.serious_xids, alone.past.hours)
    assert {unread(fact).kind for fact in facts} == {"not_asked"}
    assert "--earlier=DIR" in unread(facts[0]).why
    known = alone.shows("earlier")
    assert (value(known), "--earlier=DIR" in known.note if isinstance(known, Read) else "") == (False, True)


def test_a_new_node_has_no_past() -> None:
    """It is no fault of it, and nothing about it is the same as before."""
    new = beside(contents(100), None, other=contents(100))
    known = new.shows("earlier")
    assert isinstance(known, Read)
    assert not known.value
    assert "a new node" in known.note
    assert unread(new.gpus[0].since.part).kind == "not_found"


def test_a_node_that_was_silent_cannot_be_compared() -> None:
    """It is known, and of all that it was nothing was read."""
    one = node(contents(100))
    one.past = Past(one, Earlier([Node("n1", None)], WEEK))
    assert value(one.shows("earlier"))
    for fact in (one.since.gpus_gone, one.gpus[0].since.part, one.gpus[0].since.board):
        assert "in the earlier recording: no evidence" in unread(fact).why


# --- parts ---------------------------------------------------------------------------------------


def test_a_gpu_is_the_same_moved_replaced_or_added() -> None:
    """By its UUID first, then by its slot; what it was and what it is are both named."""
    new, moved = device(0, 0x1A, uuid="GPU-" + "f" * 8 + "-1111-4222-8333-" + "f" * 12), device(1, 0x3A)
    pci = {f"0000:{bus:02x}:00.0": function() for bus in (0x1A, 0x3A, 0x4A)}
    third = device(2, 0x4A)
    one = beside(contents(300, nvml=gpus(new, moved, third), pci=pci), contents(100))
    assert [value(gpu.since.part) for gpu in one.gpus] == ["replaced", "moved", "added"]
    notes = [gpu.since.part.note for gpu in one.gpus if isinstance(gpu.since.part, Read)]
    assert "serial 1650000000000, GPU-00000000-0000-4000-8000-000000000000 earlier" in notes[0]
    assert "GPU-ffffffff-1111-4222-8333-ffffffffffff now" in notes[0]
    assert notes[1] == "from 0000:2a:00.0 to 0000:3a:00.0"
    assert value(one.gpus[2].since.board) == value(one.gpus[2].since.firmware) == "added"
    assert {value(gpu.since.part) for gpu in beside(contents(300), contents(100)).gpus} == {"the same"}


def test_the_counts_of_another_part_are_not_compared() -> None:
    """A new GPU that has counted less, or more, says nothing of the old one."""
    other = device(0, 0x1A, uuid="GPU-99999999-1111-4222-8333-999999999999")
    one = beside(contents(300, nvml=gpus(other, device(1, 0x2A))), contents(100))
    for fact in (one.gpus[0].since.uncorrected, one.gpus[0].since.nvlink_faults):
        assert unread(fact).kind == "denied"
        assert "another part" in unread(fact).why
    assert value(one.gpus[1].since.uncorrected) == 0


@pytest.mark.parametrize(
    ("now", "then", "found"),
    [
        ("97.00.FA.00.09", "97.00.FA.00.09", "the same"),
        ("97.00.FA.00.09", "97.00.B9.00.09", "newer"),
        ("97.00.9A.00.09", "97.00.B9.00.09", "older"),
        ("113-D65209-073", "113-D65209-071", "another"),
    ],
)
def test_firmware_has_an_order_where_it_is_numbers(now: str, then: str, found: str) -> None:
    """NVIDIA's are hexadecimal; a name without an order that changed may be anything."""
    one = beside(
        contents(300, nvml=gpus(device(0, 0x1A, vbios=now))),
        contents(100, nvml=gpus(device(0, 0x1A, vbios=then))),
    )
    assert value(one.gpus[0].since.firmware) == found


def test_a_gpu_that_went_to_another_node_is_found_there() -> None:
    """The finding says where it is now."""
    pci = {"0000:1a:00.0": function()}
    taken = device(0, 0x2A, uuid=device(1, 0x2A)["uuid"])
    then = contents(100)
    now = contents(300, nvml=gpus(device(0, 0x1A)), pci=pci)
    one = beside(now, then, n2=contents(100, nvml=gpus(taken), pci={"0000:2a:00.0": function()}))
    gone = one.since.gpus_gone
    assert value(gone) == 1
    assert isinstance(gone, Read)
    assert "serial 1650000000001" in gone.note
    assert "0000:2a:00.0 is at n2/gpu0 now" in gone.note


def test_what_cannot_be_seen_is_not_gone() -> None:
    """A bus that is denied now, or was then, proves no loss."""
    denied = contents(300) | {"pci": absent("denied", "no")}
    assert unread(beside(denied, contents(100)).since.gpus_gone).kind == "denied"
    assert unread(beside(contents(300), denied).since.gpus_gone).kind == "denied"


def hopper(**counts: int) -> dict[str, Any]:
    """Make a GPU with two NVLinks of the fourth generation, the first of which has counted this."""
    newer = ("malformed", "overrun", "receive", "remote", "integrity", "recovered", "recovery_failed")
    older = {name: [counts.get(name, 0), 0] for name in ("replay", "recovery", "crc_flit", "crc_data")}
    counters = older | dict.fromkeys(newer, mark("unsupported", "NVML: Invalid Argument (2)"))
    links = {"active": [True, True], "speed_mbps": [26562, 26562], "counters": counters}
    return device(0, 0x1A, nvlink=links)


def test_nvlink_counts_what_its_generation_has() -> None:
    """Replays and trainings before NVLink 5, packets and trainings since; check sums before it only."""
    then = contents(100, nvml=gpus(hopper(replay=1, crc_flit=5)))
    old = beside(contents(268, nvml=gpus(hopper(replay=2, recovery=3, crc_flit=604_805))), then).gpus[0].since
    assert value(old.nvlink_faults) == 4
    assert value(old.nvlink_crc_per_second) == 1.0
    new = beside(contents(268), contents(100)).gpus[0].since
    assert value(new.nvlink_faults) == 0
    assert unread(new.nvlink_crc_per_second).kind == "unsupported"


def adapters(name: str, guid: str, downs: int, errors: int) -> dict[str, Any]:
    """Make one InfiniBand adapter with one port that has counted this."""
    port = {
        "state": "4: ACTIVE",
        "phys_state": "5: LinkUp",
        "rate": "400 Gb/sec (4X NDR)",
        "link_layer": "InfiniBand",
        "lid": "0x7",
        "counters": {"link_downed": str(downs), "symbol_error": str(errors)},
    }
    return {name: {"node_guid": guid, "pci": "0000:1b:00.0", "ports": {"1": port}}}


GUID = "0200:5e00:5300:0001"


def test_a_port_is_found_again_under_another_name() -> None:
    """The kernel numbers adapters anew at each boot; the adapter is the one with the GUID."""
    then = contents(100, infiniband=adapters("mlx5_0", GUID, 1, 10))
    (port,) = beside(contents(268, infiniband=adapters("mlx5_4", GUID, 15, 4010)), then).ports
    assert value(port.since.downs_per_day) == 2.0
    assert value(port.since.bit_error_rate) == pytest.approx(4000 / (400e9 * 168 * 3600))


def test_a_port_of_another_adapter_is_not_compared() -> None:
    """Nor is one whose name nobody had; each says which it is."""
    then = contents(100, infiniband=adapters("mlx5_0", GUID, 1, 10))
    other = adapters("mlx5_0", "0200:5e00:5300:0002", 15, 4010)
    (port,) = beside(contents(268, infiniband=other), then).ports
    assert unread(port.since.downs_per_day).kind == "denied"
    assert f"another adapter has this name now: GUID {GUID} earlier" in unread(port.since.downs_per_day).why
    new = adapters("mlx5_9", "0200:5e00:5300:0002", 15, 4010)
    (port,) = beside(contents(268, infiniband=new), then).ports
    assert "nothing in its place" in unread(port.since.bit_error_rate).why


# --- errors --------------------------------------------------------------------------------------


def test_pci_errors_are_those_that_were_added() -> None:
    """Old ones are left out; what went down was reset, and is named."""

    def bus(fatal: int) -> dict[str, Any]:
        counts = {
            "aer_dev_correctable": "TOTAL_ERR_COR 0",
            "aer_dev_nonfatal": "TOTAL_ERR_NONFATAL 0",
            "aer_dev_fatal": f"SDES {fatal}\nTOTAL_ERR_FATAL {fatal}",
        }
        return {"0000:1a:00.0": function() | {"aer": counts}, "0000:2a:00.0": function()}

    found = beside(contents(300, pci=bus(5)), contents(100, pci=bus(3))).since.pci_fatal
    assert found == Read(2, "nodes/n1#1", "GPU 0000:1a:00.0: 2")
    reset = unread(beside(contents(300, pci=bus(2)), contents(100, pci=bus(3))).since.pci_fatal)
    assert (reset.kind, "0000:1a:00.0 were reset" in reset.why) == ("denied", True)


def test_the_log_counts_from_the_earlier_recording_on() -> None:
    """An Xid of before is the past; one of after is told; and so is that the log does not reach back."""
    then = contents(100)
    old, new = line(50, XID), line(200, XID)
    assert value(beside(contents(300, old), then).since.log.serious_xids) == 0
    assert value(beside(contents(300, old, new), then).since.log.serious_xids) == 1
    cut = contents(300) | {"kmsg": line(250, "link becomes ready", sequence=90_000)}
    lost = unread(beside(cut, then).since.log.serious_xids)
    assert (lost.kind, "has lost its older part" in lost.why) == ("denied", True)
    late = contents(300) | {"kmsg": line(250, XID, sequence=90_000)}
    assert value(beside(late, then).since.log.serious_xids) == 1


def test_a_container_that_is_younger_than_its_machine_makes_nothing_new() -> None:
    """Its uptime is its own; the log of the earlier recording tells how far that has seen."""
    then = contents(2, line(50, XID), line(90, "link becomes ready"))
    now = contents(4, line(50, XID), line(90, "link becomes ready"))
    assert value(beside(now, then).since.log.serious_xids) == 0
    assert value(beside(contents(4, line(95, XID)), then).since.log.serious_xids) == 1


def test_after_a_restart_the_log_proves_what_is_in_it_only() -> None:
    """Whatever it holds is younger; that it holds nothing does not say that there was nothing."""
    boot = BOOT.replace("1", "2")
    then = contents(300)
    assert value(beside(contents(20, line(1, XID), boot=boot), then).since.log.serious_xids) == 1
    assert unread(beside(contents(20, boot=boot), then).since.log.serious_xids).kind == "denied"


def test_a_log_that_could_not_be_read_says_so() -> None:
    """Its own reason, not that of the comparison."""
    denied = contents(300) | {"kmsg": Item("kmsg", 9, status="denied", why="Operation not permitted")}
    assert "not permitted" in unread(beside(denied, contents(100)).since.log.serious_xids).why
