"""Reading recordings: sound ones exactly, damaged ones as far as they go, anything else not at all."""

from __future__ import annotations

import hashlib
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import zstandard

from gpuassay.evidence import blobs
from gpuassay.evidence.item import Item
from gpuassay.evidence.recording import RecordingError, read_recording
from gpuassay.target.recording import locate

EXAMPLES = Path(__file__).parent.parent / "fixtures" / "examples"
SHOWN = EXAMPLES / "hand-written"
HEAD = 'schema = 1\nbegin = "2026-11-02T09:30:00Z"\nend = "2026-11-02T09:31:00Z"\n'
FINE = {"id": "host", "seq": 1, "status": "ok", "out": "x"}


def make(folder: Path, lines: str | bytes = b"", head: str = HEAD) -> Path:
    """Write a recording of one node, ``a``, as a person would."""
    (folder / "nodes").mkdir()
    (folder / "recording.toml").write_text(head)
    (folder / "nodes" / "a.jsonl").write_bytes(lines if isinstance(lines, bytes) else lines.encode())
    return folder


def line(**changes: Any) -> str:
    """Write an item's line; a key that is None is written as null."""
    return json.dumps({**FINE, **changes}) + "\n"


def only(folder: Path) -> tuple[Item, tuple[str, ...]]:
    """Read the one item of node ``a``, and the problems."""
    node = read_recording(folder).nodes["a"]
    (item,) = node.items
    return item, node.problems


def test_hand_written_example() -> None:
    """A recording that was written by hand reads as what it says, and its silent node is silent."""
    recording = read_recording(SHOWN)
    first, second = recording.nodes["gpu001"], recording.nodes["gpu002"]
    assert (recording.seal, recording.problems, recording.cluster.items) == ("unsealed", (), ())
    assert recording.meta.declared == ("gpu001", "gpu002")
    assert recording.meta.clock == datetime(2026, 11, 2, 10, 5, tzinfo=UTC)
    assert recording.meta.synthetic
    assert recording.site_text == (SHOWN / "site.toml").read_text()
    assert (first.answered, first.problems) == (True, ())
    assert [item.id for item in first.items] == ["host", "os-release", "nvml", "nvidia-smi-xml", "kmsg"]
    kmsg = first.item("kmsg")
    assert kmsg is not None
    assert (kmsg.status, first.ref(kmsg)) == ("denied", "nodes/gpu001#5")
    assert (second.answered, second.problems) == (False, ("nodes/gpu002.jsonl: no such file",))


def test_schema_1_is_read_for_ever() -> None:
    """A sealed recording of schema 1, kept as it was written, reads exactly as when it was made."""
    recording = read_recording(EXAMPLES / "schema-1")
    assert (recording.seal, recording.seal_why, recording.problems) == ("sealed", "", ())
    assert recording.digest == "87a0d2e4f08e81abaa29ad3c86896ec86d5388297f3840eb01d451a9095b2a41"
    assert recording.meta.clock_offset_seconds == {"a01": 0.25, "a02": -0.5}
    release, smi, kmsg = recording.nodes["a01"].items
    assert release.out == 'ID=debian\nNAME="Debian é"\n'.encode()
    assert smi == Item(
        id="nvidia-smi-xml",
        seq=2,
        status="failed",
        asked={"command": ["nvidia-smi", "-q", "-x"]},
        exit=9,
        seconds=1.5,
        out=b"\xff\xfe\x00garbled",
        err="NVIDIA-SMI has failed",
        why="exit status 9",
    )
    assert kmsg.truncated
    assert kmsg.out.splitlines()[3999] == b"6,3999,3999000,-;line 3999"
    assert recording.nodes["a01"].problems == ()
    version = recording.cluster.item("slurm-version")
    assert version is not None
    assert (version.out, recording.cluster.ref(version)) == (b"slurm 25.05.3\n", "cluster#1")


def test_digest_is_that_of_the_seal() -> None:
    """Who has only coreutils can check the digest that a report carries."""
    sums = (EXAMPLES / "schema-1" / "SHA256SUMS").read_bytes()
    assert read_recording(EXAMPLES / "schema-1").digest == hashlib.sha256(sums).hexdigest()


def test_latest_item_wins(tmp_path: Path) -> None:
    """Of two items with one id the higher ``seq`` counts, wherever it stands; one never asked is None."""
    node = read_recording(make(tmp_path, line(seq=7, out="new") + line(seq=2, out="old"))).nodes["a"]
    latest = node.item("host")
    assert latest is not None
    assert latest.out == b"new"
    assert [item.seq for item in node.items] == [2, 7]
    assert node.item("nvml") is None


def test_unknown_keys_and_nulls_do_no_harm(tmp_path: Path) -> None:
    """What a later or foreign writer adds is no problem, and null is as good as absent."""
    item, problems = only(make(tmp_path, line(colour="blue", exit=None, err=None), HEAD + "mood = 7\n"))
    assert (item, problems) == (Item("host", 1, out=b"x"), ())


@pytest.mark.parametrize(
    ("changes", "expected", "problem"),
    [
        ({"seq": "1"}, Item("host", 1, out=b"x"), "seq is '1', not a whole number; taken as 1"),
        ({"seq": True}, Item("host", 1, out=b"x"), "seq is True, not a whole number; taken as 1"),
        ({"exit": "0"}, Item("host", 1, out=b"x"), "exit is '0'"),
        ({"exit": False}, Item("host", 1, out=b"x"), "exit is False"),
        ({"seconds": float("nan")}, Item("host", 1, out=b"x"), "seconds is nan"),
        ({"seconds": -1}, Item("host", 1, out=b"x"), "seconds is -1"),
        ({"asked": ["ls"]}, Item("host", 1, out=b"x"), "asked is ['ls']"),
        ({"err": 5}, Item("host", 1, out=b"x"), "err is 5"),
        ({"why": {}}, Item("host", 1, out=b"x"), "why is {}"),
        ({"truncated": "no"}, Item("host", 1, out=b"x", truncated=True), "truncated is 'no'"),
    ],
)
def test_wrong_types_are_dropped_and_told(
    tmp_path: Path, changes: dict[str, Any], expected: Item, problem: str
) -> None:
    """A wrong type costs the value, not the item; an output that may have been cut off counts as cut off."""
    assert only(make(tmp_path, line(**changes))) == (expected, (f"nodes/a.jsonl:1: {problem}",))


@pytest.mark.parametrize(
    ("changes", "doubt"),
    [
        ({"status": "fine"}, "status is 'fine'"),
        ({"status": None}, "status is None"),
        ({"status": ["ok"]}, "status is ['ok']"),
        ({"out": 5}, "out is not a string"),
        ({"out": {"a": 1}}, "out is not a string"),
        ({"out_b64": "eA=="}, "out and out_b64 together"),
        ({"out": None, "out_b64": "?"}, "out_b64: "),
        ({"out": None, "out_b64": "é"}, "out_b64: "),
        ({"out": None, "blob": "../../etc/passwd"}, "blob is not the SHA-256 of an output"),
        ({"out": None, "blob": "0" * 64}, f"blobs/{'0' * 64}.zst: No such file or directory"),
    ],
)
def test_a_doubtful_answer_has_failed(tmp_path: Path, changes: dict[str, Any], doubt: str) -> None:
    """An item that does not say beyond doubt how it ended and what came back is never ok."""
    item, problems = only(make(tmp_path, line(**changes)))
    assert item.status == "failed"
    assert doubt in item.why
    assert len(problems) == 1
    assert doubt in problems[0]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b'{"id": "pci", "se', "cut off"),
        (b"\xff\xfe\n", "not a JSON object"),
        (b"[1]\n", "not a JSON object"),
        (b"[" * 100_000 + b"\n", "not a JSON object"),
        (b'{"id": 5, "seq": 2, "status": "ok"}\n', "id is 5: nothing can ask for this item"),
        (
            b'{"id": "\\ud800\\u0000", "seq": 2, "status": "ok"}\n',
            "id is '?\\x00': nothing can ask for this item",
        ),
        (b'{"seq": 2, "status": "ok"}\n', "id is None: nothing can ask for this item"),
    ],
)
def test_a_damaged_line_costs_only_itself(tmp_path: Path, text: bytes, problem: str) -> None:
    """Whatever stands in a line, the lines beside it are read, and the problem names file and line."""
    item, problems = only(make(tmp_path, line().encode() + b"\n" + text))
    assert (item, problems) == (Item("host", 1, out=b"x"), (f"nodes/a.jsonl:3: {problem}",))


def test_a_last_line_without_its_end_is_read(tmp_path: Path) -> None:
    """An editor that leaves out the last newline has cut off nothing."""
    assert only(make(tmp_path, line().rstrip("\n"))) == (Item("host", 1, out=b"x"), ())


def test_half_a_surrogate_pair_harms_no_output(tmp_path: Path) -> None:
    """JSON can escape what UTF-8 cannot hold; reports must be able to write all that was read."""
    item, _ = only(make(tmp_path, line(why="\ud83d \U0001f600", out="\udc00\U0001f600")))
    assert (item.why, item.out) == ("? \U0001f600", "?\U0001f600".encode())


def test_duplicate_seq_is_told(tmp_path: Path) -> None:
    """Two items that would go by one reference are a problem; both are kept and the later one counts."""
    node = read_recording(make(tmp_path, line() + line(out="y"))).nodes["a"]
    latest = node.item("host")
    assert latest is not None
    assert (len(node.items), latest.out) == (2, b"y")
    assert node.problems == ("nodes/a.jsonl:2: seq 1 is there already",)


@pytest.mark.parametrize("lines", [b"", b"\n \n", b"\x00\x01", b"null\n"])
def test_an_empty_file_is_a_silent_node(tmp_path: Path, lines: bytes) -> None:
    """A node whose file holds no item answered nothing, and a problem says so."""
    node = read_recording(make(tmp_path, lines)).nodes["a"]
    assert not node.answered
    assert node.problems[-1] == "nodes/a.jsonl: holds no item"


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_only_regular_files_are_read(tmp_path: Path, kind: str) -> None:
    """A link cannot lead out of a recording, and a pipe cannot hang its reader."""
    secret = tmp_path / "secret.jsonl"
    secret.write_text(line())
    (tmp_path / "rec").mkdir()
    folder = make(tmp_path / "rec", head=HEAD + 'declared = ["a"]\n')
    place = folder / "nodes" / "a.jsonl"
    place.unlink()
    if kind == "link":
        place.symlink_to(secret)
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.mkdir()
    node = read_recording(folder).nodes["a"]
    assert not node.answered
    assert node.problems[0].startswith("nodes/a.jsonl: ")


@pytest.mark.parametrize("name", ["a b.jsonl", "-a.jsonl", ".jsonl", "a.json", "a[1-2].jsonl", "é.jsonl"])
def test_strays_among_the_nodes_are_told(tmp_path: Path, name: str) -> None:
    """A file that no node can have makes no node, and is not passed over in silence."""
    folder = make(tmp_path, line())
    (folder / "nodes" / name).write_text(line())
    recording = read_recording(folder)
    assert list(recording.nodes) == ["a"]
    assert recording.problems == (f"nodes/{name}: not NODE.jsonl; ignored",)


def test_an_unfinished_run_says_so(tmp_path: Path) -> None:
    """A recording without end is read, judged by its beginning, and the lack is a problem."""
    recording = read_recording(make(tmp_path, line(), "schema = 1\nbegin = 2026-11-02T10:30:00+01:00\n"))
    assert recording.problems == ("recording.toml: end is missing",)
    assert recording.meta.clock == datetime(2026, 11, 2, 9, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("schema = ", "not TOML: "),
        ("a = " + "[" * 50_000, "not TOML: "),
        ("schema = 2", "schema: expected 1 (a higher one needs a newer GPUassay), found 2"),
        ("schema = true", "found True"),
        ('schema = "1"', "found '1'"),
        ("", "schema: expected 1 (a higher one needs a newer GPUassay), found nothing"),
        ("schema = 1\ndeclared = 'a'", "declared: expected a list of node names, each in full, found 'a'"),
        ("schema = 1\ndeclared = ['a[1-2]']", "found ['a[1-2]']"),
        ("schema = 1\nbegin = 2026-11-02T10:30:00", 'begin: expected a time like "2026-11-02T09:30:00Z"'),
        ("schema = 1\nend = 5", 'end: expected a time like "2026-11-02T09:30:00Z", found 5'),
        ("schema = 1\nend = '0001-01-01T00:00:00+09:00'", "end: expected a time like"),
        ("schema = 1\nsynthetic = 1", "synthetic: expected true or false, found 1"),
        ("schema = 1\ntarget = 1", "target: expected a string, found 1"),
        ("schema = 1\n[clock_offset_seconds]\na = nan", "clock_offset_seconds: expected seconds by node"),
    ],
)
def test_recording_toml_is_read_strictly(tmp_path: Path, head: str, said: str) -> None:
    """A mistake in the file that all else hangs on names the place, the key and what was expected."""
    with pytest.raises(RecordingError) as caught:
        read_recording(make(tmp_path, line(), head))
    assert str(caught.value).startswith(f"{tmp_path}/recording.toml: ")
    assert said in str(caught.value)


@pytest.mark.parametrize("place", ["empty", "file", "absent"])
def test_what_is_no_recording(tmp_path: Path, place: str) -> None:
    """A place that holds no recording is named, and what was expected there."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(RecordingError, match=r"expected a folder with a recording\.toml") as caught:
        read_recording(tmp_path / place)
    assert str(tmp_path / place) in str(caught.value)


@pytest.mark.parametrize("damage", [b"", b"garbage", zstandard.compress(b"something else")])
def test_a_damaged_blob_fails_its_item(tmp_path: Path, damage: bytes) -> None:
    """A blob that does not hold what its name says is no evidence, and the item says so."""
    name = hashlib.sha256(b"good").hexdigest()
    folder = make(tmp_path, line(out=None, blob=name) + line(id="os-release", seq=2))
    (folder / "blobs").mkdir()
    (folder / "blobs" / f"{name}.zst").write_bytes(damage)
    node = read_recording(folder).nodes["a"]
    assert [(item.status, item.out) for item in node.items] == [("failed", b""), ("ok", b"x")]
    assert node.items[0].why.startswith(f"the recorded output is lost: blobs/{name}.zst")
    assert node.problems[0].startswith(f"nodes/a.jsonl: item host: blobs/{name}.zst")


def test_a_blob_that_vanishes_later_fails_its_item(tmp_path: Path) -> None:
    """Outputs are fetched when asked for; one that has gone since then is a failed item, not an exception."""
    name = hashlib.sha256(b"good").hexdigest()
    folder = make(tmp_path, line(out=None, blob=name))
    (folder / "blobs").mkdir()
    blob = folder / "blobs" / f"{name}.zst"
    blob.write_bytes(zstandard.compress(b"good"))
    node = read_recording(folder).nodes["a"]
    assert node.items[0].out == b"good"
    blob.unlink()
    assert node.items[0].status == "failed"


def test_a_bomb_does_not_go_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file that unpacks to more than an output may hold is given up before it is unpacked."""
    monkeypatch.setattr(blobs, "MAX_BYTES", 3_000_000)
    content = bytes(5_000_000)
    name = hashlib.sha256(content).hexdigest()
    folder = make(tmp_path, line(out=None, blob=name))
    (folder / "blobs").mkdir()
    (folder / "blobs" / f"{name}.zst").write_bytes(zstandard.compress(content))
    item, _ = only(folder)
    assert item.why.endswith(f"blobs/{name}.zst unpacks to more than 3000000 bytes")


def test_a_site_file_that_is_no_text_is_a_problem(tmp_path: Path) -> None:
    """A site file that cannot be read is told, and there is none to judge by."""
    folder = make(tmp_path, line())
    (folder / "site.toml").write_bytes(b"\xff")
    recording = read_recording(folder)
    assert recording.site_text is None
    assert recording.problems[0].startswith("site.toml: not UTF-8")


def test_links_in_the_place_of_its_own_files_are_not_followed(tmp_path: Path) -> None:
    """Neither the head of a recording nor its site file is read from elsewhere."""
    folder = make(tmp_path, line())
    (folder / "site.toml").symlink_to(SHOWN / "site.toml")
    recording = read_recording(folder)
    assert (recording.site_text, recording.problems) == (
        None,
        ("site.toml: Too many levels of symbolic links",),
    )
    (folder / "recording.toml").unlink()
    (folder / "recording.toml").symlink_to(SHOWN / "recording.toml")
    with pytest.raises(RecordingError, match=r"/recording\.toml: Too many levels"):
        read_recording(folder)


def test_target_takes_a_recording_or_a_run(tmp_path: Path) -> None:
    """``--target=recording:DIR`` takes the folder of a recording, or that of the run which holds it."""
    (tmp_path / "recording").mkdir()
    recording = make(tmp_path / "recording", line())
    assert locate(tmp_path) == locate(recording) == recording
