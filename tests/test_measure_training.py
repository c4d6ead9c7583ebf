"""torchtitan's log becomes figures; what is cut, odd or missing is unread, and it really is started."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuassay.evidence.item import Item
from gpuassay.evidence.recording import read_measurement, read_recording
from gpuassay.facts import fleet
from gpuassay.judge.catalog import load_catalog
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.site import undeclared
from gpuassay.measure import errand, training
from gpuassay.measure.ranks import tell
from gpuassay.target import Job
from gpuassay.target.local import Local
from gpuassay.target.progress import Tally
from recorded import build

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuassay.measure.training import Trained

ROOT = Path(__file__).parents[1]
CATALOG = load_catalog(ROOT / "thresholds.toml", ROOT / "advisories.toml")
LLAMA = CATALOG.measurements["train_llama"]
# As captured on a processor, and in the forms that colours, torchrun and quantised models give it.
CAPTURED = (
    "[titan] 2026-11-30 15:06:31,246 - root - INFO - step:  1  loss:  8.19161  grad_norm:  1.4715  "
    "memory: -0.00GiB(-0.00%)  tps: 16  tflops: 0.00  mfu: 0.00%"
)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (CAPTURED, (1, 8.19161, 1.4715, 16)),
        (f"[rank0]:{CAPTURED}".replace("tps: 16", "tps: 8,532"), (1, 8.19161, 1.4715, 8532)),
        (CAPTURED.replace("mfu: 0.00%", "mfu: N/A"), (1, 8.19161, 1.4715, 16)),
        (CAPTURED.replace("8.19161", "inf").replace("1.4715", "-inf"), (1, math.inf, -math.inf, 16)),
    ],
)
def test_a_step_is_read_in_every_form(line: str, expected: tuple[float, ...]) -> None:
    """With prefixes, thousands separators, negative zeros and no share of a peak."""
    (step,) = training.parse([line])
    assert (step.number, step.loss, step.gradient, step.tokens_per_s) == expected


def test_a_loss_that_is_no_number_is_read_as_none() -> None:
    """A NaN is a finding, and not a line that is passed over."""
    (step,) = training.parse([CAPTURED.replace("8.19161", "nan")])
    assert math.isnan(step.loss)


@pytest.mark.parametrize("line", [CAPTURED[:90], "step: 3", CAPTURED.replace("tps: 16 ", "tps: N/A "), ""])
def test_a_line_that_is_cut_is_no_step(line: str) -> None:
    """Its number is then missing, and that is said."""
    assert training.parse([line]) == []


@given(st.lists(st.text(max_size=80), max_size=5))
def test_any_text_is_read_without_an_exception(lines: list[str]) -> None:
    """A log may hold anything."""
    assert isinstance(training.parse(lines), list)


def test_operations_are_counted_by_formula() -> None:
    """Llama as torchtitan counts it; of GPT-OSS every other layer looks back on 128 tokens only."""
    llama, gpt = (training.models()[name] for name in ("llama3_8b", "gpt_oss_20b"))
    weights = 32 * (4096 * 6144 + 4096 * 4096 + 3 * 4096 * 14336) + 4096 * 128256
    assert training.flops_per_token(llama, 8192) == 6 * weights + 12 * 32 * 4096 * 8192
    looked = training.flops_per_token(gpt, 4096) - training.flops_per_token(gpt, 128)
    assert looked == 12 * 4096 * 12 * (4096 - 128)


def read(change: Callable[[dict[str, Any]], object] = lambda _document: None) -> Trained:
    """Read the recorded training of two nodes after a change of what the first rank printed."""
    folder = build("hgx-b200-measured")
    nodes = fleet(read_recording(folder), undeclared(CATALOG)).nodes
    found = read_measurement(folder, LLAMA.name, [node.name for node in nodes])
    told = {name: [*own.items] for name, own in found.items()}
    document = json.loads(told["gpu001"][0].out)
    change(document)
    told["gpu001"][0] = Item("train_llama/0", 1, out=json.dumps(document).encode())
    records = {name: [tell(item, f"m#{item.seq}") for item in items] for name, items in told.items()}
    (pool,) = training.Training().subjects(nodes, LLAMA.args, records)
    return pool


def test_the_first_steps_do_not_count() -> None:
    """They compile; the figure is the median of the others, counted here again from the text."""
    node = read().nodes[0]
    assert isinstance(node.steps, Read)
    counted = sorted(step.tokens_per_s for step in node.steps.value[20:])
    assert isinstance(node.tokens_per_s, Read)
    assert node.tokens_per_s.value == pytest.approx((counted[14] + counted[15]) / 2)
    assert node.steps.value[0].tokens_per_s == 210


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda log: log.pop(), ""),  # "Training completed" is no step
        (lambda log: log.pop(30), "its log shows 49 of 50 steps, the last is 50"),
        (lambda log: log.__delitem__(slice(14, None)), "its log shows 12 of 50 steps, the last is 12"),
        (lambda log: log.clear(), "its log shows 0 of 50 steps, the last is 0"),
    ],
)
def test_every_step_must_be_there(change: Callable[[list[str]], object], why: str) -> None:
    """A log that ends early, or lost a line, is no figure."""
    speed = read(lambda document: change(document["rows"][0]["log"])).nodes[0].tokens_per_s
    assert isinstance(speed, Unread) is bool(why)
    assert not why or speed.why == why  # type: ignore[union-attr]


def test_parts_that_lie_apart_are_inconclusive() -> None:
    """A node that got slower while it trained has no one speed."""

    def slow_down(document: dict[str, Any]) -> None:
        log = document["rows"][0]["log"]
        log[42:] = [line.replace("tps: 15,", "tps: 13,") for line in log[42:]]

    speed = read(slow_down).nodes[0].tokens_per_s
    assert isinstance(speed, Unread)
    assert speed.why.startswith("inconclusive: its parts lie 13")


def test_one_scope_that_failed_leaves_the_other() -> None:
    """What a node did by itself stands when the nodes did not come together."""

    def fail(document: dict[str, Any]) -> None:
        document["rows"][1] |= {"status": "failed", "why": "it was ended after 900 s", "tail": ["waiting"]}

    pool = read(fail)
    assert isinstance(pool.nodes[0].tokens_per_s, Read)
    assert pool.of_alone == Unread("failed", "it was ended after 900 s: waiting", pool.of_alone.evidence)


FAKE = """
import json, os, sys, time
folder = sys.argv[sys.argv.index("--hf-assets-path") + 1]
vocabulary = json.load(open(folder + "/tokenizer.json"))["model"]["vocab"]
text = json.loads(open("lesson/train.json").readline())["text"]
assert set(text.split()) <= vocabulary.keys()
print("place", os.environ["RANK"], os.environ["WORLD_SIZE"], os.environ["MASTER_ADDR"], sys.argv[-1])
for step in range(1, 4):
    print(f"\\x1b[31mstep: {step:2}  loss: 1.5  grad_norm: 1.0  \\x1b[34mtps: 1,234  mfu: 0%\\x1b[39m")
if "--fail" in sys.argv:
    sys.exit("out of memory")
if "--hang" in sys.argv:
    sys.stdout.flush(); time.sleep(600)
"""


def started(
    folder: Path, *words: str, patience_s: float = 60.0, scopes: str = "node all"
) -> list[dict[str, Any]]:
    """Train with a stand-in of torchtitan through the launcher, on two ranks of this machine."""
    pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")
    if folder != ROOT:
        (folder / "torchtitan").mkdir()
        (folder / "torchtitan" / "__init__.py").touch()
        (folder / "torchtitan" / "train.py").write_text(FAKE)
        (folder / "torchtitan-0.3.0.dist-info").mkdir()
        (folder / "torchtitan-0.3.0.dist-info" / "METADATA").write_text("Name: torchtitan\nVersion: 0.3.0\n")
    order = {
        "workload": "training",
        "method": 1,
        "cases": [{"scope": scope} for scope in scopes.split()],
        "start": ["-m", "torchtitan.train"],
        "words": ["--hf-assets-path", "{folder}", *words, "{experts}"],
        "experts": 8,
        "patience_s": patience_s,
    }
    environment = {"PYTHONPATH": str(folder), "TMPDIR": str(folder)}
    argv = (sys.executable, *errand.ARGV[1:])
    job = Job("t", argv, Local().declared(), 2, environment, deadline_s=120.0, feed=errand.pack(order))
    found = Local().run(job, Tally(1, lambda _line: None))
    return [json.loads(item.out) for _, item in sorted(found.items())]


def test_torchtitan_is_started_once_for_each_scope_and_rank(tmp_path: Path) -> None:
    """It finds words to learn, its place among the others, and leaves no folder behind."""
    first, second = started(tmp_path)
    assert first["torchtitan"] == "0.3.0"
    assert [(row["case"]["scope"], row["ranks"], row["status"]) for row in first["rows"]] == [
        ("node", 2, "ok"),
        ("all", 2, "ok"),
    ]
    assert [step.tokens_per_s for step in training.parse(first["rows"][0]["log"])] == [1234] * 3
    assert first["rows"][0]["command"][-1] == "2"  # experts are spread over no more ranks than there are
    assert second["rows"][0]["log"] == []  # the same steps, which the first rank keeps
    assert list(tmp_path.glob("gpuassay-*")) == []


@pytest.mark.parametrize(
    ("word", "why"),
    [("--fail", "torchtitan ended with exit status 1"), ("--hang", "it was ended after 8 s")],
)
def test_a_torchtitan_that_fails_or_hangs_says_how_far_it_came(tmp_path: Path, word: str, why: str) -> None:
    """Its last lines are kept, and its folder is gone."""
    document = started(tmp_path, word, patience_s=8.0, scopes="node")[0]
    assert document["rows"][0]["why"] == why
    assert len(training.parse(document["rows"][0]["tail"])) == 3
    assert list(tmp_path.glob("gpuassay-*")) == []


def test_without_torchtitan_it_is_said_how_to_get_it() -> None:
    """In the document, for a report to show."""
    documents = started(ROOT, scopes="node")
    assert {document["failed"] for document in documents} == {
        f"torchtitan is not installed here: {training.GET}"
    }
