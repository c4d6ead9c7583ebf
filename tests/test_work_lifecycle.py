"""Packages, imports and servers, for real and small: what takes how long, and what is said if it cannot."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.measure import errand
from gpuassay.measure.work import errands, imports, install, weights
from gpuassay.target import Job
from gpuassay.target.local import Local
from gpuassay.target.progress import Tally

if TYPE_CHECKING:
    from pathlib import Path

LLAMA = {"hidden": 4096, "layers": 32, "heads": 32, "kv_heads": 8, "intermediate": 14336, "vocab": 128256}
SMALL = {"hidden": 64, "layers": 2, "heads": 4, "kv_heads": 2, "intermediate": 128, "vocab": 320}
# Answers as the server does that it stands for; what it does wrong is told by its environment.
SERVER = """\
import http.server, json, os, sys
port = int(sys.argv[sys.argv.index("--port") + 1])
model = sys.argv[sys.argv.index("--model") + 1]
how = os.environ.get("CUBLAS_WORKSPACE_CONFIG", "")
if not os.path.exists(model + "/model.safetensors.index.json"):
    sys.exit("no weights")
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.say({"data": []})
    def do_POST(self):
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.say({"usage": {"completion_tokens": order["max_tokens"] + EXTRA}})
    def say(self, document):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(document).encode())
    def log_message(self, *_):
        pass
http.server.HTTPServer(("127.0.0.1", port), Answer).serve_forever()
"""


def run(
    path: Path, step: str, environment: dict[str, str] | None = None, **more: object
) -> list[dict[str, Any]]:
    """Run one step on this machine, at tiny size; gives its rows."""
    here = Local()
    args = {"step": step, "package": "torch", "repeats": 3, "patience_s": 100, "model": "small"}
    mounts = [{"path": str(path), "role": "scratch", "shared": True}]
    order = {
        "workload": "lifecycle",
        "method": 1,
        "args": args,
        "tiny": True,
        "mounts": mounts,
        "packages": None,
    }
    feed = errand.pack({**order, **more})
    job = Job("x", errand.ARGV, here.declared(), 1, environment or {}, deadline_s=300.0, feed=feed)
    (item,) = here.run(job, Tally(1, lambda _line: None)).values()
    rows: list[dict[str, Any]] = json.loads(item.out)["rows"]
    return rows


def test_pip_and_uv_install_a_wheel_and_it_is_there(tmp_path: Path) -> None:
    """Into environments of their own, proven by their Python; nothing of them stays."""
    pytest.importorskip("uv", reason="uv is not installed: pip install uv")
    (row,) = run(tmp_path, "install")

    assert row["status"] == "ok", row
    assert row["uv"]["status"] == "ok", row["uv"]
    assert min(row["pip_seconds"], row["venv_seconds"], row["uv"]["cold_seconds"]) > 0
    assert [*tmp_path.iterdir()] == []


def test_a_package_that_is_not_among_the_wheels_fails_with_pips_words(tmp_path: Path) -> None:
    """No index is asked in its place."""
    wheels = tmp_path / "wheels"
    install.stand_in(wheels)
    packages = {"wheels": str(wheels), "index": "", "install": ["not-there-at-all"]}
    (row,) = run(tmp_path, "install", packages=packages)

    assert row["status"] == "failed"
    assert "No matching distribution found for not-there-at-all" in row["why"]
    assert [*tmp_path.iterdir()] == [wheels]


def test_imports_come_from_the_file_system_that_is_measured(tmp_path: Path) -> None:
    """A package with its needs is copied there; torch is imported where the Python has it."""
    pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")
    place, copied = run(tmp_path, "import")

    assert (place["status"], place["package"]) == ("ok", "torch")
    assert (copied["status"], copied["package"]) == ("ok", imports.TINY)
    assert copied["files"] > 20
    for row in (place, copied):
        assert len(row["warm_seconds"]) == len(row["cold_seconds"]) == len(row["held"]) == 3
        assert min(*row["warm_seconds"], *row["cold_seconds"]) > 0
        assert ("warm_only" in row) == (max(row["held"]) > 0.02)
    assert [*tmp_path.iterdir()] == []


def test_an_import_from_elsewhere_is_refused(tmp_path: Path) -> None:
    """Else a fast disk would speak for a slow one."""
    with pytest.raises(errands.ErrandError, match="json was imported from"):
        imports.once("json", tmp_path, 60.0)


def test_a_package_comes_with_its_needs() -> None:
    """As far as they are installed; extras and other platforms are passed over."""
    assert {"jinja2", "markupsafe"} <= {one.metadata["Name"].lower() for one in imports.closure("jinja2")}


def test_a_python_without_vllm_says_how_to_get_it(tmp_path: Path) -> None:
    """Nothing stands in for it."""
    (row,) = run(tmp_path, "serve", {"PYTHONPATH": ""})
    assert row["status"] == "not_found"
    assert "pip install vllm" in row["why"]


def served(folder: Path, mount: Path, text: str) -> dict[str, Any]:
    """Serve a model by a program in vLLM's place."""
    package = folder / "vllm" / "entrypoints" / "openai"
    package.mkdir(parents=True)
    for one in (package, package.parent, package.parent.parent):
        (one / "__init__.py").touch()
    (package / "api_server.py").write_text(text)
    mount.mkdir()
    (row,) = run(mount, "serve", {"PYTHONPATH": str(folder)})
    assert [*mount.iterdir()] == []
    return row


def test_a_server_is_started_twice_and_asked_for_a_token(tmp_path: Path) -> None:
    """With real weights on the file system; then it is ended, and the weights are gone."""
    row = served(tmp_path / "python", tmp_path / "mount", SERVER.replace("EXTRA", "0"))

    assert row["status"] == "ok", row
    assert row["weight_bytes"] == weights.size(SMALL)
    assert 0 < row["cold"]["ready"] <= row["cold"]["first_token"]
    assert row["warm"]["first_token"] > 0


def test_a_server_that_does_not_do_as_told_is_no_figure(tmp_path: Path) -> None:
    """Neither one that counts other tokens, nor one that ends: its last words are kept."""
    row = served(tmp_path / "one", tmp_path / "first", SERVER.replace("EXTRA", "1"))
    assert (row["status"], "asked for one token and counts 2" in row["why"]) == ("failed", True)

    row = served(tmp_path / "two", tmp_path / "second", "raise SystemExit('CUDA out of memory')")
    assert (row["status"], "the server ended: CUDA out of memory" in row["why"]) == ("failed", True)


def test_a_program_that_hangs_is_ended(tmp_path: Path) -> None:
    """And so is what it started."""
    with pytest.raises(errands.ErrandError, match=r"did not end within 0\.5 s"):
        errands.timed(("sh", "-c", "sleep 600 & sleep 600"), 0.5, tmp_path)


def test_weights_have_the_size_of_the_model_they_stand_for() -> None:
    """Llama 3.1 8B has 8 030 261 248 parameters (its model card says 8.03 billion), of two bytes each."""
    assert weights.size(LLAMA) == 2 * 8_030_261_248


def test_weights_are_safetensors_of_sane_numbers(tmp_path: Path) -> None:
    """The header covers the file to the last byte, and no number is infinite or none; twice the same."""
    total = weights.write(tmp_path / "one", SMALL)
    weights.write(tmp_path / "two", SMALL)
    (file,) = (tmp_path / "one").glob("*.safetensors")
    data = file.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])

    assert max(one["data_offsets"][1] for one in header.values()) == len(data) - 8 - length == total
    assert data == (tmp_path / "two" / file.name).read_bytes()
    numbers = struct.unpack(f"<{total // 2}H", data[8 + length :])
    assert all(number >> 7 & 0xFF < 0x80 for number in numbers)
    assert len(set(numbers)) > 1000
    index = json.loads((tmp_path / "one" / "model.safetensors.index.json").read_text())
    assert index["weight_map"].keys() == header.keys()


def test_the_tokenizer_has_a_token_for_each_byte() -> None:
    """And two marks, each once."""
    model = weights.tokenizer(320)["tokenizer.json"]["model"]
    assert len(model["vocab"]) == 258
    assert sorted(model["vocab"].values()) == list(range(258))
