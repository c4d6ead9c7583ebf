"""One beat: products and an exchange at the same time, each in a thread and on a stream of its own.

That both really ran at once is seen, not assumed: each has a mark of the device's clock at its begin and its
end, and how much came of each is compared with what it does alone.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpuassay.measure.work.device import Device
    from gpuassay.measure.work.exchange import Exchange
    from gpuassay.measure.work.products import Products

_QUEUED = 2  # marks that may lie ahead: the device never runs dry, and never has more than it can be told off
_CHUNK_S = 0.05


class Lanes:
    """Two streams of a device: the products', which gives way, and the exchange's."""

    def __init__(self, device: Device) -> None:
        """Make the streams; a processor needs none."""
        self.device = device
        self._streams: tuple[Any, Any] | None = None
        if device.accelerator:
            import torch  # noqa: PLC0415 - torch is loaded only where it runs

            self._streams = torch.cuda.Stream(priority=0), torch.cuda.Stream(priority=-1)

    @contextmanager
    def lane(self, number: int) -> Iterator[None]:
        """Work on one of them, from whatever thread."""
        with ExitStack() as stack:
            if self._streams:
                import torch  # noqa: PLC0415

                stack.enter_context(torch.cuda.device(self.device.place))
                stack.enter_context(torch.cuda.stream(self._streams[number]))
            yield


def chunk(seconds: float) -> int:
    """Tell how many calls of so many seconds are queued at once."""
    return max(1, round(_CHUNK_S / max(seconds, 1e-9)))


def repeat(
    device: Device, call: Callable[[int], object], many: int, more: Callable[[int], bool]
) -> dict[str, Any]:
    """Call until there is no ``more``, ``many`` at a time; tells how often, and the marks around it."""
    begin, marks, count = device.mark(), deque[Any](), 0
    while more(count):
        for _ in range(many):
            call(count)
            count += 1
        marks.append(device.mark())
        if len(marks) > _QUEUED:
            marks.popleft().wait()
    end = device.mark()
    end.wait()
    return {"calls": count, "begin": begin, "end": end}


def beat(lanes: Lanes, products: Products, each: int, exchange: Exchange, calls: int) -> dict[str, Any]:
    """Do ``calls`` exchanges, and products for as long as that takes, ``each`` at a time.

    Raises what the exchange raises.
    """
    device, over, found = lanes.device, threading.Event(), dict[str, Any]()
    both = threading.Barrier(2)
    start = device.mark()

    def exchanges() -> None:
        try:
            with lanes.lane(1):
                both.wait()
                found["exchange"] = repeat(device, lambda _: exchange.call(), 1, lambda done: done < calls)
        except Exception as error:  # noqa: BLE001 - it is raised where it can be told
            found["error"] = error
        finally:
            over.set()

    thread = threading.Thread(target=exchanges, daemon=True)
    thread.start()
    with lanes.lane(0):
        both.wait()
        gemm = repeat(device, products.multiply, each, lambda done: not done or not over.is_set())
    thread.join()
    if "error" in found:
        raise found["error"]
    return _told(start, gemm, found["exchange"])


def _told(start: Any, gemm: dict[str, Any], moved: dict[str, Any]) -> dict[str, Any]:
    """Give counts and times, and for how long both were under way."""
    spans = [(start.until(one["begin"]), start.until(one["end"])) for one in (gemm, moved)]
    span = max(end for _, end in spans) - min(begin for begin, _ in spans)
    common = min(end for _, end in spans) - max(begin for begin, _ in spans)
    return {
        "gemm": {"calls": gemm["calls"], "seconds": round(spans[0][1] - spans[0][0], 6)},
        "exchange": {"calls": moved["calls"], "seconds": round(spans[1][1] - spans[1][0], 6)},
        "span": round(span, 6),
        "both": round(max(0.0, common), 6),
    }
