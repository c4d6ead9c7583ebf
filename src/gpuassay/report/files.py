"""Write every report of a run into its folder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gpuassay.evidence.files import write_atomic
from gpuassay.report import html, junit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.evidence.run import RunFolder


def write_reports(run: RunFolder, results: Mapping[str, Any]) -> None:
    """Write ``results.json`` first, then what is rendered from it. Raises RecordingError naming the file."""
    text = json.dumps(results, ensure_ascii=False, allow_nan=False, indent=1) + "\n"
    for path, content in (
        (run.results, text),
        (run.junit, junit.render(results)),
        (run.html, html.render(results)),
    ):
        write_atomic(path, content.encode("utf-8", "replace"))
