"""docs/recording.md and the JSON Schemas say what the code does."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from gpuassay.evidence.item import Item
from gpuassay.evidence.meta import Meta
from gpuassay.evidence.recording import read_recording
from gpuassay.evidence.run import Journal
from gpuassay.evidence.writer import RecordingWriter

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "fixtures" / "examples"
SHOWN = EXAMPLES / "hand-written"
PAGE = (ROOT / "docs" / "recording.md").read_text(encoding="utf-8")
NOW = datetime(2026, 11, 2, 9, 30, tzinfo=UTC)


def load(name: str) -> dict[str, Any]:
    """Read one of our schemas."""
    path = ROOT / "docs" / "schemas" / f"{name}.schema.json"
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def schema(name: str) -> Draft202012Validator:
    """Make a validator of one of our schemas, itself checked."""
    Draft202012Validator.check_schema(document := load(name))
    return Draft202012Validator(document)


def json_lines(path: Path) -> list[Any]:
    """Read strict JSON, one document a line."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def shell_blocks() -> list[str]:
    """Give the commands of the page, in order."""
    return re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)


def test_page_shows_the_example() -> None:
    """The page shows each file of the hand-written example, to the letter."""
    shown = dict(re.findall(r"`([\w./]+)`\n\n```(?:toml|json)\n(.*?)```", PAGE, re.DOTALL))
    held = {
        path.relative_to(SHOWN).as_posix(): path.read_text(encoding="utf-8")
        for path in SHOWN.rglob("*")
        if path.is_file()
    }
    assert shown == held


def test_page_explains_every_key() -> None:
    """Each key that the schemas allow is explained in a table."""
    explained = set(re.findall(r"`(\w+)`", "\n".join(re.findall(r"^\| (`[^|]*) \|", PAGE, re.MULTILINE))))
    for name in ("item", "recording"):
        assert set(load(name)["properties"]) <= explained


def test_command_makes_an_item(tmp_path: Path) -> None:
    """The command on the page turns a customer's file into an item that reads back unchanged."""
    folder = shutil.copytree(SHOWN, tmp_path / "r")
    (folder / "nodes" / "gpu001.jsonl").write_text("")
    (folder / "nvidia-smi.xml").write_text('<?xml version="1.0"?>\n<é>"\\</é>\n', encoding="utf-8")
    subprocess.run(["sh", "-c", shell_blocks()[0]], cwd=folder, check=True)
    (item,) = read_recording(folder).nodes["gpu001"].items
    assert item.out == (folder / "nvidia-smi.xml").read_bytes()
    assert not list(schema("item").iter_errors(json_lines(folder / "nodes" / "gpu001.jsonl")[0]))


def test_command_seals(tmp_path: Path) -> None:
    """The command on the page seals a recording just as we would."""
    folder = shutil.copytree(SHOWN, tmp_path / "r")
    (folder / ".hidden").write_text("too")
    (folder / "nodes.d").mkdir()  # sorts otherwise than nodes/ in most locales
    (folder / "nodes.d" / "Z").write_text("")
    subprocess.run(["sh", "-c", shell_blocks()[1]], cwd=folder, check=True)
    assert read_recording(folder).seal == "sealed"


@pytest.mark.parametrize("name", ["hand-written", "schema-1"])
def test_examples_fit_the_schemas(name: str) -> None:
    """The recordings that we show and keep fit the schemas that we publish."""
    folder = EXAMPLES / name
    schema("recording").validate(tomllib.loads((folder / "recording.toml").read_text(encoding="utf-8")))
    for path in (*folder.glob("nodes/*.jsonl"), *folder.glob("cluster.jsonl")):
        for document in json_lines(path):
            schema("item").validate(document)


def test_what_is_written_fits_the_schemas(tmp_path: Path) -> None:
    """Every kind of item, with all of its keys and with none, is written as the schema says."""
    full: dict[str, Any] = {
        "asked": {"command": ["a", "\ud800"]},
        "exit": -9,
        "seconds": 0.0,
        "err": "e",
        "why": "w",
    }
    written = [
        Item("host", 0),
        Item("host", 1, "timed_out", out="é\x00".encode(), truncated=True, **full),
        Item("pci", 2, asked={"tree": "/sys"}, out=b"\xff"),
        Item("kmsg", 3, asked={"library": "kmsg"}, out=bytes(100_000)),
    ]
    writer = RecordingWriter(tmp_path / "r", Meta())
    for item in written:
        writer.add("a", item)
    documents = json_lines(tmp_path / "r" / "nodes" / "a.jsonl")
    contents = [set(document) & {"out", "out_b64", "blob"} for document in documents]
    assert contents == [set(), {"out"}, {"out_b64"}, {"blob"}]
    for document in documents:
        schema("item").validate(document)


def test_heads_that_are_written_fit_the_schema(tmp_path: Path) -> None:
    """The head of a recording is valid from the beginning to the end, with every key and with none."""
    full = Meta(target="x", probe="1", cluster="x", begin=NOW, declared=("a", "b"), synthetic=True)
    for name, meta in (("full", full), ("empty", Meta())):
        writer = RecordingWriter(tmp_path / name, meta)
        place = tmp_path / name / "recording.toml"
        schema("recording").validate(tomllib.loads(place.read_text()))
        writer.finish(NOW, {"a": -0.5, "b": 1e-9})
        schema("recording").validate(tomllib.loads(place.read_text()))


def test_journal_fits_its_schema(tmp_path: Path) -> None:
    """Each kind of line that a journal writes is valid, and a strange one is not."""
    journal = Journal(tmp_path / "journal.jsonl")
    journal.begin({"schema": 1})
    journal.check("audit.health.ecc", {"verdict": "pass"})
    journal.end("cut")
    lines = json_lines(journal.path)
    for line in lines:
        schema("journal").validate(line)
    assert not schema("journal").is_valid({**lines[0], "id": "x"})


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": "a", "seq": 1},
        {"id": "a", "seq": -1, "status": "ok"},
        {"id": "a", "seq": 1, "status": "fine"},
        {"id": "a", "seq": 1, "status": "ok", "out": "x", "out_b64": "eA=="},
        {"id": "a", "seq": 1, "status": "ok", "output": "x"},
        {"id": "a", "seq": 1, "status": "ok", "asked": {"command": "ls -l"}},
    ],
)
def test_schema_finds_mistakes(wrong: dict[str, Any]) -> None:
    """Who writes a recording by hand is told of a slip, a misspelt key included."""
    assert not schema("item").is_valid(wrong)
