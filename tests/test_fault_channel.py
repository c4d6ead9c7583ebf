"""What is only told of is judged by what the provider has said that its tooling reads."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpuassay.facts.fault_channel import heard
from gpuassay.judge.fact import Read, Unread
from recorded import faults

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuassay.facts.fault_trial import FaultTrial

_ARGS = {"xids": "79", "watch_s": 600, "mend_s": 240}


def trial(fault: str, channels: Sequence[str], *, noticed: bool) -> FaultTrial:
    """Read a trial on a cluster that declares these channels, where the fault was noticed or not."""
    make = faults.slurm_trial if noticed else faults.spared_trial
    items = make("x", fault, _ARGS, "gpu001", "seen")
    named = [replace(item, id=item.id.removeprefix("survey/x/")) for item in items]
    (found,) = heard([(item, item.id) for item in named], channels)
    return found


@pytest.mark.parametrize(("fault", "channel"), [("kernel_log", "kmsg"), ("dcgm", "dcgm")])
def test_a_miss_counts_where_the_channel_is_declared(fault: str, channel: str) -> None:
    """On a declared channel a miss is one; on any other it proves nothing, and is unseen."""
    declared = trial(fault, [channel], noticed=False)
    assert isinstance(declared.detected, Read)
    assert declared.detected.value is False
    other = trial(fault, [], noticed=False)
    for fact in (other.detected, other.detect_s, other.isolated, other.isolate_s, other.taken_out):
        assert isinstance(fact, Unread)
        assert fact.kind == "denied"
        assert f"does not say that anybody reads {channel}" in fact.why


def test_what_tooling_did_counts_everywhere() -> None:
    """A node that is drained proves that somebody reads there, whatever was declared."""
    found = trial("kernel_log", [], noticed=True)
    assert isinstance(found.detected, Read)
    assert found.detected.value
    assert isinstance(found.taken_out, Read)
    assert found.taken_out.value


def test_a_real_fault_needs_no_declaration() -> None:
    """A daemon that hangs is a fault wherever it is: nobody has to say that it is looked for."""
    found = trial("service", [], noticed=False)
    assert isinstance(found.detected, Read)
    assert found.detected.value is False


def test_tooling_may_be_quicker_than_the_proof() -> None:
    """What was seen between the fault and its proof came of it: it is no baseline, and took no time."""
    begun = [
        replace(item, asked={**item.asked, "since_s": faults.ARMED + 0.1})
        if item.id == "survey/x/inject"
        else item
        for item in faults.slurm_trial("x", "service", _ARGS, "gpu001", "seen")
    ]
    early = [
        replace(item, asked={**item.asked, "at_s": faults.BROKEN - 0.01})
        if item.asked.get("at_s") == faults.SEEN
        else item
        for item in begun
    ]
    named = [replace(item, id=item.id.removeprefix("survey/x/")) for item in early]
    (found,) = heard([(item, item.id) for item in named], ())
    assert isinstance(found.isolate_s, Read)
    assert found.isolate_s.value == 0
    assert isinstance(found.detect_s, Read)
