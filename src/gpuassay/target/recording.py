"""``--target=recording:DIR``: a cluster that was recorded earlier. There is nothing to gather."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuassay.evidence.recording import Recording, read_recording

if TYPE_CHECKING:
    from pathlib import Path


def read_target(folder: Path) -> Recording:
    """Read a recording, or that of a run whose folder is given. Raises ``RecordingError``."""
    inner = folder / "recording"
    return read_recording(inner if (inner / "recording.toml").is_file() else folder)
