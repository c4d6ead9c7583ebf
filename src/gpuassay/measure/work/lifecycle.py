"""What a user waits for before any work is done: packages are installed, imported, and a server comes up.

On each file system that was declared, in a folder that is removed again. It is run by one rank of a node, in
which torch is not loaded: what a process has mapped cannot leave the page cache.
"""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

from gpuassay.measure.work import imports, install, serving
from gpuassay.measure.work.scratch import Scratch, room

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Measure = Callable[[Scratch, Mapping[str, Any]], dict[str, Any]]

METHOD = 1
STEPS: Mapping[str, Measure] = {
    "install": install.measure,
    "import": imports.measure,
    "serve": serving.measure,
}


def bare(order: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Give a row for each file system, and one for the Python of the site as it lies, where that is asked."""
    step = str(order["args"]["step"])
    mounts = order["mounts"] or ([{"path": tempfile.gettempdir(), "role": "none"}] if order["tiny"] else [])
    rows = [_on(mount, STEPS[step], order) for mount in mounts]
    return [imports.in_place(order), *rows] if step == "import" else rows


def _on(mount: Mapping[str, Any], measure: Measure, order: Mapping[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {"mount": mount["path"], "role": mount["role"]}
    try:
        with Scratch(mount["path"]) as scratch:
            row |= room(scratch.path)
            return {**row, "status": "ok", **measure(scratch, order)}
    except Exception as error:  # noqa: BLE001 - whatever happens on one, the others go on
        first = str(error).strip().splitlines()[:1]
        return {
            **row,
            "status": "failed",
            "why": f"{type(error).__name__}: {first[0][:300] if first else ''}",
        }
