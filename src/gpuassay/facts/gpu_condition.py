"""What a GPU is doing: what holds its clocks down, how hot it is, who uses it, what it draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuassay.facts.gpu_told import Told
from gpuassay.facts.record import mapped
from gpuassay.facts.text import graver
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from gpuassay.facts.record import Record
    from gpuassay.judge.fact import Fact

# nvml.h, nvmlClocksEventReason*; before R535 the same bits were called throttle reasons. Bits that say why
# clocks are as they should be (idle, a set clock, the power cap under load, sync boost, a display) are fine.
_SW_THERMAL, _HW_SLOWDOWN, _HW_THERMAL, _POWER_BRAKE = 0x20, 0x08, 0x40, 0x80
_HARMFUL: Final = {
    _HW_SLOWDOWN: "HW slowdown",
    _HW_THERMAL: "HW thermal slowdown",
    _POWER_BRAKE: "HW power brake",
    _SW_THERMAL: "SW thermal slowdown",
}
_KNOWN_REASONS = 0x1FF

# Temperature and T.Limit add up to the highest temperature of operation (85 to 90 C so far). Where they do
# not, one of the two is wrong, and a cool GPU must not be called hot (gpud, pull request 1208).
_PLAUSIBLE_LIMIT = range(70, 131)
_MOST_C = 200
_INITIAL_NAMESPACE = "pid:[4026531836]"  # linux/proc_ns.h, PROC_PID_INIT_INO: that of the machine itself
_AT_WORK = ("it is at work", "it is in use")
_MIB = 1 << 20


class Condition(Told):
    """What the driver says of one GPU at the moment of asking."""

    # --- clocks and heat -------------------------------------------------------------------------

    @property
    def power_brake(self) -> Fact[bool]:
        """Whether the machine's power delivery holds the clocks down."""
        return self._reason(_POWER_BRAKE)

    @property
    def hw_thermal_slowdown(self) -> Fact[bool]:
        """Whether the hardware holds the clocks down because of heat."""
        return self._reason(_HW_THERMAL)

    @property
    def hw_slowdown(self) -> Fact[bool]:
        """Whether the hardware holds the clocks down, for whatever reason."""
        return self._reason(_HW_SLOWDOWN)

    @property
    def sw_thermal_slowdown(self) -> Fact[bool]:
        """Whether the driver holds the clocks down because of heat."""
        return self._reason(_SW_THERMAL)

    def _reason(self, bit: int) -> Fact[bool]:
        """Read one bit of the mask; the note names all harmful ones, and leaves out the benign."""
        mask = self._seen(self._entry.count("clock_event_reasons", most=0xFFFFFFFF))
        if isinstance(mask, Unread):
            return mask
        names = [name for one, name in _HARMFUL.items() if mask.value & one]
        if mask.value & ~_KNOWN_REASONS:
            names.append(f"bits without a published meaning {mask.value & ~_KNOWN_REASONS:#x}")
        note = f"the GPU holds its clocks down: {', '.join(names)}" if names else ""
        return Read(bool(mask.value & bit), mask.evidence, note)

    @property
    def thermal_margin_c(self) -> Fact[int]:
        """How many degrees are left until the hardware slows the GPU down.

        From Ada on the driver tells margins, before that temperatures; where it tells both, margins count.
        """
        margin, limit = self._margin(), self._absolute()
        if isinstance(margin, Read) or isinstance(limit, Unread):
            return margin if isinstance(margin, Read) else self._seen(graver(margin, _of(limit)))
        return limit

    def _margin(self) -> Fact[int]:
        heat = self._entry.record("temperature")
        degrees = _degrees(heat, "gpu_c")
        left = _degrees(heat, "tlimit_c")
        slowdown = _degrees(self._entry.record("fields"), "slowdown_tlimit_c")
        for fact in (left, slowdown, degrees):
            if isinstance(fact, Unread):
                return fact
        gpu_c, left_c, slowdown_c = (
            fact.value for fact in (degrees, left, slowdown) if isinstance(fact, Read)
        )
        if gpu_c + left_c not in _PLAUSIBLE_LIMIT:
            return Unread("garbled", f"{gpu_c} C and {left_c} C left cannot both be right", left.evidence)
        note = f"{gpu_c} C; T.Limit {left_c} C, the hardware slows down at {slowdown_c} C"
        return Read(left_c - slowdown_c, left.evidence, note)

    def _absolute(self) -> Fact[int]:
        heat = self._entry.record("temperature")
        gpu, slowdown = _degrees(heat, "gpu_c"), _degrees(heat, "slowdown_c")
        if isinstance(gpu, Unread):
            return gpu
        if isinstance(slowdown, Unread):
            return slowdown
        if slowdown.value not in _PLAUSIBLE_LIMIT:
            return Unread("garbled", f"slowdown at {slowdown.value} C cannot be right", slowdown.evidence)
        best = Read(
            slowdown.value - gpu.value, gpu.evidence, f"{gpu.value} C; slows down at {slowdown.value} C"
        )
        memory, most = _degrees(self._entry.record("fields"), "memory_c"), _degrees(heat, "memory_max_c")
        if isinstance(memory, Read) and isinstance(most, Read) and most.value in _PLAUSIBLE_LIMIT:
            note = f"memory {memory.value} C, at most {most.value} C"
            best = min(
                best, Read(most.value - memory.value, memory.evidence, note), key=lambda one: one.value
            )
        return best

    # --- what it is doing ------------------------------------------------------------------------

    @property
    def at_work(self) -> Fact[bool]:
        """Whether it computes, or a process uses it."""
        work = self._work(also_held=True)
        if work is None:
            return Read(value=False)
        known = work.kind == "denied" and work.why.startswith(_AT_WORK)
        return Read(value=True, evidence=work.evidence, note=work.why) if known else work

    @property
    def idle_power_w(self) -> Fact[float]:
        """What it draws while it does nothing; unseen while it works."""
        work = self._work(also_held=True)
        return work or self._seen(
            mapped(self._entry.record("usage").count("power_mw", most=10_000_000), lambda mw: mw / 1000)
        )

    @property
    def held_mib(self) -> Fact[float]:
        """How much of its memory is in use although it does nothing; unseen while it works."""
        fact = (
            self._work(also_held=False)
            or self._shared()
            or self._seen(self._entry.record("usage").count("memory_bytes"))
        )
        if isinstance(fact, Unread):
            return fact
        return Read(round(fact.value / _MIB, 1), fact.evidence, self._users())

    @property
    def orphaned_mib(self) -> Fact[float]:
        """How much of its memory is in use although no process uses it: a process died and left it."""
        held, users = self.held_mib, self._entry.record("usage").record("processes")
        count, namespace = users.count("count"), users.text("namespace", r"pid:\[\d{1,20}\]", "a namespace")
        if isinstance(held, Unread):
            return held
        if isinstance(count, Unread):
            return self._seen(count)
        if count.value or not held.value:
            return Read(0.0, count.evidence)
        if isinstance(namespace, Unread) or namespace.value != _INITIAL_NAMESPACE:
            return Unread("denied", "processes outside this container cannot be seen", count.evidence)
        return held

    def _work(self, *, also_held: bool) -> Unread | None:
        """Say why it cannot be told what the GPU is like when idle: it is not, or nobody knows."""
        busy = self._seen(self._entry.record("usage").count("busy_percent", most=100))
        if isinstance(busy, Unread):
            return busy
        if busy.value:
            return Unread("denied", f"{_AT_WORK[0]}, {busy.value} % busy: {self._users()}", busy.evidence)
        count = self._entry.record("usage").record("processes").count("count")
        if also_held and isinstance(count, Read) and count.value:
            return Unread("denied", f"{_AT_WORK[1]}: {self._users()}", count.evidence)
        return None

    def _shared(self) -> Unread | None:
        """Say that the kernel may use this memory as its own, so that what is in use proves nothing."""
        mode = self._entry.text("addressing", r"\w{1,8}")
        if isinstance(mode, Read) and mode.value == "ATS":
            return Unread("unsupported", "the kernel may use this GPU's memory as its own", mode.evidence)
        return None

    def _users(self) -> str:
        users = self._entry.record("usage").record("processes")
        count, listed = users.count("count"), users.listed("listed")
        if isinstance(count, Unread) or isinstance(listed, Unread):
            return "by whom is not known"
        if not count.value:
            return "no process is listed"
        pids = [
            pid.value for pid in (user.count("pid") for user in listed.value[:4]) if isinstance(pid, Read)
        ]
        return f"{count.value} processes, pid {', '.join(map(str, pids))}"


def _degrees(record: Record, key: str) -> Fact[int]:
    fact = record.look(key)
    if isinstance(fact, Unread) or (type(fact.value) is int and abs(fact.value) <= _MOST_C):
        return fact
    return record.garbled(key, fact.value, "a temperature")


def _of(fact: Fact[int]) -> Unread:
    return fact if isinstance(fact, Unread) else Unread("not_found", "no temperature")
