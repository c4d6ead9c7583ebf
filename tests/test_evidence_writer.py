"""Writing recordings: what was written is read again, whatever ended the run; and seals hold."""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import stat
import subprocess
import sys
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import zstandard

from gpuassay.evidence import blobs, sums, writer
from gpuassay.evidence.files import open_regular
from gpuassay.evidence.item import Item
from gpuassay.evidence.meta import Meta
from gpuassay.evidence.recording import Recording, RecordingError, read_recording
from gpuassay.evidence.writer import RecordingWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from io import BufferedReader

BEGIN = datetime(2026, 11, 2, 9, 30, tzinfo=UTC)
END = datetime(2026, 11, 2, 9, 31, 0, 250_000, tzinfo=UTC)
META = Meta(target="local", probe="2026.11.0", begin=BEGIN, declared=("a",))
LARGE = b"x" * (blobs.INLINE_BYTES + 1)


def start(folder: Path) -> RecordingWriter:
    """Begin a recording with one node."""
    return RecordingWriter(folder, META)


def sealed(folder: Path) -> Path:
    """Write a whole recording, with a blob, a site file and an answer of the cluster."""
    recording = RecordingWriter(folder, META, "[cluster]\nname = 'x'\n")
    recording.add("a", Item("host", 1, out=b"x"))
    recording.add("a", Item("kmsg", 2, out=LARGE))
    recording.add_cluster(Item("slurm", 1, "denied", why="no"))
    recording.finish(END)
    return folder


@contextmanager
def small_disk(limit: int) -> Iterator[None]:
    """Let no file of this process grow beyond ``limit`` bytes: writing fails half-way, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_whole_recording_is_sealed(tmp_path: Path) -> None:
    """What was told to the writer is what is read, under a seal that coreutils confirm."""
    folder = sealed(tmp_path / "new" / "recording")
    recording = read_recording(folder)
    assert recording.seal == "sealed"
    assert recording.problems == ()
    assert (recording.meta.begin, recording.meta.end) == (BEGIN, END)
    assert recording.site_text == "[cluster]\nname = 'x'\n"
    assert [item.out for item in recording.nodes["a"].items] == [b"x", LARGE]
    assert recording.cluster.items == (Item("slurm", 1, "denied", why="no"),)
    checked = subprocess.run(
        ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=folder, check=False
    )
    assert checked.returncode == 0


def test_every_item_is_there_before_the_next(tmp_path: Path) -> None:
    """A run that is killed at any moment leaves all that it had taken; only the end is missing."""
    recording = start(tmp_path / "r")
    for seq in range(3):
        recording.add("a", Item("host", seq, out=LARGE))
        found = read_recording(tmp_path / "r")
        assert len(found.nodes["a"].items) == seq + 1
        assert (found.seal, found.problems) == ("unsealed", ("recording.toml: end is missing",))


def test_kill_leaves_a_readable_recording(tmp_path: Path) -> None:
    """After SIGKILL the recording holds every item whose writing had returned."""
    script = (
        "import os, signal, sys\nfrom pathlib import Path\n"
        "from gpuassay.evidence.item import Item\nfrom gpuassay.evidence.meta import Meta\n"
        "from gpuassay.evidence.writer import RecordingWriter\n"
        "writer = RecordingWriter(Path(sys.argv[1]), Meta(target='x'))\n"
        "writer.add('a', Item('host', 1, out=b'x'))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(tmp_path / "r")], check=False)
    assert ended.returncode == -9
    assert read_recording(tmp_path / "r").nodes["a"].items == (Item("host", 1, out=b"x"),)


def test_everything_is_private(tmp_path: Path) -> None:
    """Evidence is for its owner only, whatever the umask."""
    folder = sealed(tmp_path / "r")
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.rglob("*"))}
    assert modes == {0o600, 0o700}


@pytest.mark.parametrize("size", [0, blobs.INLINE_BYTES, blobs.INLINE_BYTES + 1])
def test_large_outputs_go_to_blobs(tmp_path: Path, size: int) -> None:
    """An output above 64 KiB is a file that ``zstd -d`` unpacks; one up to it stays in its line."""
    recording = start(tmp_path / "r")
    recording.add("a", Item("kmsg", 1, out=bytes(size)))
    found = list((tmp_path / "r").glob("blobs/*"))
    assert len(found) == (size > blobs.INLINE_BYTES)
    for path in found:
        content = zstandard.decompress(path.read_bytes())
        assert path.name == f"{hashlib.sha256(content).hexdigest()}.zst"


def test_equal_outputs_are_kept_once(tmp_path: Path) -> None:
    """A thousand nodes with one large answer need one blob."""
    recording = start(tmp_path / "r")
    recording.add("a", Item("pci", 1, out=LARGE))
    recording.add("b", Item("pci", 1, out=LARGE))
    assert len(list((tmp_path / "r" / "blobs").iterdir())) == 1


def test_threads_may_share_a_writer(tmp_path: Path) -> None:
    """Nodes that answer at the same time, with the same large output even, do not disturb each other."""
    recording = start(tmp_path / "r")

    def answer(node: str) -> None:
        for seq in range(20):
            recording.add(node, Item("pci", seq, out=LARGE + bytes([seq])))

    threads = [threading.Thread(target=answer, args=(f"n{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recording.finish(END)
    found = read_recording(tmp_path / "r")
    assert {name: len(node.items) for name, node in found.nodes.items()} == {
        "a": 0,
        **{f"n{number}": 20 for number in range(4)},
    }
    assert [node.problems for node in found.nodes.values() if node.answered] == [()] * 4
    assert len(list((tmp_path / "r" / "blobs").iterdir())) == 20


def test_an_output_without_measure_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What no reader would unpack is not written whole, and the item says that it was cut."""
    monkeypatch.setattr(writer, "MAX_BYTES", len(LARGE))
    recording = start(tmp_path / "r")
    recording.add("a", Item("kmsg", 1, out=LARGE + b"more"))
    (item,) = read_recording(tmp_path / "r").nodes["a"].items
    assert (item.out, item.truncated) == (LARGE, True)


@pytest.mark.parametrize("name", ["", ".", "..", "../a", "a/b", "a b", "-a", "a\n", "a[1-2]", "ü", "a" * 300])
def test_no_node_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    """A name that is none is refused before a file of it is opened, declared or not."""
    recording = start(tmp_path / "r")
    with pytest.raises(RecordingError, match="cannot be the name of a node"):
        recording.add(name, Item("host", 1))
    with pytest.raises(RecordingError, match="cannot be the name of a node"):
        RecordingWriter(tmp_path / "s", Meta(declared=(name,)))
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    """A folder that holds anything is no place for a recording."""
    (tmp_path / "kept").write_text("mine")
    with pytest.raises(RecordingError, match="not empty"):
        start(tmp_path)
    assert (tmp_path / "kept").read_text() == "mine"


def test_nothing_is_added_to_a_sealed_recording(tmp_path: Path) -> None:
    """A seal ends a recording."""
    recording = start(tmp_path / "r")
    recording.finish(END)
    with pytest.raises(RecordingError, match="sealed"):
        recording.add("a", Item("host", 1))
    assert read_recording(tmp_path / "r").seal == "sealed"


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """What the system refuses comes as one sentence with the place."""
    (tmp_path / "file").touch()
    with pytest.raises(RecordingError, match="file/r: Not a directory"):
        start(tmp_path / "file" / "r")


@pytest.mark.parametrize("size", [1500, len(LARGE)])
def test_a_full_disk_keeps_what_is_there(tmp_path: Path, size: int) -> None:
    """When the disk is full the error names the file; earlier items stay, and later ones are whole again."""
    recording = start(tmp_path / "r")
    recording.add("a", Item("host", 1, out=b"x"))
    with small_disk(60), pytest.raises(RecordingError, match=r"/r/.*: File too large"):
        recording.add("a", Item("pci", 2, out=os.urandom(size)))
    recording.add("a", Item("uptime", 3, out=b"1 2"))
    node = read_recording(tmp_path / "r").nodes["a"]
    assert [item.id for item in node.items] == ["host", "uptime"]
    assert node.problems == ()
    assert not list((tmp_path / "r").rglob(".*"))


def test_toml_takes_any_text(tmp_path: Path) -> None:
    """Quotes, controls and foreign letters in what names the run survive."""
    meta = Meta(target='"\\\n\x00\x7f\x85\u2028\U0001f600', cluster="Zürich", begin=BEGIN)
    RecordingWriter(tmp_path / "r", meta)
    assert read_recording(tmp_path / "r").meta == meta


def add_file(folder: Path) -> str:
    """Put a file in that was not sealed."""
    (folder / "nodes" / "b.jsonl").write_text("")
    return "nodes/b.jsonl is not in SHA256SUMS"


def remove_file(folder: Path) -> str:
    """Take out a file that was sealed."""
    (folder / "cluster.jsonl").unlink()
    return "cluster.jsonl is missing"


def change_file(folder: Path) -> str:
    """Change a byte of a file."""
    with (folder / "nodes" / "a.jsonl").open("ab") as file:
        file.write(b"\n")
    return "nodes/a.jsonl is not as it was sealed"


def link_file(folder: Path) -> str:
    """Put in a link, which no sum covers."""
    (folder / "measure").symlink_to("/etc")
    return "measure is not a regular file"


def reorder_sums(folder: Path) -> str:
    """Turn the seal upside down: every sum is right, but nobody seals that way."""
    lines = (folder / "SHA256SUMS").read_bytes().splitlines(keepends=True)
    (folder / "SHA256SUMS").write_bytes(b"".join(reversed(lines)))
    return "SHA256SUMS is not as a seal is written"


def empty_sums(folder: Path) -> str:
    """Take all sums out."""
    (folder / "SHA256SUMS").write_bytes(b"")
    return "recording.toml is not in SHA256SUMS"


def sums_as_folder(folder: Path) -> str:
    """Put a folder in the place of the seal."""
    (folder / "SHA256SUMS").unlink()
    (folder / "SHA256SUMS").mkdir()
    return "SHA256SUMS: not a regular file"


@pytest.mark.parametrize(
    "alter", [add_file, remove_file, change_file, link_file, reorder_sums, empty_sums, sums_as_folder]
)
def test_what_was_altered_is_named(tmp_path: Path, alter: Callable[[Path], str]) -> None:
    """A recording that is not as it was sealed is still read, is called altered, and says what differs."""
    folder = sealed(tmp_path / "r")
    expected = alter(folder)
    recording = read_recording(folder)
    assert recording.seal == "altered"
    assert expected in recording.seal_why


def test_a_file_that_cannot_be_read_is_altered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sealed file that the reader may not open is not taken on trust."""

    def refuse(path: Path) -> BufferedReader:
        if path.name == "cluster.jsonl":
            raise PermissionError
        return open_regular(path)

    folder = sealed(tmp_path / "r")
    monkeypatch.setattr(sums, "open_regular", refuse)
    assert read_recording(folder).seal_why == "cluster.jsonl is not as it was sealed"


def test_many_differences_are_counted(tmp_path: Path) -> None:
    """A thousand files that differ do not make a reason of a thousand names."""
    folder = sealed(tmp_path / "r")
    for number in range(15):
        (folder / f"extra{number}").touch()
    why = read_recording(folder).seal_why
    assert why.count("extra") == 10
    assert why.endswith("; and 5 more")


def test_digest_is_of_the_content_alone(tmp_path: Path) -> None:
    """Moving or unsealing a recording leaves its digest; changing one byte does not."""

    def digest(recording: Recording) -> tuple[str, str]:
        return recording.seal, recording.digest

    first = read_recording(sealed(tmp_path / "r"))
    moved = shutil.copytree(tmp_path / "r", tmp_path / "elsewhere")
    assert digest(read_recording(moved)) == ("sealed", first.digest)
    (moved / "SHA256SUMS").unlink()
    assert digest(read_recording(moved)) == ("unsealed", first.digest)
    change_file(moved)
    assert read_recording(moved).digest != first.digest


def test_sums_of_awkward_names_are_coreutils(tmp_path: Path) -> None:
    """Names with a backslash, a newline, or bytes that are no text are sealed as ``sha256sum`` would."""
    for name in (b"back\\slash", b"new\nline", b"bytes\xff", "ü".encode()):
        (tmp_path / Path(name.decode("utf-8", "surrogateescape"))).write_bytes(name)
    sums.write_sums(tmp_path)
    checked = subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=tmp_path, check=False)
    assert checked.returncode == 0
