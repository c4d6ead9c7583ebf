"""Facts of the host: memory lock, clock, uptime, virtual machine."""

from __future__ import annotations

from typing import Any

import pytest

from facts_evidence import absent, mark, node, unread, value
from gpuassay.judge.fact import Read

LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max cpu time              unlimited            unlimited            seconds
Max locked memory         {soft:<20} {hard:<20} bytes
Max address space         unlimited            unlimited            bytes
"""


@pytest.mark.parametrize(
    ("soft", "hard", "told"),
    [
        ("unlimited", "unlimited", "unlimited"),
        ("65536", "65536", "64 KiB"),
        ("8388608", "unlimited", "8 MiB"),
        ("67108864000", "67108864000", "64000 MiB"),
        ("1000", "1000", "1000 bytes"),
        ("0", "0", "0 bytes"),
    ],
)
def test_the_soft_limit_is_what_a_job_has(soft: str, hard: str, told: str) -> None:
    """A job that asks for nothing gets the soft limit; the note has both."""
    fact = node({"limits": LIMITS.format(soft=soft, hard=hard)}).memlock
    assert fact == Read(told, "nodes/n1#1", f"RLIMIT_MEMLOCK in bytes: soft {soft}, hard {hard}")


@pytest.mark.parametrize(
    "limits",
    ["", "Max locked memory", LIMITS.format(soft="unlimited", hard=""), LIMITS.format(soft="lots", hard="0")],
)
def test_limits_without_that_line_are_garbled(limits: str) -> None:
    """A file that is not the kernel's must not read as unlimited."""
    assert unread(node({"limits": limits}).memlock).kind == "garbled"


@pytest.mark.parametrize(
    ("state", "status", "synchronized"),
    [
        (0, 0x2001, True),
        (1, 0x2011, True),  # a leap second is announced: the clock is fine
        (5, 0x0040, False),
        (0, 0x0041, False),
        (5, 0x2001, False),  # TIME_ERROR for another reason, such as a lost pulse signal
    ],
)
def test_the_kernel_tells_whether_its_clock_is_synchronized(
    state: int, status: int, *, synchronized: bool
) -> None:
    """Both the state and the unsynchronized bit count."""
    clock = {"state": state, "status": status, "maxerror_us": 8500}
    assert value(node({"clock": clock}).clock_synchronized) is synchronized
    assert value(node({"clock": clock}).clock_max_error_ms) == 8.5


@pytest.mark.parametrize(
    "clock",
    [
        {"state": True, "status": 0x2001},
        {"state": 0, "status": "0x2001"},
        {"state": 6, "status": 0x2001},
        {"state": 0},
        {"state": mark("denied", "Operation not permitted"), "status": 0},
    ],
)
def test_a_clock_that_cannot_be_read_is_not_synchronized_by_default(clock: dict[str, Any]) -> None:
    """A missing or odd word is unread."""
    assert unread(node({"clock": clock}).clock_synchronized).kind in ("garbled", "denied")


def test_uptime_is_in_hours() -> None:
    """The first number of /proc/uptime is seconds since the boot."""
    assert value(node({"uptime": "7200.00 99.5\n"}).uptime_hours) == 2.0


@pytest.mark.parametrize(
    "uptime", ["", "7200.00", "nan 1", "-7200.00 1", "1e9 1", "9" * 12 + " 1", "inf inf"]
)
def test_an_odd_uptime_is_garbled(uptime: str) -> None:
    """A number that is no time since a boot is no reading."""
    assert unread(node({"uptime": uptime}).uptime_hours).kind == "garbled"


@pytest.mark.parametrize(
    ("contents", "virtual"),
    [
        ({"virt": "kvm\n"}, True),
        ({"virt": "none\n"}, False),
        ({"virt": absent("failed", "exit status 1", out=b"none\n")}, False),
        ({"virt": "docker\n", "cpuinfo": {"hypervisor": True}}, True),
        (
            {"virt": "docker\n", "cpuinfo": {"hypervisor": False}, "host": {"machine": "x86_64"}},
            False,
        ),
        ({"virt": absent("not_found"), "cpuinfo": {"hypervisor": True}}, True),
    ],
)
def test_a_virtual_machine_is_told_from_a_physical_one(contents: dict[str, Any], *, virtual: bool) -> None:
    """In a container the tool names the container; the processor still tells what is below."""
    assert value(node(contents).shows("vm")) is virtual
    assert value(node(contents).shows("bare_metal")) is not virtual


@pytest.mark.parametrize(
    "contents",
    [
        {},
        {"virt": "docker\n"},
        {"virt": "what is this\n"},
        {"virt": "docker\n", "cpuinfo": {"hypervisor": False}, "host": {"machine": "aarch64"}},
        {"virt": "docker\n", "cpuinfo": {"hypervisor": mark("not_found", "no flag")}},
    ],
)
def test_what_cannot_be_told_is_neither(contents: dict[str, Any]) -> None:
    """On Arm no processor flag says "physical"; then nothing does."""
    unread(node(contents).shows("vm"))
    unread(node(contents).shows("bare_metal"))


BOOT = "5d2f7cf0-9b9b-4a53-8f0e-0f6f1d1c2a3b"


@pytest.mark.parametrize(
    ("hostname", "virt", "scheduled", "called"),
    [
        ("n1", "none", "", True),
        ("N1.cluster.example.com", "none", "", True),
        ("ip-10-0-0-7", "none", "", True),  # Kubernetes has this name for it
        ("n11", "none", "", False),
        ("n2", "none", BOOT, False),
        ("n1", "docker", "", True),
        ("3f1c0a", "docker", BOOT, True),
        ("3f1c0a", "docker", BOOT.replace("5", "6"), False),
        ("gpuassay-1a2b-3", "", BOOT, True),
        ("3f1c0a", "docker", "", None),
    ],
)
def test_a_node_is_told_by_its_name_or_its_boot(
    hostname: str, virt: str, scheduled: str, *, called: bool | None
) -> None:
    """Domain and large letters do not count; in a container the boot does, else nothing is known."""
    one = node({"host": {"hostname": hostname}, "virt": virt, "boot-id": f"{BOOT}\n"})
    one.aliases, one.scheduled_boot = ("IP-10-0-0-7.internal",), scheduled
    fact = one.is_called_so
    if called is None:
        assert unread(fact).kind == "denied"
    else:
        assert value(fact) is called


def test_a_node_that_was_asked_for_by_its_address() -> None:
    """Whether it has that address cannot be told from its name."""
    one = node({"host": {"hostname": "n1"}})
    one.name = "10.1.2.3"
    assert "it calls itself n1" in unread(one.is_called_so).why
    one.name, one.aliases = "mine", ("10.1.2.3",)
    assert "it calls itself n1" in unread(one.is_called_so).why
    one.aliases = ("n1.example",)
    assert value(one.is_called_so) is True
    one.aliases = ("n2.example",)
    assert value(one.is_called_so) is False
