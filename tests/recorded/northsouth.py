"""What a healthy cluster shows of its ways: out of it, and from node to node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuassay.evidence.item import Item
from gpuassay.judge.config import Place, Table
from gpuassay.judge.outside import Outside, read_outside
from gpuassay.judge.services import Services
from gpuassay.measure import SURVEYS, TOOLS
from recorded.items import encode

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from gpuassay.judge.fact import Scalar

RESOLVERS = ("10.0.0.2", "10.0.0.3")
MIRROR = "https://mirror.example.com/ubuntu/ls-lR.gz"
IMAGE = "https://registry.example.com/v2/pytorch/manifests/sha256:0123abcd"
SITE: dict[str, Any] = {
    "outside": {"names": ["packages.example.com"]},
    "mirror": [
        {"url": MIRROR, "bytes": 30_000_000},
        {"url": IMAGE, "bytes": 10_000_000_000, "kind": "image"},
    ],
}
ARGS: dict[str, dict[str, Scalar]] = {
    "lookups": {"asks": 20, "seconds": 5},
    "fetches": {"seconds": 60},
    "pulls": {"seconds": 300},
    "ssh_ways": {"seconds": 10},
    "exports": {"seconds": 10},
}


def outside() -> list[Item]:
    """Return what lookups and fetches of the site file's names and mirrors give on a node."""
    names = ("packages.example.com", "mirror.example.com", "registry.example.com")
    looked = [_lookup(server, name) for server in RESOLVERS for name in names]
    return [
        _item("lookups", looked),
        _item("fetches", [_fetch(MIRROR, "file", 28_114_300, 0.31)]),
        _item("pulls", [_fetch(IMAGE, "image", 8_730_222_117, 74.2)]),
    ]


def ssh_ways(name: str, index: int, nodes: int) -> Item:
    """Return the ways from the ``index``-th node of so many: all of them open."""
    places = dict.fromkeys((index - 1 + step) % nodes + 1 for step in (1, 2, nodes // 2))
    letters = name.rstrip("0123456789")
    rows = [{"to": f"{letters}{place:03}", "seconds": 0.21, "exit": 0, "said": ""} for place in places]
    return _item("ssh_ways", rows)


def exports() -> Item:
    """Return the list of the server of the shared home: it goes to the cluster's own network."""
    listed = {"/export/home": "10.0.0.0/16"}
    row = {"at": "/home", "server": "nfs1", "export": "/export/home", "sec": "sys", "exports": listed}
    return _item("exports", [row])


def second_account(nodes: Sequence[str]) -> list[Item]:
    """Return what both accounts see: the first one all nodes, the other tenant's none of them."""
    survey = SURVEYS["second_account"]
    asked = {"survey": "second_account", "method": survey.method, "args": {"seconds": 30}}

    def told(name: str, content: object) -> Item:
        return Item(f"survey/second_account/{name}", 0, asked=asked, exit=200, out=encode(content))

    return [
        told("prometheus/first", {"ours": list(nodes)}),
        told("prometheus/second", {"ours": []}),
        told("grafana", {"sources": ["main"]}),
        told("grafana/main/first", {"ours": list(nodes)}),
        told("grafana/main/second", {"ours": []}),
    ]


def _lookup(server: str, name: str) -> dict[str, object]:
    times = [round(0.9 + 0.013 * n, 3) for n in range(20)]
    return {"resolver": server, "name": name, "asked": 20, "ms": times, "codes": [0], "problem": ""}


def _fetch(url: str, kind: str, size: int, seconds: float) -> dict[str, object]:
    times = {"first_s": 0.14, "stream_s": seconds, "seconds": round(seconds + 0.2, 3)}
    return {"url": url, "kind": kind, "end": "whole", "bytes": size, **times}


def _item(name: str, rows: Sequence[object]) -> Item:
    tool = TOOLS[name]
    services = Services(outside=_outside())
    asked = {
        "command": list(tool.argv(ARGS[name])),
        "method": tool.method,
        "args": ARGS[name],
        "order": tool.order(services),  # type: ignore[attr-defined]
    }
    return Item(f"measure/{name}", 0, asked=asked, exit=0, seconds=2.0, out=encode({"rows": rows}))


def _outside() -> Outside:
    return read_outside(Table(SITE, Place("site.toml"), []))
