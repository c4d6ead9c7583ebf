"""perftest (``ib_write_bw`` and its like) between nodes: how fast each port is, from host and GPU memory.

Nodes meet in rounds of disjoint pairs, all rails at once, and each is a client once: so a port has figures of
its own, and of several partners the best counts, which a slow partner does not spoil.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from gpuassay.facts.link import ETHERNET
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure import figures
from gpuassay.measure.collectives import size_words
from gpuassay.measure.perftest_printed import Row, parse
from gpuassay.measure.work import rates

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.facts import Node
    from gpuassay.facts.rdma import Port
    from gpuassay.facts.record import Record
    from gpuassay.judge.fact import Absence, Fact, Scalar

GET = (
    "install perftest (Debian, Ubuntu: apt install perftest; "
    "for GPU memory build github.com/linux-rdma/perftest with it)"
)
_TRIED_BEYOND = ("ib_write_bw", "host")
_JUDGED = 1 << 20  # the least message that a rate is judged at
_LARGE = 1 << 30
"""The largest message that ports of ConnectX take (max_msg_sz of ibv_devinfo -v); 16 GiB of it are sent."""
_BEYOND = (1 << 31, 1 << 34)
"""Larger ones, which are asked for and mostly refused: perftest 6.06 takes 2^31 - 1 bytes at the most."""


class Perftest:
    """``[measure.X] workload = "perftest"``: one job over all nodes of a pool, one rank a node."""

    name = "perftest"
    method = 2
    together: ClassVar[bool] = True
    one_rank: ClassVar[bool] = True
    errand: ClassVar[str] = "rdma_pairs"

    def cases(self, args: Mapping[str, Any]) -> list[dict[str, Any]]:
        """List what is run: each tool from each memory, over the sizes of its own sweep and the largest."""
        return [
            {"tool": tool, "memory": memory, "how": how}
            for memory in str(args["memories"]).split()
            for tool in str(args["tools"]).split()
            for how in _how(tool, memory)
        ]

    def order(self, args: Mapping[str, Scalar], nodes: Sequence[Node] = ()) -> dict[str, Any]:
        """Give what a node is told to do: who meets whom, by which ports."""
        return {
            "method": self.method,
            "nodes": [node.name for node in nodes],
            "rails": {node.name: [_rail(port) for port in _ports(node)] for node in nodes},
            "rounds": rates.rounds(len(nodes), int(args["rounds"])),
            "cases": self.cases(args),
            "patience_s": args["patience_s"],
            "get": GET,
        }

    def asked(self, args: Mapping[str, Scalar]) -> dict[str, Any]:
        """Say what was asked, as it is recorded."""
        return {"workload": self.name, "method": self.method, "args": dict(args)}

    def subjects(
        self, nodes: Sequence[Node], args: Mapping[str, Scalar], told: Mapping[str, Sequence[Record]]
    ) -> list[PortRun]:
        """Give a subject for each port of the compute fabric."""
        cases = self.cases(args)
        return [
            PortRun(node.name, port.where, port, tuple(told[node.name]), cases, alone=len(nodes) == 1)
            for node in nodes
            for port in node.fabric.ports
        ]


def _how(tool: str, memory: str) -> list[list[str]]:
    """Give the options of a tool: its own sweep, from 2 bytes to 8 MiB, its largest message, and beyond."""
    if tool.endswith("_lat"):
        return [["-a"]]
    beyond = _BEYOND if (tool, memory) == _TRIED_BEYOND else ()
    large = [["-s", str(_LARGE), "-n", "16"], *(["-s", str(size), "-n", "5"] for size in beyond)]
    return [[*how, "--report_gbits"] for how in (["-a"], *large)]


def _ports(node: Node) -> list[Port]:
    return sorted((port for port in node.fabric.ports if port.connected), key=lambda port: port.bus_address)


def _rail(port: Port) -> list[Any]:
    """Name a port as perftest wants it: device, number, and on Ethernet the index of a routable address."""
    layer, gids = port.link_layer, port.gids
    index = -1
    if isinstance(layer, Read) and layer.value == ETHERNET and isinstance(gids, Read):
        routable = [gid.index for gid in gids.value if gid.routable and gid.version != 1]
        index = routable[0] if routable else -1
    number = port.name.rpartition("/")[2]
    return [port.device, int(number) if number.isdigit() else 1, index]


@dataclass(frozen=True)
class PortRun:
    """One port, as a client of its partners."""

    node: str
    where: str
    port: Port = field(repr=False, compare=False)
    told: tuple[Record, ...]
    cases: Sequence[Mapping[str, Any]]
    alone: bool = False
    models: tuple[str, ...] = ()

    @property
    def write_gbps(self) -> Fact[float]:
        """What it writes to the partner that it is fastest with, host memory to host memory, in Gb/s."""
        return self._rate("ib_write_bw", "host")

    @property
    def largest_gib(self) -> Fact[float]:
        """The largest message that it wrote, in GiB, and in the note what became of larger ones."""
        found = self._found(*_TRIED_BEYOND)
        sizes = [row.size for row in found if isinstance(row, Row)]
        if not sizes:
            return self._lack(*_TRIED_BEYOND)
        refused = dict.fromkeys(one for one in found if isinstance(one, str))
        note = f"larger ones, up to {size_words(_BEYOND[-1])}: {'; '.join(refused)}" if refused else ""
        return Read(max(sizes) / 2**30, self._ref, note)

    @property
    def write_of_line(self) -> Fact[float]:
        """The same as a share of its line rate."""
        return self._of_line("ib_write_bw", "host")

    @property
    def read_of_line(self) -> Fact[float]:
        """What it reads from its partner, as a share of its line rate."""
        return self._of_line("ib_read_bw", "host")

    @property
    def send_of_line(self) -> Fact[float]:
        """What it sends to its partner, as a share of its line rate."""
        return self._of_line("ib_send_bw", "host")

    @property
    def gpu_write_of_line(self) -> Fact[float]:
        """What it writes from the memory of a GPU to that of another, as a share of its line rate."""
        return self._of_line("ib_write_bw", "gpu")

    @property
    def write_us(self) -> Fact[float]:
        """How long 8 bytes take one way, host memory, in microseconds."""
        found = [row for row in self._found("ib_write_lat", "host") if isinstance(row, Row)]
        small = [row.micros for row in found if row.size == 8 and row.micros]  # noqa: PLR2004 - bytes
        if small:
            return Read(min(small), self._ref, "one way, half of the round trip, the median")
        return self._lack("ib_write_lat", "host")

    def _of_line(self, tool: str, memory: str) -> Fact[float]:
        return figures.ratio(self._rate(tool, memory), self.port.line_rate_gbps)

    def _rate(self, tool: str, memory: str) -> Fact[float]:
        rows = [row for row in self._found(tool, memory) if isinstance(row, Row) and row.gbps]
        large = [row for row in rows if row.size >= _JUDGED]
        if not large:
            return self._lack(tool, memory)
        best = max(large, key=lambda row: row.gbps or 0.0)
        note = f"{tool} from {memory} memory, {size_words(best.size)}: {best.gbps:.4g} Gb/s"
        return Read(best.gbps or 0.0, self._ref, note)

    def _found(self, tool: str, memory: str) -> list[Row | str]:
        """Give the rows of a tool, of all partners; or in words why a run gave none."""
        found: list[Row | str] = []
        for row in self._runs:
            case = row.look("case")
            told = case.value if isinstance(case, Read) and isinstance(case.value, dict) else {}
            if (told.get("tool"), told.get("memory")) == (tool, memory):
                found += _read(row)
        return found

    @cached_property
    def _runs(self) -> list[Record]:
        listed = [record.listed("rows") for record in self.told]
        rows = [row for one in listed if isinstance(one, Read) for row in one.value]
        return [row for row in rows if self._is_mine(row)]

    def _is_mine(self, row: Record) -> bool:
        rail = row.look("rail")
        return isinstance(rail, Read) and rail.value == _rail(self.port)[:2]

    @property
    def _ref(self) -> str:
        return self.told[0].evidence if self.told else ""

    def _lack(self, tool: str, memory: str) -> Unread:
        """Say why there is no figure."""
        if self.alone:
            return Unread("not_asked", "there is one node, which has no other to reach")
        if self.told and self.told[0].unread:
            return self.told[0].unread
        said = [one for one in self._found(tool, memory) if isinstance(one, str)]
        ended = _said(self.told[0], "ended") if self.told else ""
        why = said[0] if said else brief(ended) or "it met no partner, or carries no traffic"
        kind: Absence = "not_found" if why.startswith("not found") else "failed"
        return Unread(kind, f"{tool}, {memory} memory: {why}", self._ref)


def _read(row: Record) -> list[Row | str]:
    """Read what one client printed; whatever it says, one that did not end well has no figure."""
    if why := _said(row, "why"):
        return [brief(why)]
    printed, code = parse(_said(row, "out")), row.count("exit")
    if not isinstance(code, Read) or code.value != 0 or printed.problems:
        err = _said(row, "err")
        last = parse(err).problems[:1] or [brief(line) for line in err.strip().splitlines()[-1:]]
        return ["; ".join([*printed.problems[:2], *last]) or "it ended with an error"]
    return [*printed.rows] if printed.rows else ["it printed no row"]


def _said(row: Record, key: str) -> str:
    fact = row.look(key)
    return fact.value if isinstance(fact, Read) and isinstance(fact.value, str) else ""
