"""``live.html``: how far a run is, for who looks on. It asks for nothing, and says how old it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuassay.judge.names import folded
from gpuassay.report.html import page_environment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MOST_ROWS = 30
_ORDER = ("not whole", "asked", "waiting", "done")


def render(document: Mapping[str, Any]) -> str:
    """Write the page: nodes that wait or are done in one row each, the others by what they said last."""
    template = page_environment("live.css", "live.js").get_template("live.html.j2")
    return template.render(run=document, groups=_groups(document["nodes"]))


def _groups(nodes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    groups = []
    for state in _ORDER:
        here = [node for node in nodes if node["state"] == state]
        if here:
            rows = _rows(here) if state in ("not whole", "asked") else [_row(here)]
            groups.append(
                {
                    "state": state,
                    "count": len(here),
                    "rows": rows[:_MOST_ROWS],
                    "more": len(rows[_MOST_ROWS:]),
                }
            )
    return groups


def _rows(nodes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Give a row for all nodes that say the same, the one that has been quiet for longest first."""
    said: dict[str, list[Mapping[str, Any]]] = {}
    for node in sorted(nodes, key=lambda node: -node["quiet"]):
        said.setdefault(node["words"].replace(node["name"], "NODE"), []).append(node)
    return [_row(alike, words) for words, alike in said.items()]


def _row(nodes: Sequence[Mapping[str, Any]], words: str = "") -> dict[str, Any]:
    words = nodes[0]["words"] if len(nodes) == 1 else words
    return {
        "nodes": folded([node["name"] for node in nodes]),
        "words": words,
        "quiet": max(node["quiet"] for node in nodes),
    }
