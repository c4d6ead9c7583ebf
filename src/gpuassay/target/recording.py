"""``--target=recording:DIR``: a cluster that was recorded earlier. There is nothing to gather."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def locate(place: Path) -> Path:
    """Return the folder of a recording, given that or the folder of the run which holds it."""
    inner = place / "recording"
    return inner if (inner / "recording.toml").is_file() else place
