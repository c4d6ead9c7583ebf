"""A recording as it is read: everything that can be kept is kept, and what is wrong is said."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from gpuassay.evidence.blobs import BlobError, Blobs
from gpuassay.evidence.files import RecordingError, list_tree, naming, open_regular
from gpuassay.evidence.lines import Stored, load_items
from gpuassay.evidence.meta import Meta, is_node_name, parse_meta
from gpuassay.evidence.sums import Seal, check_sums

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from gpuassay.evidence.item import Item

__all__ = [
    "Meta",
    "NodeEvidence",
    "Recording",
    "RecordingError",
    "read_measurement",
    "read_recording",
    "read_survey",
]


@dataclass(frozen=True, slots=True)
class NodeEvidence:
    """What one node answered, or the cluster as a whole; ``problems`` say what of it cannot be used.

    Large outputs are fetched from their blobs when an item is asked for, and held only by who asked.
    """

    name: str
    problems: tuple[str, ...]
    _place: str
    _stored: tuple[Stored, ...]
    _blobs: Blobs

    @property
    def answered(self) -> bool:
        """Whether anything at all came from it, were it only the word that something failed."""
        return bool(self._stored)

    @property
    def came(self) -> bool:
        """Whether at least one item came as it was asked for."""
        return any(stored.item.status == "ok" for stored in self._stored)

    @property
    def items(self) -> tuple[Item, ...]:
        """All items by rising ``seq``, with their outputs."""
        return tuple(_whole(stored, self._blobs) for stored in self._stored)

    def item(self, item_id: str) -> Item | None:
        """Return the latest item of this id, None if it was never asked."""
        for stored in reversed(self._stored):
            if stored.item.id == item_id:
                return _whole(stored, self._blobs)
        return None

    def ref(self, item: Item) -> str:
        """Return the reference under which reports name an item, e.g. ``nodes/gpu017#12``."""
        return f"{self._place}#{item.seq}"


@dataclass(frozen=True, slots=True)
class Recording:
    """All evidence of one run. ``nodes`` holds the declared ones, also if silent, and all that answered.

    ``digest`` is a hash of the content, the same wherever it lies and whether or not it is sealed.
    ``seal_why`` names what differs from an ``altered`` one's sums. ``problems`` are those of no single node.
    """

    meta: Meta
    nodes: Mapping[str, NodeEvidence]
    cluster: NodeEvidence
    site_text: str | None
    seal: Seal
    seal_why: str
    digest: str
    problems: tuple[str, ...]


def read_recording(path: Path) -> Recording:
    """Read a recording of any schema up to ours.

    Raises ``RecordingError`` only for what is no recording: no readable ``recording.toml`` that says so.
    """
    meta = _read_meta(path)
    problems = [f"recording.toml: {key} is missing" for key in ("begin", "end") if getattr(meta, key) is None]
    with naming(path):
        sealed = check_sums(path)
        regular, other = list_tree(path)
    blobs = Blobs(path)
    names, strays = _node_names((*regular, *other))
    problems += [f"{stray}: not NODE.jsonl; ignored" for stray in strays]
    nodes = {
        name: _read_items(path, f"nodes/{name}", name, blobs) for name in sorted({*names, *meta.declared})
    }
    cluster = _read_items(path, "cluster", "", blobs, must=False)
    return Recording(
        meta=meta,
        nodes=nodes,
        cluster=cluster,
        site_text=_read_site(path, problems),
        seal=sealed.seal,
        seal_why=sealed.why,
        digest=sealed.digest,
        problems=tuple(problems),
    )


def read_measurement(path: Path, measurement: str, nodes: Iterable[str]) -> Mapping[str, NodeEvidence]:
    """Read what a measurement gave on each of these nodes; nothing, where it was not made."""
    blobs = Blobs(path)
    place = f"measure/{measurement}"
    return {name: _read_items(path, f"{place}/{name}", name, blobs, must=False) for name in nodes}


def read_survey(path: Path, measurement: str) -> NodeEvidence:
    """Read what a measurement of the cluster as a whole gave; nothing, where it was not made."""
    return _read_items(path, f"measure/{measurement}", "", Blobs(path), must=False)


def _read_meta(path: Path) -> Meta:
    place = path / "recording.toml"
    try:
        with open_regular(place) as file:
            return parse_meta(file.read())
    except (FileNotFoundError, NotADirectoryError) as error:
        hint = "; this run judged a recording and holds none: name that one" if _is_replay(path) else ""
        raise RecordingError(
            f"{path}: not a recording: expected a folder with a recording.toml{hint}"
        ) from error
    except OSError as error:
        raise RecordingError(f"{place}: {error.strerror}") from error
    except ValueError as error:
        raise RecordingError(f"{place}: {error}") from error


def _is_replay(path: Path) -> bool:
    """Tell whether a folder is that of a run which judged what had been recorded elsewhere."""
    return (path / "results.json").is_file() and not (path / "recording").exists()


def _node_names(files: Iterable[str]) -> tuple[list[str], list[str]]:
    """Tell the node files from what else lies in ``nodes/``."""
    names: list[str] = []
    strays: list[str] = []
    for file in files:
        match PurePosixPath(file).parts:
            case ("nodes", leaf) if leaf.endswith(".jsonl") and is_node_name(leaf.removesuffix(".jsonl")):
                names.append(leaf.removesuffix(".jsonl"))
            case ("nodes", *_):
                strays.append(file)
    return names, strays


def _read_items(path: Path, place: str, name: str, blobs: Blobs, *, must: bool = True) -> NodeEvidence:
    """Read a file of items; one that is missing or unreadable is a node that answered nothing."""
    file = f"{place}.jsonl"
    try:
        with open_regular(path / file) as handle:
            stored, problems = load_items(handle.read(), file)
    except FileNotFoundError:
        stored, problems = [], [f"{file}: no such file"] if must else []
    except OSError as error:
        stored, problems = [], [f"{file}: {error.strerror}"]
    else:
        if must and not stored:
            problems.append(f"{file}: holds no item")
    checked = tuple(_checked(one, blobs, file, problems) for one in stored)
    return NodeEvidence(name, tuple(problems), place, checked, blobs)


def _checked(stored: Stored, blobs: Blobs, file: str, problems: list[str]) -> Stored:
    """Make sure that a blob can be had; the content is not kept, for a large fleet has gigabytes of it."""
    if not stored.blob:
        return stored
    try:
        blobs.load(stored.blob)
    except BlobError as error:
        problems.append(f"{file}: item {stored.item.id}: {error}")
        return Stored(_lost(stored.item, error))
    return stored


def _whole(stored: Stored, blobs: Blobs) -> Item:
    if not stored.blob:
        return stored.item
    try:
        return replace(stored.item, out=blobs.load(stored.blob))
    except BlobError as error:  # it was there when the recording was read
        return _lost(stored.item, error)


def _lost(item: Item, error: BlobError) -> Item:
    return replace(item, status="failed", why=f"the recorded output is lost: {error}")


def _read_site(path: Path, problems: list[str]) -> str | None:
    """Return the site file that was in force, as far as it can be read."""
    try:
        with open_regular(path / "site.toml") as file:
            return file.read().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        problems.append(f"site.toml: not UTF-8: {error.reason}")
    except OSError as error:
        problems.append(f"site.toml: {error.strerror}")
    return None
