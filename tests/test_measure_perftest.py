"""perftest is read in the unit of its header, and run between pairs of nodes that end together."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuassay.evidence.recording import read_measurement, read_recording
from gpuassay.facts import fleet
from gpuassay.judge.catalog import load_catalog
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.site import undeclared
from gpuassay.judge.verdict import Verdict
from gpuassay.measure import errand
from gpuassay.measure.perftest import GET, Perftest
from gpuassay.measure.perftest_printed import Row, parse
from gpuassay.measure.ranks import tell
from recorded import build, perftest

if TYPE_CHECKING:
    from gpuassay.facts import Node
    from gpuassay.measure.perftest import PortRun

ROOT = Path(__file__).parents[1]
CATALOG = load_catalog(ROOT / "thresholds.toml", ROOT / "advisories.toml")
SAMPLES = Path(os.environ.get("GPUASSAY_SAMPLES", Path(__file__).parents[2] / "shared"))
CAPTURES = SAMPLES / "captures/perftest"
captured = pytest.mark.skipif(not CAPTURES.is_dir(), reason="no samples here: set GPUASSAY_SAMPLES")
SWEEP = {"tool": "ib_write_bw", "memory": "host", "how": ["-a", "--report_gbits"]}
KIND = Perftest()


def capture(name: str) -> str:
    """Read a capture."""
    return (CAPTURES / name).read_text(encoding="utf-8")


def shaped(text: str) -> int:
    """Count the lines that begin with a size and a count."""
    return len(re.findall(r"(?m)^\s*\d+[ \t]+\d+[ \t]+\d", text))


# --- what it prints ------------------------------------------------------------------------------------


@captured
@pytest.mark.parametrize("name", ["ib_bw_aks_0.log", "ib_bw_aks_1.log", "ib_write_bw_loopback_all_sizes.log"])
def test_no_row_of_a_capture_is_lost(name: str) -> None:
    """Each line that has the shape of a row is one, whatever stands around it."""
    printed = parse(capture(name))
    assert len(printed.rows) == shaped(capture(name)) > 20
    assert printed.problems == []


@captured
def test_the_unit_is_that_of_the_header() -> None:
    """MB/s of an old release are 2^20 bytes, as the rate of messages in the same row shows; Gb/s are Gb/s."""
    (row, *_) = parse(capture("ib_write_bw_loopback_8M.log")).rows
    assert row.gbps == pytest.approx(0.003007e6 * (8 << 20) * 8 / 1e9, rel=1e-3)
    assert parse(capture("ib_bw_aks_0.log")).rows[-1] == Row(8388608, gbps=197.48)


@captured
def test_a_latency_is_the_typical_one() -> None:
    """Which is the tool's word for the median; the longest is nearly twice that."""
    assert parse(capture("ib_read_lat_aks.log")).rows == [Row(2, micros=5.49)]


@pytest.mark.parametrize("value", ["nan", "inf", "-1.00", "0.00"])
def test_a_value_that_is_no_figure_is_a_problem(value: str) -> None:
    """And leaves no row behind that could pass."""
    text = perftest.printed(SWEEP, 400).replace("391.20     0.005829", f"{value}     0.005829")
    printed = parse(text)
    assert len(printed.problems) == 1 or len(printed.rows) == 2
    assert all(row.size != 8 << 20 for row in printed.rows)


@given(
    st.text(max_size=300) | st.sampled_from(perftest.printed(SWEEP, 400).splitlines()).map(lambda s: s[::-1])
)
def test_any_text_is_read_without_an_exception(text: str) -> None:
    """Alone, and after a header."""
    for out in (text, perftest.printed(SWEEP, 400)[:400] + text):
        assert all((row.gbps or row.micros or 0) > 0 for row in parse(out).rows)


# --- what is read from a recording -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nodes() -> list[Node]:
    """Give two measured nodes."""
    return list(fleet(read_recording(build("hgx-b200-measured")), undeclared(CATALOG)).nodes)


def ports(nodes: list[Node], change: Any = lambda _document: None) -> dict[str, PortRun]:
    """Give the ports of the measured nodes, after a change of what each node printed."""
    told = {}
    for node in nodes:
        (item,) = read_measurement(build("hgx-b200-measured"), "perftest", [node.name])[node.name].items
        document = json.loads(item.out)
        change(document)
        out = json.dumps(document).encode()
        told[node.name] = [tell(type(item)(item.id, item.seq, asked=item.asked, out=out), "m#1")]
    args = CATALOG.measurements["perftest"].args
    return {port.where: port for port in KIND.subjects(nodes, args, told)}


def test_each_port_has_its_own_figures(nodes: list[Node]) -> None:
    """By name, each as a share of its own line."""
    port = ports(nodes)["gpu001/mlx5_3/1"]
    assert isinstance(port.write_of_line, Read)
    assert port.write_of_line.value == pytest.approx(0.978)
    assert "ib_write_bw from host memory, " in port.write_gbps.note  # type: ignore[union-attr]
    assert isinstance(port.gpu_write_of_line, Read)
    assert port.gpu_write_of_line.value == pytest.approx(0.963, abs=1e-3)
    assert isinstance(port.write_us, Read)
    assert port.write_us.value == pytest.approx(1.92)


def test_what_became_of_larger_messages_is_said(nodes: list[Node]) -> None:
    """The largest that came, and the tool's own words of 2 and 16 GiB; a figure is not taken from those."""
    limit = CATALOG.checks["perf.rdma.bandwidth"].limits["largest_gib"]
    found = ports(nodes)["gpu001/mlx5_0/1"].largest_gib
    assert isinstance(found, Read)
    assert found.note == "larger ones, up to 16 GiB: Message Size should be between 1 and 2147483647"
    assert (found.value, limit.grade(found.value).verdict) == (1.0, Verdict.PASS)

    def small(document: dict[str, Any]) -> None:
        for row in document["rows"]:
            if "-s" in row["case"]["how"]:
                row.update(out="", err="Completion with error at client", exit=1)

    less = ports(nodes, small)["gpu001/mlx5_0/1"].largest_gib
    assert isinstance(less, Read)
    assert "Completion with error" in less.note
    assert (less.value, limit.grade(less.value).verdict) == (1 / 128, Verdict.WARN)


def test_a_huge_message_is_asked_for_once_and_never_by_a_suffix() -> None:
    """Which perftest 6.06 reads as another number: "16G" is 16 bytes to it."""
    cases = KIND.cases(CATALOG.measurements["perftest"].args)
    sizes = [(case["tool"], case["memory"], case["how"][1]) for case in cases if "-s" in case["how"]]
    assert all(size.isdigit() for _, _, size in sizes)
    huge = [(tool, memory, int(size)) for tool, memory, size in sizes if int(size) > 1 << 30]
    assert huge == [("ib_write_bw", "host", 2 << 30), ("ib_write_bw", "host", 16 << 30)]


def test_memory_that_is_too_small_for_it_is_said_on_both_sides(tmp_path: Path) -> None:
    """Nothing is started then: a node must not run out of memory for a figure."""
    how = ["-s", str(1 << 50), "-n", "5", "--report_gbits"]
    for document in run(tmp_path, an_order([{"tool": "ib_write_bw", "memory": "host", "how": how}])):
        whys = {row["why"] for row in document["rows"]}
        assert whys == {"not tried: 4194304 GiB for all rails are more than half of the free memory"}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"exit": 1, "err": "Couldn't connect to n2:18515"}, "Couldn't connect"),
        ({"why": "timed out: it was ended"}, "timed out"),
        ({"out": ""}, "it printed no row"),
        ({"out": None}, "it printed no row"),
        ({"exit": "0"}, "it ended with an error"),
    ],
)
def test_a_client_that_did_not_end_well_has_no_figure(
    nodes: list[Node], change: dict[str, object], why: str
) -> None:
    """However good its rows look."""

    def spoil(document: dict[str, Any]) -> None:
        for row in document["rows"]:
            row.update(change)

    fact = ports(nodes, spoil)["gpu001/mlx5_0/1"].write_gbps
    assert isinstance(fact, Unread)
    assert why in fact.why


def test_one_node_has_no_partner(nodes: list[Node]) -> None:
    """Which was not asked, and is no fault."""
    args = CATALOG.measurements["perftest"].args
    (first, *_) = KIND.subjects(nodes[:1], args, {nodes[0].name: []})
    assert isinstance(first.write_gbps, Unread)
    assert first.write_gbps.kind == "not_asked"


def test_the_order_names_rails_in_the_order_of_their_slots(nodes: list[Node]) -> None:
    """With the index of a routable address, which older releases do not find by themselves."""
    order = KIND.order(CATALOG.measurements["perftest"].args, nodes)
    rails = [rail for rail in order["rails"]["gpu001"] if rail[0] not in ("mlx5_8", "mlx5_9")]
    assert rails == [[f"mlx5_{number}", 1, 3] for number in range(8)]
    assert order["rounds"] == [[1, 0]]


# --- how it is run -----------------------------------------------------------------------------------------

_FAKE = """\
#!{python}
import socket, sys, time
args = sys.argv[1:]
port = int(args[args.index("-p") + 1])
if args[-1][0].isdigit() and args[-1].count(".") == 3:
    try:
        one = socket.create_connection((args[-1], port), timeout=5)
    except OSError:
        sys.exit("Couldn't connect to " + args[-1])
    one.recv(9)
    sys.stdout.write({text!r})
else:
    with socket.create_server(("127.0.0.1", port)) as server:
        server.accept()[0].sendall(b"x")
"""


def run(folder: Path, order: dict[str, Any]) -> list[dict[str, Any]]:
    """Run the errand as two nodes of one machine, and give what each printed."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    feed = errand.alone("rdma_pairs", order)
    started = []
    for rank in range(2):
        place = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        argv = [sys.executable, *errand.ALONE[1:]]
        how: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        started.append(subprocess.Popen(argv, env={"PATH": str(folder), **place}, **how))
    for one in started:
        assert one.stdin
        one.stdin.write(feed)
        one.stdin.close()
        one.stdin = None
    done = [one.communicate(timeout=60) for one in started]
    for out, err in done:
        assert out, err.decode()
    return [json.loads(out.splitlines()[-1]) for out, _ in done]


def an_order(cases: list[dict[str, Any]]) -> dict[str, Any]:
    """Give an order for two nodes of two rails."""
    rails = [["mlx5_0", 1, -1], ["mlx5_1", 1, -1]]
    names = {"nodes": ["n1", "n2"], "rails": {"n1": rails, "n2": rails}, "rounds": [[1, 0]]}
    return {"method": 1, **names, "cases": cases, "patience_s": 20, "get": GET}


def test_each_of_a_pair_is_a_client_on_every_rail(tmp_path: Path) -> None:
    """A fake tool in PATH replays what a client prints; its command is kept, and read by the parser."""
    fake = tmp_path / "ib_write_bw"
    fake.write_text(_FAKE.format(python=sys.executable, text=perftest.printed(SWEEP, 400)), encoding="utf-8")
    fake.chmod(0o755)
    for document, other in zip(run(tmp_path, an_order([SWEEP])), ("n2", "n1"), strict=True):
        assert "ended" not in document
        assert [(row["rail"], row["with"], row["exit"]) for row in document["rows"]] == [
            (["mlx5_0", 1], other, 0),
            (["mlx5_1", 1], other, 0),
        ]
        assert document["rows"][0]["command"][:4] == ["ib_write_bw", "-F", "-d", "mlx5_0"]
        assert parse(document["rows"][0]["out"]).rows[-1].gbps == 391.2


def test_a_tool_that_is_missing_says_how_to_get_it(tmp_path: Path) -> None:
    """On both sides, and nobody waits for the other."""
    for document in run(tmp_path, an_order([SWEEP])):
        assert {row["why"] for row in document["rows"]} == {f"not found: ib_write_bw: {GET}"}


def test_a_client_that_fails_lets_its_server_go(tmp_path: Path) -> None:
    """A tool that dies says so at once; the server that waits for it is ended and gives no row."""
    fake = tmp_path / "ib_write_bw"
    client = "import sys\nif sys.argv[-1].count('.') == 3: sys.exit('Failed to modify QP to RTR')\n"
    fake.write_text(f"#!{sys.executable}\n{client}import time\ntime.sleep(60)\n", encoding="utf-8")
    fake.chmod(0o755)
    for document in run(tmp_path, an_order([SWEEP])):
        assert [row["exit"] for row in document["rows"]] == [1, 1]
        assert "Failed to modify QP" in document["rows"][0]["err"]
