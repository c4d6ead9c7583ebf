"""Lines between probe and controller: what was sent comes out whole, and any damage is noticed."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuassay.probe import frames
from gpuassay.probe.frames import Frames, frame

ITEMS = st.lists(
    st.dictionaries(st.text(max_size=5), st.text(max_size=50) | st.integers(), max_size=3), max_size=5
)
NOISE = st.binary(max_size=30).filter(lambda noise: b"@" not in noise)


def end(count: int) -> bytes:
    """Write the last line."""
    return frame({"end": {"items": count}})


def read(data: bytes, size: int = 1 << 20) -> tuple[list[dict[str, Any]], Frames]:
    """Feed bytes in pieces of a size."""
    reader = Frames()
    pieces = (data[start : start + size] for start in range(0, len(data), size))
    return [item for piece in pieces for item in reader.feed(piece)], reader


@settings(deadline=None)
@given(ITEMS, st.lists(NOISE, min_size=6, max_size=6), st.integers(1, 100))
def test_what_was_sent_comes_out(items: list[dict[str, Any]], noise: list[bytes], size: int) -> None:
    """Items come out as they were, in pieces of any size, with noise between and before them."""
    lines = [frame({"item": item}) for item in items] + [end(len(items))]
    data = b"".join(before + line for before, line in zip(noise, lines, strict=False))
    found, reader = read(data, size)
    assert found == items
    assert reader.ended
    assert reader.problems == []


@settings(deadline=None)
@given(ITEMS.filter(bool), st.data())
def test_a_damaged_byte_is_noticed(items: list[dict[str, Any]], data: st.DataObject) -> None:
    """A byte that is changed within a line costs that item and is reported; it never changes one."""
    lines = [frame({"item": item}) for item in items]
    victim = data.draw(st.integers(0, len(lines) - 1))
    place = data.draw(st.integers(len(b"@gpuassay1 "), len(lines[victim]) - 2))
    line = bytearray(lines[victim])
    line[place] = data.draw(st.integers(33, 126).filter(lambda byte: byte != line[place]))
    lines[victim] = bytes(line)
    found, reader = read(b"".join(lines) + end(len(items)))
    assert found == items[:victim] + items[victim + 1 :]
    assert len(reader.problems) == 2  # the line, and the count


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_garbage_is_no_item(garbage: bytes) -> None:
    """Whatever comes, with the mark or without, nothing is made of it and nothing breaks."""
    found, reader = read(garbage + b"\n@gpuassay1 " + garbage + b"\n")
    assert found == []
    assert not reader.ended
    assert reader.problems


@pytest.mark.parametrize("message", [None, [], {}, {"item": 1}, {"end": []}, "item"])
def test_a_sound_line_that_says_nothing(message: Any) -> None:
    """A checksum alone makes no message."""
    found, reader = read(frame(message))
    assert found == []
    assert not reader.ended


def test_a_probe_that_is_cut_has_not_ended() -> None:
    """Lines that came whole are kept; half a line is none, and the end has not come."""
    found, reader = read(frame({"item": {"id": "host"}}) + frame({"item": {"id": "pci"}})[:-10])
    assert found == [{"id": "host"}]
    assert not reader.ended


def test_a_lost_line_is_counted() -> None:
    """The last line says how many there were."""
    _, reader = read(frame({"item": {}}) + end(2))
    assert reader.ended
    assert reader.problems == ["1 of 2 lines of the probe came"]


def test_noise_without_an_end_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that never ends does not fill memory, and what comes after it is read."""
    monkeypatch.setattr(frames, "_LONGEST_LINE", 100)
    found, reader = read(b"x" * 1000 + b"\n" + frame({"item": {"id": "host"}}), 50)
    assert found == [{"id": "host"}]
    assert reader.problems


def test_a_line_that_unpacks_to_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small line may hold gigabytes: it is damaged."""
    monkeypatch.setattr(frames, "_LARGEST_MESSAGE", 1000)
    body = base64.b64encode(zlib.compress(json.dumps({"item": {"out": "x" * 10_000}}).encode()))
    found, reader = read(b"@gpuassay1 %08x %s\n" % (zlib.crc32(body), body))
    assert found == []
    assert reader.problems == ["a line of the probe is damaged: it holds no message"]
