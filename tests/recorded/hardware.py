"""What a node says of how its GPUs are set, of its processors and memory, and of its local drives."""

from __future__ import annotations

from typing import Any


def gpu_settings(watts: int, clock: int, memory_clock: int) -> dict[str, Any]:
    """Return what the driver says of a GPU that is as it left the factory."""
    return {
        "mig": 0,
        "mig_pending": 0,
        "persistence": True,
        "power": {"enforced_mw": 1000 * watts, "default_mw": 1000 * watts},
        "clocks": {
            "applications": clock,
            "applications_default": clock,
            "memory": memory_clock,
            "memory_default": memory_clock,
            "max": clock,
        },
    }
