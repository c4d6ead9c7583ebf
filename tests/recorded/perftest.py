"""What clients of perftest print on a healthy node: made up, in the form of release 6."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuassay.evidence.item import Item
from gpuassay.measure.perftest import Perftest
from recorded import exchanges
from recorded.items import encode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ARGS: dict[str, Any] = {
    "tools": "ib_write_bw ib_read_bw ib_send_bw ib_write_lat ib_read_lat ib_send_lat",
    "memories": "host gpu",
    "rounds": 3,
    "patience_s": 60,
}
_RULE = "-" * 87
_SHARES = {"host": 0.978, "gpu": 0.963}
_MICROS = {"ib_write_lat": 1.92, "ib_read_lat": 3.71, "ib_send_lat": 2.04}


def item(name: str, index: int, devices: Sequence[str], gbps: float, nodes: int = 2) -> Item:
    """Return what a node brings home that was a client of one partner."""
    kind = Perftest()
    names = exchanges.mates(name, index, nodes)
    other = names[(names.index(name) ^ 1) % nodes]
    rows = [
        {
            "case": case,
            "with": other,
            "rail": [device, 1],
            "command": [case["tool"], "-F", "-d", device, "-i", "1", *case["how"], "192.0.2.7"],
            **(refused() if _too_large(case) else {"out": printed(case, gbps), "err": "", "exit": 0}),
        }
        for case in kind.cases(ARGS)
        for device in devices
    ]
    document = {"workload": kind.name, "method": kind.method, "node": name, "rows": rows}
    out = encode(document) + b"\n"
    return Item("measure/perftest", 0, asked=kind.asked(ARGS), exit=0, seconds=96.0, out=out)


def _too_large(case: Mapping[str, Any]) -> bool:
    return "-s" in case["how"] and int(case["how"][1]) >= 1 << 31


def refused() -> dict[str, Any]:
    """Return what release 6.06 says of a message of 2 GiB and more: as it was tried by hand."""
    said = " Message Size should be between 1 and 2147483647\n Parser function exited with Error\n"
    return {"out": "", "err": said, "exit": 1}


def printed(case: Mapping[str, Any], gbps: float) -> str:
    """Return what a client prints; of its sizes only some."""
    sizes = [8, 65536, 8 << 20] if "-a" in case["how"] else [1 << 30]
    if case["tool"].endswith("_lat"):
        head = (
            " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]"
            "    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]"
        )
        rows = [_latency(size, _MICROS[case["tool"]] + size * 8e-3 / gbps) for size in sizes]
    else:
        head = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]"
        rows = [_bandwidth(size, _SHARES[case["memory"]] * gbps) for size in sizes]
    return "\n".join([_RULE, f"                    {case['tool']}", _RULE, head, *rows, _RULE, ""])


def _latency(size: int, micros: float) -> str:
    words = (micros - 0.05, micros + 3.1, micros, micros + 0.02, 0.07, micros + 0.4, micros + 2.8)
    return f" {size:<7} 1000          " + "         ".join(f"{word:.2f}" for word in words)


def _bandwidth(size: int, most: float) -> str:
    value = min(most, 2.8e6 * size * 8 / 1e9)
    rate = value / 8e-3 / size
    return f" {size:<10} 5000             {value:.2f}             {value:.2f}     {rate:.6f}"
