"""NVIDIA GPUs through the driver's management library, asked by nvidia-ml-py in a child process.

The child tells each value as soon as it has it. A call that hangs, or kills the child, costs that value and
the rest of that GPU; a fresh child goes on with the next GPU, for a driver often answers for the others.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from gpuassay.probe import nvmlcalls
from gpuassay.probe.answer import Answer, document, unread
from gpuassay.probe.children import Child, Lost, send
from gpuassay.probe.nvmlcalls import HANDLE, INIT, SYSTEM, VERSION, Call, Refusal
from gpuassay.probe.nvmlhealth import HEALTH
from gpuassay.probe.nvmllinks import NVLINK

if TYPE_CHECKING:
    from types import ModuleType

    from gpuassay.probe.items import Question

DEVICE = (*nvmlcalls.DEVICE, *HEALTH, *NVLINK)
"""All that is asked of a GPU, in the order of asking."""

STALL_S = 10.0
"""How long one call may take once the library is open. To open it may take all that is left of the deadline:
to initialise 8 GPUs that keep no state between users (persistence mode off) takes the driver many seconds."""


def ask(question: Question, stall_s: float = STALL_S) -> Answer:
    """Read all GPUs; what did not answer is in the document, as unread. Raises Stop."""
    sight = _Sight()
    until = time.monotonic() + question.deadline_s
    while not sight.whole and time.monotonic() < until:
        with Child(partial(_tell, len(sight.devices))) as child:
            sight.follow(child, stall_s, until)
    sight.give_up(unread("timed_out", f"not reached within {question.deadline_s:g} s"))
    return sight.answer()


def _tell(first: int, news: int) -> None:
    """Tell, in the child, the system's values and then those of the GPUs from ``first`` on."""
    try:
        nvml = nvmlcalls.load()
        try:
            nvmlcalls.call(nvml, INIT)
        finally:
            send(news, ["system", VERSION.key, nvmlcalls.answer(nvml, VERSION)])
    except Refusal as refusal:
        send(news, ["refused", "", refusal.value])
        return
    system = {}
    for call in SYSTEM:
        system[call.key] = nvmlcalls.answer(nvml, call)
        send(news, ["system", call.key, system[call.key]])
    count = system["count"]
    for index in range(first, count if isinstance(count, int) else 0):
        _tell_device(nvml, index, news)


def _tell_device(nvml: ModuleType, index: int, news: int) -> None:
    try:
        device = nvmlcalls.call(nvml, HANDLE, index)
    except Refusal as refusal:
        send(news, ["device", "", refusal.value])
        return
    send(news, ["device", "", {}])
    for call in DEVICE:
        send(news, ["value", call.key, nvmlcalls.answer(nvml, call, device)])


class _Sight:
    """What has been told so far, and what is still to come."""

    def __init__(self) -> None:
        self.devices: list[dict[str, Any]] = []
        self._system: dict[str, Any] = {}
        self._refusal: dict[str, Any] = {}
        self._to_come: list[Call] = []  # of the last GPU

    @property
    def whole(self) -> bool:
        """Tell whether nothing more is to come."""
        count = self._system.get("count")
        if self._refusal or isinstance(count, dict):
            return True
        return count is not None and len(self.devices) >= count and not self._to_come

    def follow(self, child: Child, stall_s: float, until: float) -> None:
        """Take what a child tells, until all is told or it tells no more."""
        is_open = False
        while not self.whole:
            left_s = until - time.monotonic()
            message = child.next(min(stall_s, left_s) if is_open else left_s)
            if isinstance(message, Lost):
                lose = self._lose if is_open else self.give_up
                lose(unread(message.kind, message.why))
                return
            self._note(*message)
            is_open = is_open or message[1] == SYSTEM[0].key

    def give_up(self, value: dict[str, Any]) -> None:
        """Let ``value`` stand for all that is still to come."""
        while not self.whole:
            self._lose(value)

    def answer(self) -> Answer:
        """Give the document; where nothing of a GPU can be known, with the reason as the item's own."""
        why = self._refusal or self._system.get("count")
        out = document({**self._system, "devices": self.devices}) if self._system else b""
        if isinstance(why, dict):
            return Answer(status=why["unread"], why=why["why"], out=out)
        return Answer(out=out)

    def _note(self, what: str, key: str, value: Any) -> None:
        if what == "refused":
            self.give_up(value)
        elif what == "system":
            self._system[key] = value
        elif what == "device":
            self._begin(value)
        else:
            _put(self.devices[-1], self._to_come.pop(0).key, value)

    def _begin(self, refusal: dict[str, Any]) -> None:
        self.devices.append({"index": len(self.devices), **refusal})
        self._to_come = [] if refusal else list(DEVICE)

    def _lose(self, value: dict[str, Any]) -> None:
        """Let ``value`` stand for the call that did not answer, and for the rest of that GPU."""
        if "count" not in self._system:
            self._refusal = value
        elif not self._to_come:
            self._begin(_of(HANDLE, value))
        else:
            silent, *rest = self._to_come
            _put(self.devices[-1], silent.key, _of(silent, value))
            skipped = unread(value["unread"], f"not asked: {silent.function} gave no answer")
            for call in rest:
                _put(self.devices[-1], call.key, skipped)
            self._to_come = []


def _of(call: Call, value: dict[str, Any]) -> dict[str, Any]:
    return {**value, "why": f"{call.function}: {value['why']}"}


def _put(device: dict[str, Any], key: str, value: Any) -> None:
    """Put a value in its place; below one that could not be read there is none."""
    *above, last = key.split(".")
    for name in above:
        device = device.setdefault(name, {})
    if "unread" not in device:
        device[last] = value
