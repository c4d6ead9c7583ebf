"""What measurements give on a healthy node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuassay.evidence.item import Item
from gpuassay.measure import TOOLS
from gpuassay.measure.work import rates
from recorded.items import encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpuassay.judge.fact import Scalar

LEVEL: dict[str, Scalar] = {"level": 2}
CATEGORIES = {"software": "Deployment", "memory": "Hardware", "pcie": "Integration"}


def dcgm_diag(gpus: int) -> Item:
    """Return a report of `dcgmi diag --run 2 --json` in the form of DCGM 4, with every test passed."""
    tool = TOOLS["dcgm_diag"]
    results = [
        {"entity_group": "GPU", "entity_group_id": 1, "entity_id": gpu, "status": "Pass"}
        for gpu in range(gpus)
    ]
    categories = [
        {
            "category": category,
            "tests": [{"name": name, "results": results, "test_summary": {"status": "Pass"}}],
        }
        for name, category in CATEGORIES.items()
    ]
    report = {"DCGM Diagnostic": {"test_categories": categories}, "metadata": {"version": "4.6.0"}}
    asked = {"command": list(tool.argv(LEVEL)), "method": tool.method, "args": LEVEL}
    return Item("measure/dcgm_diag", 0, asked=asked, exit=0, seconds=112.0, out=encode(report))


NCCL_TESTS: dict[str, Scalar] = {"least": 8, "most": "16G", "factor": 4, "calls": 20, "warm": 5}


def nccl_tests(node: str, product: str, busbw: float, gpus: int = 8) -> Item:
    """Return what all_reduce_perf prints on the GPUs of a node, in the form of nccl-tests 2.17."""
    tool = TOOLS["nccl_tests"]
    sizes = rates.sizes(8, 16 << 30, 4)
    lines = [
        "# command: /opt/nccl-tests/build/all_reduce_perf -b 8 -e 16G -f 4 -n 20 -w 5 -c 1 -g 8",
        "# nccl-tests version 2.17.6 nccl-headers=22903 nccl-library=22903",
        "# Collective test starting: all_reduce_perf",
        "#",
        "# Using devices",
        *(
            f"#  Rank {gpu:2} Group  0 Pid   4711 on {node} device {gpu:2} [0000:{gpu + 16:02x}:00] {product}"
            for gpu in range(gpus)
        ),
        "#",
        "#  size  count  type  redop  root" + 2 * "  time  algbw  busbw  #wrong",
        "#   (B)  (elements)" + 2 * "  (us)  (GB/s)  (GB/s)",
        *(_nccl_row(size, busbw, gpus) for size in sizes),
        "# Out of bounds values : 0 OK",
        f"# Avg bus bandwidth    : {busbw / 2:.4f}",
        "#",
        "# Collective test concluded: all_reduce_perf",
    ]
    asked = {"command": list(tool.argv(NCCL_TESTS)), "method": tool.method, "args": NCCL_TESTS}
    out = ("\n".join(lines) + "\n").encode()
    return Item("measure/nccl_tests", 0, asked=asked, exit=0, seconds=38.0, out=out)


def _nccl_row(size: int, busbw: float, gpus: int) -> str:
    seconds = 30e-6 + rates.bus_factor("all_reduce", gpus) * size / busbw / 1e9
    alg, bus = rates.algbw(size, seconds), rates.busbw("all_reduce", gpus, size, seconds)
    half = f"{seconds * 1e6:9.5g} {alg:7.2f} {bus:7.2f}       0"
    return f"{size:12} {size // 4:13}     float     sum      -1 {half} {half}"


TIMEOUT: dict[str, Scalar] = {"timeout_s": 2}


def metadata(answer: Mapping[str, object] | None = None) -> Item:
    """Return what comes of asking for a metadata service: nothing answers, unless told otherwise."""
    tool = TOOLS["metadata"]
    asked = {"command": list(tool.argv(TIMEOUT)), "method": tool.method, "args": TIMEOUT}
    out = encode(answer or {"silence": "timed out"})
    return Item("measure/metadata", 0, asked=asked, exit=0, seconds=2.1, out=out)


QUERY: dict[str, Scalar] = {"seconds": 5}


def fabric_seat(answer: Mapping[str, object] | None = None) -> Item:
    """Return what a fabric's management tells: the switch keeps what its key protects, if not told else."""
    tool = TOOLS["fabric_seat"]
    kept = {"reached": True, "key_is_zero": None, "protect_bits": None, "switches": 0, "adapters": 4}
    asked = {"command": list(tool.argv(QUERY)), "method": tool.method, "args": QUERY}
    return Item("measure/fabric_seat", 0, asked=asked, exit=0, seconds=0.4, out=encode(answer or kept))


RVS_LEVEL: dict[str, Scalar] = {"level": 3}
RVS_GPU_IDS = (28851, 51499, 57603, 22683, 53458, 26954, 16738, 63738)  # made up, in the form of KFD's


def rvs() -> Item:
    """Return what `rvs -r 3` prints on eight GPUs, in the form of its user guide, all passed."""
    tool = TOOLS["rvs"]
    lines = [
        *_action("hbm_mid", "babel"),
        *_action("pcie_d2h_bandwidth", "pebb", _transfers("pcie-bandwidth", "h2d: false  d2h: true  55.871")),
        *_action("xgmi_d2d_bandwidth", "pbqt", _transfers("p2p-bandwidth", "bidirectional: true  93.307")),
        *_action(
            "compute-bf16-trig",
            "gst",
            _verdicts("gst", "Gflop: 1012345.250000 flops_per_op: 2199.023256x1e9"),
        ),
    ]
    text = "".join(f"[RESULT] [{4000 + n:6}.{n:<6}] {line}\n" for n, line in enumerate(lines))
    asked = {"command": list(tool.argv(RVS_LEVEL)), "method": tool.method, "args": RVS_LEVEL}
    return Item("measure/rvs", 0, asked=asked, exit=0, seconds=1260.0, out=text.encode())


def _action(name: str, module: str, results: Iterable[str] = ()) -> list[str]:
    return [f"Action name :{name}", f"Module name :{module}", *(f"[{name}] {said}" for said in results)]


def _transfers(kind: str, how: str) -> list[str]:
    count = len(RVS_GPU_IDS)
    return [
        f"{kind}  [{n}/{count}] 0 {gpu}  {how} GBps  duration: 0.538000 sec"
        for n, gpu in enumerate(RVS_GPU_IDS, 1)
    ]


def _verdicts(module: str, figures: str) -> list[str]:
    return [f"{module} {gpu} {figures} pass: TRUE" for gpu in RVS_GPU_IDS]
