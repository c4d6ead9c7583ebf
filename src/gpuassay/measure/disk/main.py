"""One node: takes its order, works in each mount in turn, and prints one JSON document."""

from __future__ import annotations

import json
import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpuassay.measure.disk import commands, place

if TYPE_CHECKING:
    from types import ModuleType


def main(order: dict[str, Any]) -> int:
    """Carry out ``order``: a tool by name, its mounts and arguments. Gives the exit status.

    One that lasts keeps a journal of its own, line by line.
    """
    place.end_tidily()
    paper = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # the document alone goes where it is read
    tool = import_module(f"gpuassay.measure.disk.{order['module']}")
    if order.get("lasts"):
        with paper:
            return int(tool.keep_journal(order, paper))
    found = commands.find(*tool.NAMES) if tool.NAMES else "-"
    document: dict[str, Any] = {"tool": order["tool"], "method": order["method"], "found": found}
    if not found:
        document["failed"] = f"none of {', '.join(tool.NAMES)} is here: {order['get']}"
    else:
        document["version"] = tool.version(found)
        document["rows"] = [_on(tool, found, mount, order) for mount in order["mounts"]]
    with paper:
        paper.write(json.dumps(document) + "\n")
    return 127 if "failed" in document else 0


def _on(tool: ModuleType, found: str, mount: str, order: dict[str, Any]) -> dict[str, Any]:
    """Work in one mount; whatever happens there, the others are measured too."""
    row: dict[str, Any] = {"mount": mount}
    try:
        with place.folder(mount) as folder:
            row |= {"folder": str(folder), "fs": place.about(folder)}
            row |= {"status": "ok", **tool.measure(found, folder, order, row["fs"]["free"])}
            row["left"] = place.about(folder)["free"]
    except place.NoPlaceError as why:
        row |= {"status": "denied", "why": str(why)}
    except Exception as error:  # noqa: BLE001 - one mount must not take the figures of the others away
        row |= {"status": "failed", "why": f"{type(error).__name__}: {error}"[:500]}
    return row
