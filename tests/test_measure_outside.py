"""The way out: real lookups and downloads on loopback, bytes counted, and no failure taken for a rate."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuassay.evidence.item import Item
from gpuassay.judge.config import Place, Table
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.outside import IMAGE, read_outside
from gpuassay.measure import TOOLS, errand
from gpuassay.measure.errands import lookup
from gpuassay.measure.outside import Fetched, NamesOnNode, Resolver, rows
from gpuassay.target import Job
from gpuassay.target.local import Local
from gpuassay.target.progress import Tally
from serving import HANG, served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuassay.judge.outside import Outside
    from serving import Answer, Asked

LAYERS = {"sha256:c0": b"c" * 100, "sha256:a1": b"a" * 3_000_000, "sha256:b2": b"b" * 1_000_000}


def declared(**tables: Any) -> tuple[Outside, list[str]]:
    """Read a site file that has only these tables."""
    mistakes: list[Any] = []
    return read_outside(Table(tables, Place("site.toml"), mistakes)), [str(one) for one in mistakes]


def fetch(url: str, kind: str = "file", most: int = 10_000_000, seconds: float = 20) -> Fetched:
    """Fetch by the program that is sent to nodes, run on this machine as a node runs it."""
    order = {"mirrors": [{"url": url, "kind": kind, "bytes": most}], "proxy": "", "seconds": seconds}
    here = Local()
    job = Job("fetches", errand.ALONE, here.declared(), feed=errand.alone("fetch", order))
    [item] = here.run(job, Tally(1, lambda _line: None)).values()
    [row] = rows(item, "measure/fetches/n1#1")
    return Fetched("n1", row)


def came(fetched: Fetched) -> tuple[object, object]:
    """Give how it ended and how many bytes came."""
    return fetched.row.values["end"], fetched.row.values["bytes"]  # type: ignore[index]


def registry(asked: Asked) -> Answer:
    """Answer as a registry does that gives a token to everybody, and its blobs from another address."""
    host = "http://127.0.0.1"
    manifest = {
        "config": {"digest": "sha256:c0"},
        "layers": [{"digest": digest} for digest in ("sha256:a1", "sha256:b2")],
    }
    index = {
        "manifests": [
            {"digest": "sha256:m", "platform": {"architecture": word}} for word in ("amd64", "arm64")
        ]
    }
    if asked.path.startswith("/token?"):
        return 200, json.dumps({"token": "given"}), {}
    if asked.path.startswith("/store/"):
        return (400, "two ways to sign in", {}) if asked.token else (200, LAYERS[asked.path[7:]], {})
    if asked.token != "Bearer given":  # noqa: S105 - of nothing
        port = PORT["of"]
        return 401, "", {"WWW-Authenticate": f'Bearer realm="{host}:{port}/token",service="r",scope="pull"'}
    if asked.path.endswith("/manifests/sha256:x"):
        return 200, json.dumps(index), {}
    if asked.path.endswith("/manifests/sha256:m"):
        return 200, json.dumps(manifest), {}
    return 307, "", {"Location": f"{host}:{PORT['of']}/store/{asked.path.rpartition('/')[2]}"}


PORT = {"of": 0}


def test_an_image_is_pulled_whole_with_a_token_for_everybody() -> None:
    """Index, manifest, configuration and layers come; the store beside the registry never sees the token."""
    with served(registry) as site:
        PORT["of"] = site.port
        found = fetch(f"{site.address}/v2/torch/manifests/sha256:x", "image")

    reached, rate = found.reached, found.mbps
    assert isinstance(reached, Read), reached
    assert reached.value, reached.note
    end, size = came(found)
    assert end == "whole"
    assert isinstance(size, int)
    assert size > 4_000_100
    assert isinstance(rate, Read)
    assert rate.value > 0
    assert [one.path for one in site.asked if one.path.startswith("/store/")] == [
        "/store/sha256:c0",
        "/store/sha256:a1",
        "/store/sha256:b2",
    ]


def test_no_more_is_fetched_than_the_site_file_allows() -> None:
    """The rest of a larger file stays where it is, also if the server knows no ranges."""
    with served(lambda _asked: (200, b"x" * 5_000_000, {})) as site:
        found = fetch(f"{site.address}/file", most=2_000_000)

    assert came(found) == ("limit", 2_000_000)
    assert isinstance(found.reached, Read)
    assert found.reached.value


def test_a_model_is_the_files_of_its_index() -> None:
    """Each file that the index names is fetched once, beside it."""

    def hub(asked: Asked) -> Answer:
        if asked.path.endswith("index.json"):
            return (
                200,
                json.dumps(
                    {"weight_map": {"a": "1.safetensors", "b": "2.safetensors", "c": "1.safetensors"}}
                ),
                {},
            )
        return 200, b"w" * 600_000, {}

    with served(hub) as site:
        found = fetch(f"{site.address}/m/model.safetensors.index.json", "model")

    assert came(found)[0] == "whole"
    assert site.paths() == ["/m/model.safetensors.index.json", "/m/1.safetensors", "/m/2.safetensors"]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((403, "no", {}), "HTTP 403"),
        ((404, "no", {}), "HTTP 404"),
        ((200, "{}", {}), "KeyError"),
        (HANG, "timed out"),
    ],
)
def test_what_does_not_come_is_said(answer: Answer, says: str) -> None:
    """A refusal, a manifest that is none and a server that hangs are no rate, and name their reason."""
    with served(lambda _asked: answer) as site:
        found = fetch(f"{site.address}/v2/torch/manifests/sha256:x", "image", seconds=1)

    reached = found.reached
    assert isinstance(reached, Read)
    assert not reached.value
    assert says in reached.note
    assert isinstance(found.mbps, Unread)


class _Dns(threading.Thread):
    """A resolver that answers with a code, after losing some questions."""

    def __init__(self, code: int, loses: int) -> None:
        super().__init__(daemon=True)
        self.link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.link.bind(("127.0.0.1", 0))
        self.port = self.link.getsockname()[1]
        self._code, self._loses = code, loses
        self.names: list[bytes] = []

    def run(self) -> None:
        """Answer until it is told to stop, by a packet of nothing."""
        while True:
            question, sender = self.link.recvfrom(512)
            if not question:
                return
            self.names.append(question[12:-4])
            if self._loses:
                self._loses -= 1
                continue
            strange = bytes([question[0] ^ 1, *question[1:2]])  # not the answer to this question: passed over
            flags = bytes([0x81, 0x80 | self._code])
            self.link.sendto(strange + flags + question[4:], sender)
            self.link.sendto(question[:2] + flags + question[4:], sender)


@contextmanager
def resolver(code: int = 0, loses: int = 0) -> Iterator[_Dns]:
    """Run a resolver until the block ends."""
    server = _Dns(code, loses)
    server.start()
    try:
        yield server
    finally:
        server.link.sendto(b"", ("127.0.0.1", server.port))
        server.join()
        server.link.close()


def looked_up(answers: list[dict[str, Any]]) -> Resolver:
    """Read rows as those of a node."""
    item = Item("lookups", 1, out=json.dumps({"rows": answers}).encode())
    found: NamesOnNode = TOOLS["lookups"].read("n1", {}, item, "measure/lookups/n1#1")
    [only] = found.resolvers
    return only


def test_every_answer_of_a_resolver_is_timed() -> None:
    """The name goes out as DNS writes it, what answers another question is passed over, none is lost."""
    with resolver() as server:
        found = looked_up(lookup.ask("127.0.0.1", ["mirror.example.com"], 5, 5.0, server.port))

    assert server.names == [b"\x06mirror\x07example\x03com\x00"] * 5
    assert isinstance(found.median_ms, Read)
    assert isinstance(found.worst_ms, Read)
    assert 0 < found.median_ms.value <= found.worst_ms.value
    assert found.lost == Read(0.0, "measure/lookups/n1#1", "5 of 5 questions were answered")
    assert isinstance(found.unknown, Read)
    assert found.unknown.value == 0


def test_a_question_that_is_lost_counts() -> None:
    """One of five without an answer is a fifth."""
    with resolver(loses=1) as server:
        found = looked_up(lookup.ask("127.0.0.1", ["a.example"], 5, 0.2, server.port))

    assert isinstance(found.lost, Read)
    assert found.lost.value == pytest.approx(0.2)


def test_a_dead_resolver_is_not_asked_for_ever() -> None:
    """After four questions without an answer it is left; no time is told of it."""
    with resolver(loses=99) as server:
        found = looked_up(lookup.ask("127.0.0.1", ["a.example", "b.example"], 20, 0.05, server.port))

    assert len(server.names) == 4
    assert isinstance(found.lost, Read)
    assert found.lost.value == 1.0
    assert isinstance(found.median_ms, Unread)
    assert "answered nothing" in found.median_ms.why


def test_a_name_that_is_unknown_is_said() -> None:
    """NXDOMAIN comes fast, and is no address."""
    with resolver(code=3) as server:
        found = looked_up(lookup.ask("127.0.0.1", ["a.example"], 3, 5.0, server.port))

    assert isinstance(found.unknown, Read)
    assert (found.unknown.value, found.unknown.note) == (1, "a.example: NXDOMAIN")


def test_the_resolvers_are_those_of_the_c_library() -> None:
    """The first three lines count; without any it is the node itself: resolv.conf(5)."""
    lines = "".join(f"nameserver 10.0.0.{n}\n" for n in range(1, 5))
    assert lookup.resolvers(f"search x\n# nameserver 1.1.1.1\n{lines}") == [
        "10.0.0.1",
        "10.0.0.2",
        "10.0.0.3",
    ]
    assert lookup.resolvers("options ndots:5\n") == ["127.0.0.1"]


@given(
    st.binary()
    | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(
        lambda v: json.dumps({"rows": v}).encode()
    )
)
def test_reading_never_raises(out: bytes) -> None:
    """Whatever came, each value is a fact or unread, and there is always a row to say so."""
    for name in ("lookups", "fetches", "ssh_ways"):
        found = TOOLS[name].read("n1", {}, Item(name, 1, out=out), "n1#1")
        if name == "lookups":
            facts = [
                fact
                for one in found.resolvers
                for fact in (one.median_ms, one.worst_ms, one.lost, one.unknown)
            ]
        elif name == "fetches":
            facts = [found.best_mbps, *(one.reached for one in found.fetched)]
        else:
            facts = [way.open for way in found.ways]
        assert facts
        assert all(isinstance(fact, Unread) for fact in facts)


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ({"mirror": [{"url": "https://u:secret@m/x", "bytes": 1}]}, "neither a user"),
        ({"mirror": [{"url": "https://m/x?token=secret", "bytes": 1}]}, "nor a query"),
        ({"mirror": [{"url": "ftp://m/x", "bytes": 1}]}, "expected an address"),
        ({"mirror": [{"url": "https://m/x"}]}, "bytes: is missing"),
        ({"mirror": [{"url": "https://m/x", "bytes": 0}]}, "1 or more"),
        ({"mirror": [{"url": "https://m/x", "bytes": 1, "kind": "image"}]}, "the manifest of an image"),
        ({"outside": {"price_per_gb": 0.1}}, "currency: is missing"),
        ({"outside": {"nmaes": []}}, 'did you mean "names"?'),
    ],
)
def test_mistakes_of_the_site_file_are_named(tables: dict[str, Any], says: str) -> None:
    """What could hold a secret, has no bound, or cannot be priced, is told before anything is fetched."""
    _, mistakes = declared(**tables)
    assert len(mistakes) == 1
    assert says in mistakes[0]
    assert "secret" not in mistakes[0]


def test_money_is_told_only_where_a_price_was_declared() -> None:
    """The bound of all nodes together, and its price; nothing is guessed."""
    mirror = [{"url": "https://r/v2/x/manifests/sha256:1", "bytes": 10_000_000_000, "kind": "image"}]
    priced, _ = declared(mirror=mirror, outside={"price_per_gb": 0.09, "currency": "USD"})
    silent, _ = declared(mirror=mirror)

    assert priced.cost(priced.of(IMAGE), 4) == (
        "10 GB to each of 4 nodes, 40 GB in all, at most; 3.60 USD at 0.09 USD per GB"
    )
    assert "is not declared" in silent.cost(silent.of(IMAGE), 4)
