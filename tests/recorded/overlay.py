"""What a description does to a healthy cluster to make it a faulty one: ``fixtures/recorded/README.md``.

A change that finds nothing to change is an error, so that no description can go stale unnoticed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from gpuassay.evidence.item import Item
from gpuassay.judge.names import expand
from recorded.items import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Change: TypeAlias = Callable[[Item], Item | None]

NOISE = bytes(range(128, 256)) + b"\x00{]\n"
FIELDS = frozenset({"status", "why", "out", "err", "exit", "truncated", "asked"})


class OverlayError(ValueError):
    """An overlay that makes no sense, or changes nothing."""


@dataclass(frozen=True)
class Overlay:
    """One change and where to make it; ``nodes``, ``item`` or ``file`` None does not narrow.

    ``adds``: an item that the healthy node does not have comes with it.
    """

    change: Change
    nodes: frozenset[str] | None = None
    item: str | None = None
    file: str | None = None
    adds: bool = False

    def on_node(self, name: str, items: Sequence[Item]) -> list[Item]:
        """Return the items of a node after this change."""
        elsewhere = self.file is not None or self._of_survey or self._of_cluster
        if elsewhere or (self.nodes is not None and name not in self.nodes):
            return list(items)
        return self._on(name, items)

    def on_surveys(self, items: Sequence[Item]) -> list[Item]:
        """Return what the services of the cluster answer after this change.

        A change of everything need not find anything here: it has to on the nodes.
        """
        if self._of_survey:
            return self._on("the services", items)
        if self.nodes or self.file or self.item not in (None, "*"):
            return list(items)
        return [kept for item in items if (kept := self.change(item)) is not None]

    def on_cluster(self, items: Sequence[Item]) -> list[Item]:
        """Return what was told of the cluster as a whole after this change."""
        return self._on("the cluster", items) if self._of_cluster else list(items)

    @property
    def _of_cluster(self) -> bool:
        return self.item is not None and self.item.startswith(("slurm/", "kubernetes/"))

    @property
    def _of_survey(self) -> bool:
        return self.item is not None and self.item.startswith("survey/")

    def _on(self, name: str, items: Sequence[Item]) -> list[Item]:
        found = [item for item in items if fnmatchcase(item.id, self.item or "*")]
        if self.item and not found:
            if not self.adds:
                raise OverlayError(f"no item {self.item} on {name}")
            found = [Item(self.item, 1 + max((item.seq for item in items), default=0))]
        changed = {item.seq: self.change(item) for item in found}
        if all(changed[item.seq] == item for item in found):
            raise OverlayError(f"changes nothing on {name}")
        kept = {item.seq: item for item in items} | changed
        return [item for item in kept.values() if item is not None]

    def on_file(self, content: Item) -> Item | None:
        """Return a file of the recording after this change; None if it is gone."""
        changed = self.change(content)
        if changed == content:
            raise OverlayError(f"changes nothing in {self.file}")
        return changed


def parse(table: Mapping[str, Any]) -> Overlay:
    """Read one ``[[overlay]]`` table; raise OverlayError for what it does not understand."""
    place = {key: table[key] for key in ("node", "item", "file") if key in table}
    change = {key: value for key, value in table.items() if key not in place}
    if "file" in place and len(place) > 1:
        raise OverlayError("file stands alone: no node, no item")
    nodes = frozenset(expand(place["node"])) if "node" in place else None
    return Overlay(_change(change), nodes, place.get("item"), place.get("file"), "asked" in change)


def younger(seconds: float) -> Overlay:
    """Make the change that takes every node back in time, within its boot."""

    def change(item: Item) -> Item:
        up, idle = item.out.decode().split()
        return replace(item, out=f"{float(up) - seconds:.2f} {idle}\n".encode())

    return Overlay(change, item="uptime")


def _change(table: Mapping[str, Any]) -> Change:
    if "lines" in table:
        within = _change({key: value for key, value in table.items() if key != "lines"})
        return partial(_on_lines, between=table["lines"], change=within)
    match sorted(table):
        case ["set", "to"]:
            return partial(_set, path=table["set"], value=table["to"])
        case ["by", "scale"]:
            return partial(_scale, path=table["scale"], by=table["by"])
        case ["drop"]:
            paths = table["drop"]
            return partial(_drop, paths=[paths] if isinstance(paths, str) else paths)
        case ["find", "replace"]:
            old, new = table["find"].encode(), table["replace"].encode()
            return lambda item: replace(item, out=item.out.replace(old, new))
        case ["append"]:
            more = table["append"].strip("\n").encode()
            return lambda item: replace(item, out=item.out.removesuffix(b"\n") + b"\n" + more)
        case ["cut"]:
            return partial(_cut, at=table["cut"])
        case ["garble"]:
            return lambda item: replace(item, out=NOISE)
        case ["remove"]:
            return _remove
        case [*fields] if fields and FIELDS.issuperset(fields):
            return partial(_with_fields, fields=table)
    raise OverlayError(f"no change is written as {', '.join(table) or 'nothing'}")


def _on_lines(item: Item, between: Sequence[int], change: Change) -> Item:
    """Make a change on each of these lines of a journal, the first one and the last one too."""
    first, last = between
    lines = item.out.splitlines(keepends=True)
    for number in range(first - 1, min(last, len(lines))):
        changed = change(replace(item, out=lines[number]))
        lines[number] = (changed.out.removesuffix(b"\n") + b"\n") if changed else b""
    return replace(item, out=b"".join(lines))


def _cut(item: Item, at: str | bool) -> Item:  # noqa: FBT001 - the overlay's own word
    """Keep what comes before a text, or the first half."""
    if at is True:
        return replace(item, out=item.out[: len(item.out) // 2])
    return replace(item, out=item.out.partition(str(at).encode())[0])


def _remove(_item: Item) -> None:
    """Take an item away."""


def _with_fields(item: Item, fields: Mapping[str, Any]) -> Item:
    """Replace fields of an item: what has a status brought nothing unless the overlay says what."""
    out = fields.get("out", "" if "status" in fields else None)
    return replace(item, **{**fields, "out": item.out if out is None else out.encode()})


def _set(item: Item, path: str, value: object) -> Item:
    document = _document(item)
    for container, key in _places(document, path):
        container[key] = value
    return replace(item, out=encode(document))


def _scale(item: Item, path: str, by: float) -> Item:
    """Multiply numbers, wherever the path leads."""
    document = _document(item)
    for container, key in _places(document, path):
        container[key] *= by
    return replace(item, out=encode(document))


def _drop(item: Item, paths: Sequence[str]) -> Item:
    document = _document(item)
    for container, key in [place for path in paths for place in _places(document, path)][::-1]:
        del container[key]
    return replace(item, out=encode(document))


def _document(item: Item) -> Any:
    try:
        return json.loads(item.out)
    except ValueError:
        raise OverlayError(f"{item.id} holds no JSON document") from None


def _places(document: object, path: str) -> list[tuple[Any, Any]]:
    found = list(_walk(document, path.split(".")))
    if not found:
        raise OverlayError(f"nothing at {path}")
    return found


def _walk(container: object, parts: Sequence[str]) -> Iterator[tuple[Any, Any]]:
    """Yield (container, key) of what a path leads to; the longest key first, as PCI addresses hold dots."""
    keys: Any = container if isinstance(container, dict) else ()
    if isinstance(container, list):
        keys = range(len(container))
    for length in range(len(parts), 0, -1):
        matching = [key for key in keys if fnmatchcase(str(key), ".".join(parts[:length]))]
        for key in matching:
            if length == len(parts):
                yield container, key
            else:
                yield from _walk(container[key], parts[length:])  # type: ignore[index]
        if matching:
            return
