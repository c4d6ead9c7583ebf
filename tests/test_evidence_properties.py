"""Properties of recordings: they round-trip, never raise on damage, and show it."""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuassay.evidence.item import Item
from gpuassay.evidence.lines import load_items
from gpuassay.evidence.meta import Meta, dump_meta, parse_meta
from gpuassay.evidence.recording import RecordingError, read_recording
from gpuassay.evidence.run import Journal, read_journal
from gpuassay.evidence.writer import RecordingWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLE = Path(__file__).parent.parent / "fixtures" / "examples" / "schema-1"
FILES = sorted(path.relative_to(EXAMPLE).as_posix() for path in EXAMPLE.rglob("*") if path.is_file())
NOW = datetime(2026, 11, 2, tzinfo=UTC)

names = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,20}", fullmatch=True)
text = st.text(st.characters(exclude_categories=["Cs"]))
outputs = st.one_of(
    st.binary(), text.map(str.encode), st.integers(65_530, 65_545).map(lambda size: b"\xc3\xa9" * (size // 2))
)
items = st.builds(
    Item,
    id=st.sampled_from(["host", "nvml", "measure.gemm-1"]),
    seq=st.integers(0, 2**70),
    status=st.sampled_from(["ok", "not_found", "denied", "timed_out", "failed", "unsupported"]),
    asked=st.one_of(
        st.just({}), st.fixed_dictionaries({"command": st.lists(text)}), st.fixed_dictionaries({"file": text})
    ),
    exit=st.one_of(st.none(), st.integers()),
    seconds=st.one_of(st.none(), st.floats(0, 1e9)),
    out=outputs,
    err=text,
    why=text,
    truncated=st.booleans(),
)
times = st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - bounds of a strategy are naive
metas = st.builds(
    Meta,
    target=text,
    probe=text,
    cluster=text,
    begin=st.none() | times,
    end=st.none() | times,
    declared=st.lists(names).map(tuple),
    synthetic=st.booleans(),
    clock_offset_seconds=st.dictionaries(names, st.floats(-1e6, 1e6)),
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
sane = {
    "id": st.just("host"),
    "seq": st.integers(0, 3),
    "status": st.just("ok"),
    "asked": st.just({"file": "/x"}),
    "exit": st.just(0),
    "seconds": st.just(0.5),
    "out": st.text(),
    "out_b64": st.just("eA=="),
    "blob": st.just("0" * 64),
    "err": st.text(),
    "why": st.text(),
    "truncated": st.booleans(),
}
near_items = st.fixed_dictionaries({}, optional={key: one | values for key, one in sane.items()})


@contextmanager
def scratch() -> Iterator[Path]:
    """Give a folder for one example; a fixture would give one for all."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name) / "r"


@given(st.lists(items, max_size=4, unique_by=lambda item: item.seq), names)
@settings(deadline=None, max_examples=50)
def test_items_round_trip(written: list[Item], node: str) -> None:
    """What was added to a node is what its evidence holds, to the byte."""
    with scratch() as folder:
        writer = RecordingWriter(folder, Meta(declared=(node,)))
        for item in written:
            writer.add(node, item)
        writer.finish(NOW)
        recording = read_recording(folder)
        assert recording.seal == "sealed"
        evidence = recording.nodes[node]
        assert evidence.items == tuple(sorted(written, key=lambda item: item.seq))
        assert evidence.problems == (() if written else (f"nodes/{node}.jsonl: no such file",))


@given(metas)
def test_meta_round_trips(meta: Meta) -> None:
    """What a recording says of itself survives its file."""
    assert parse_meta(dump_meta(meta)) == meta


@given(st.binary(max_size=2000), st.binary(max_size=500))
@settings(deadline=None, max_examples=100)
def test_no_bytes_raise(node: bytes, cluster: bytes) -> None:
    """Whatever the files of a node and of the cluster hold, the recording is read."""
    with scratch() as folder:
        RecordingWriter(folder, Meta(begin=NOW, end=NOW))
        (folder / "nodes" / "a.jsonl").write_bytes(node)
        (folder / "cluster.jsonl").write_bytes(cluster)
        (folder / "site.toml").write_bytes(cluster)
        recording = read_recording(folder)
        assert recording.nodes["a"].answered == bool(recording.nodes["a"].items)


@given(near_items)
def test_no_values_raise(document: dict[str, object]) -> None:
    """Any JSON under any key is read, and an item is ok only if it says so and its output is beyond doubt."""
    stored, problems = load_items(json.dumps(document).encode(), "nodes/a.jsonl")
    contents = [document[key] for key in ("out", "out_b64", "blob") if document.get(key) is not None]
    assert stored or problems
    "".join(problems).encode()  # a report can write it
    for item in (one.item for one in stored):
        f"{item.id}{item.err}{item.why}".encode()
        if item.status == "ok":
            assert document["status"] == "ok"
            assert [type(content) for content in contents] in ([], [str])


@given(st.binary(max_size=300))
def test_no_toml_raises_anything_else(data: bytes) -> None:
    """The strict file is refused with one kind of error."""
    with suppress(ValueError):
        assert parse_meta(data).schema == 1


@given(st.sampled_from(FILES), st.data())
@settings(deadline=None, max_examples=150)
def test_a_truncated_recording_is_never_sealed(file: str, data: st.DataObject) -> None:
    """Cut any file of a sealed recording anywhere, the seal's own too: it is noticed."""
    with scratch() as folder:
        shutil.copytree(EXAMPLE, folder)
        content = (folder / file).read_bytes()
        (folder / file).write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
        try:
            assert read_recording(folder).seal == "altered"
        except RecordingError:
            assert file == "recording.toml"


@given(st.binary(max_size=500))
@settings(deadline=None, max_examples=50)
def test_a_damaged_journal_keeps_its_lines(damage: bytes) -> None:
    """Whatever follows the last whole line of a journal, the lines before it are read."""
    with scratch() as folder:
        journal = Journal(folder.parent / "journal.jsonl")
        journal.begin({})
        journal.check("a", {"verdict": "pass"})
        with journal.path.open("ab") as file:
            file.write(damage)
        assert read_journal(journal.path).checks["a"] == {"verdict": "pass"}
