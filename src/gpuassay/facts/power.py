"""How a host's processors change their frequency, and how deep they sleep."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from gpuassay.facts.record import mapped
from gpuassay.facts.source import document
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from gpuassay.facts.record import Record
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

# With these drivers "powersave" is a name for hardware that scales by itself; with all others it means
# "always the lowest frequency" (kernel documentation: intel_pstate, amd-pstate, cpufreq).
_SCALE_THEMSELVES = frozenset({"intel_pstate", "amd-pstate-epp", "amd_pstate_epp"})
_LOWEST = "powersave, the lowest frequency"
_WORD = r"[\w-]{1,32}"
_KEPT = Unread("denied", "the frequencies are kept by the firmware: no cpufreq is in /sys")
_NUMBER = r"[0-9]{1,12}"


class Processors:
    """The processors of one host. Each fact is that of the worst group; its note names the group."""

    def __init__(self, evidence: Evidence) -> None:
        """Take the evidence of a node."""
        self._cpu = document(evidence, "cpu")

    @cached_property
    def _policies(self) -> Fact[tuple[Record, ...]]:
        """Groups of processors with the same frequency settings; unseen where the firmware keeps them."""
        groups = self._cpu.listed("frequency")
        if isinstance(groups, Read) and not groups.value:
            return Unread(_KEPT.kind, _KEPT.why, groups.evidence)
        return groups

    @property
    def governor(self) -> Fact[str]:
        """The governor, with the energy preference where that decides: ``powersave, balance_performance``."""
        policies = self._policies
        if isinstance(policies, Unread):
            return policies
        said: dict[str, str] = {}
        for policy in policies.value:
            governor, driver = policy.text("scaling_governor", _WORD), policy.text("scaling_driver", _WORD)
            if isinstance(governor, Unread):
                return governor
            if isinstance(driver, Unread):
                return driver
            preference = policy.text("energy_performance_preference", _WORD)
            word = governor.value
            if driver.value in _SCALE_THEMSELVES and word == "powersave":
                word += f", {preference.value}" if isinstance(preference, Read) else ", no preference"
            elif word == "powersave":
                word = _LOWEST
            said.setdefault(word, f"{word} on processors {_cpus(policy)} ({driver.value})")
        worst = max(said, key=lambda word: (word == _LOWEST, word != "performance", word))
        note = "; ".join(said.values())
        return Read(worst, policies.evidence, note if worst != "performance" else "")

    @property
    def held_down(self) -> Fact[bool]:
        """Whether any processor is kept at its lowest frequency."""
        return mapped(self.governor, lambda word: word == _LOWEST)

    @property
    def ceiling(self) -> Fact[float]:
        """The highest frequency that is allowed, as a share of the highest that there is."""
        policies = self._policies
        if isinstance(policies, Unread):
            return policies
        lowest, note = 1.0, ""
        for policy in policies.value:
            allowed, there_is = (
                policy.text("scaling_max_freq", _NUMBER),
                policy.text("cpuinfo_max_freq", _NUMBER),
            )
            if isinstance(allowed, Unread):
                return allowed
            if isinstance(there_is, Unread):
                return there_is
            if not int(there_is.value):
                return policy.garbled("cpuinfo_max_freq", there_is.value, "a frequency")
            share = int(allowed.value) / int(there_is.value)
            if share < lowest:
                lowest = round(share, 4)
                note = f"{allowed.value} of {there_is.value} kHz on processors {_cpus(policy)}"
        return Read(lowest, policies.evidence, note)

    @property
    def wake_up_us(self) -> Fact[int]:
        """How long it takes to wake from the deepest sleep that is allowed, in microseconds."""
        states = self._cpu.listed("idle")
        if isinstance(states, Unread):
            return states
        deepest, note = 0, "no sleeping states: they are kept from the system, or switched off"
        for state in states.value:
            off, latency = state.text("disable", "[01]"), state.text("latency", _NUMBER)
            if isinstance(off, Unread):
                return off
            if isinstance(latency, Unread):
                return latency
            if off.value == "0" and int(latency.value) >= deepest:
                name = state.text("name")
                deepest = int(latency.value)
                note = f"{name.value if isinstance(name, Read) else 'a state'} on processors {_cpus(state)}"
        return Read(deepest, states.evidence, note)


def _cpus(group: Record) -> str:
    cpus = group.text("cpus", r"[0-9,-]{1,4096}")
    return cpus.value if isinstance(cpus, Read) else "of one group"
