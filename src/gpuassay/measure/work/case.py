"""One case from beginning to end: verified, timed together with the node's other ranks, verified again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuassay.measure.work import words
from gpuassay.measure.work.formats import UnsupportedError
from gpuassay.measure.work.telemetry import watching
from gpuassay.measure.work.timing import TINY, Plan, time_kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpuassay.measure.work.device import Device
    from gpuassay.measure.work.meeting import Meeting
    from gpuassay.measure.work.timing import Kernel
    from gpuassay.measure.work.verify import Check

    Prepare = Callable[[Mapping[str, Any], Device], "Work"]

_MEMORY_SHARE = 0.6


@dataclass(frozen=True)
class Work:
    """A case made ready on a device.

    ``check`` runs it once and compares with a reference, ``recheck`` counts what has changed under load.
    ``sizes`` are the real ones, which on a processor are tiny; ``via`` names the call that does it.
    """

    kernel: Kernel
    check: Callable[[], Check]
    recheck: Callable[[], int]
    flops: int
    bytes: int
    sizes: Mapping[str, Any]
    via: str


def copies(needed: int, device: Device) -> int:
    """Tell how many sets of operands are rotated, so that no cache still holds what comes next."""
    fit = int(_MEMORY_SHARE * device.free_memory()) // max(1, needed)
    return max(1, min(-(-device.flush // max(1, needed)), fit))


def measure(
    prepare: Prepare, case: Mapping[str, Any], device: Device, plan: Plan, meeting: Meeting
) -> dict[str, Any]:
    """Measure one case; whatever happens to it, the others go on, and the ranks stay together."""
    try:
        work = prepare(case, device)
        found = work.check()
        row: dict[str, Any] = {"status": "ok", **_about(work), **found._asdict()}
    except UnsupportedError as why:
        work, row = None, {"status": "unsupported", "why": str(why)}
    except Exception as error:  # noqa: BLE001 - torch raises whatever its libraries do
        work, row = None, {"status": "failed", "why": words.brief(error)}
    row = {"case": dict(case), **row, "together": meeting.wait()}
    if work is None:
        return row
    try:
        with watching(device) as samples:
            timing = time_kernel(device, work.kernel, plan if device.accelerator else TINY)
        row |= {**timing.document(), "changed": work.recheck(), "samples": list(samples)}
        return row | ({"no_samples": samples.why} if samples.why else {})
    except Exception as error:  # noqa: BLE001 - as above
        return row | {"status": "failed", "why": words.brief(error)}


def _about(work: Work) -> dict[str, Any]:
    return {"flops": work.flops, "bytes": work.bytes, "sizes": dict(work.sizes), "via": work.via}
