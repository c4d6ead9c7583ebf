"""The survey of kubelets as they are to somebody without a name: of the nodes that the API server lists.

A node is asked at its own address only, and only what answers there with a certificate of that node's: from
outside the cluster's network the same address may be another's machine. No word of an answer is kept.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Final

from gpuassay.evidence.item import Item
from gpuassay.facts.kube_words import records, text
from gpuassay.facts.kubernetes import KubeNode
from gpuassay.facts.record import Record
from gpuassay.facts.source import parse
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure.knocking import knock
from gpuassay.measure.kube_volumes import INSTALL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuassay.evidence.recording import NodeEvidence
    from gpuassay.judge.fact import Fact, Scalar
    from gpuassay.judge.services import Services
    from gpuassay.target.kube_api import Api

PORT: Final = 10250
READ_ONLY: Final = 10255
_NODE: Final = "node/"
_REFUSED: Final = frozenset({401, 403})
_OK: Final = 200
_MOST: Final = 599
_AT_ONCE: Final = 64


class Kubelet:
    """A node's kubelet, as far as it was met."""

    node = ""
    models: tuple[str, ...] = ()

    def __init__(self, where: str, told: Record) -> None:
        """Take how it answered, or why it was not asked."""
        self.where = where
        self._told = told

    @property
    def pods_shown(self) -> Fact[bool]:
        """Whether it lists its pods to requests without a name, and so runs commands in them too."""
        return self._shown("pods")

    @property
    def health_shown(self) -> Fact[bool]:
        """Whether it tells strangers of its health."""
        return self._shown("healthz")

    @property
    def read_only(self) -> Fact[bool]:
        """Whether its port for reading answers, which asks nobody who he is."""
        if unmet := self._unmet:
            return unmet
        told = self._told.record("read_only")
        state = text(told, "state")
        if state == "closed":
            return Read(value=False, evidence=told.evidence, note=f"port {READ_ONLY} is closed")
        if state != "answered":
            why = f"port {READ_ONLY} is {state or 'not told of'} from this seat: what is there is not seen"
            return Unread("denied", why, told.evidence)
        return self._given(told, f"port {READ_ONLY}")

    def _shown(self, page: str) -> Fact[bool]:
        return self._unmet or self._given(self._told.record(page), f"/{page} on port {PORT}")

    def _given(self, told: Record, what: str) -> Fact[bool]:
        status = told.count("status", most=_MOST)
        if isinstance(status, Unread):
            why = f"{what} gave no answer: {text(told, 'state')} {text(told, 'why')}"
            return Unread("failed", why.strip(), status.evidence)
        if status.value == _OK or status.value in _REFUSED:
            return Read(status.value == _OK, status.evidence, f"{what} answers {status.value}")
        return Unread("failed", f"{what}: HTTP {status.value} is neither yes nor no", status.evidence)

    @property
    def _unmet(self) -> Unread | None:
        """Say that its kubelet was not met; that it is not there cannot be told from here."""
        if self._told.unread:
            return self._told.unread
        met = self._told.record("met")
        state = met.text("state")
        if isinstance(state, Unread):
            return state
        why = f"its port {PORT} is {state.value} from this seat, which may be outside the cluster's network"
        if state.value == "answered":
            own = met.flag("own")
            if isinstance(own, Unread) or own.value:
                return own if isinstance(own, Unread) else None
            why = f"who answers at port {PORT} of its address shows no certificate of its name: not asked"
        return Unread("denied", why, met.evidence)


class KubeKubelets:
    """``GET`` of two pages of each kubelet, and of its port for reading, without token or certificate."""

    method = 1

    def ask(
        self,
        services: Services,
        nodes: Sequence[str],  # noqa: ARG002 - those that the API server lists, which have addresses there
        args: Mapping[str, Scalar],
        deadline_s: float,
    ) -> Iterator[Item]:
        """Ask all, many at once; each connection may take ``seconds``."""
        try:
            from gpuassay.target.kube_auth import client, configuration  # noqa: PLC0415 - an extra
        except ImportError:
            yield Item("nodes", 0, status="not_found", why=INSTALL)
            return
        from gpuassay.target import TargetError  # noqa: PLC0415 - with the client
        from gpuassay.target.kube_api import Api, ApiError  # noqa: PLC0415

        async def asked() -> list[Item]:
            config = configuration(services.reach.kubernetes)
            async with asyncio.timeout(deadline_s), client(config, deadline_s) as connection:
                return await _all(Api(connection), float(args["seconds"]))

        try:
            yield from asyncio.run(asked())
        except ApiError as error:
            yield Item("nodes", 0, error.status, why=str(error))
        except (TargetError, TimeoutError) as error:
            yield Item("nodes", 0, status="failed", why=str(error) or f"not done within {deadline_s:g} s")

    def read(self, args: Mapping[str, Scalar], evidence: NodeEvidence) -> Sequence[Kubelet]:  # noqa: ARG002
        """Read what came of each."""
        found = [
            Kubelet(item.id.removeprefix(_NODE), _record(item, evidence.ref(item)))
            for item in evidence.items
            if item.id.startswith(_NODE)
        ]
        hindered = [Kubelet("kubelets", _record(one, evidence.ref(one))) for one in evidence.items[:1]]
        return found or hindered


def _record(item: Item, ref: str) -> Record:
    if item.status != "ok":
        return Record(Unread(item.status, item.why, ref), ref)
    return Record(parse(item, ref), ref)


async def _all(api: Api, seconds: float) -> list[Item]:
    listed = [Record(one) for one in await api.pages("/api/v1/nodes")]
    workers = [one for one in listed if KubeNode(one).is_worker]
    if not workers:
        return [Item("nodes", 0, status="not_found", why="the API server lists no node that runs workloads")]
    turn = asyncio.Semaphore(_AT_ONCE)

    async def one(record: Record) -> Item:
        async with turn:
            return await _item(record, seconds)

    return list(await asyncio.gather(*map(one, workers)))


async def _item(record: Record, seconds: float) -> Item:
    name = KubeNode(record).name
    told: dict[str, list[str]] = {}
    for one in records(record.record("status"), "addresses"):
        told.setdefault(text(one, "type"), []).append(text(one, "address"))
    if not told.get("InternalIP"):
        return Item(f"{_NODE}{name}", 0, "denied", why="the API server names no address of it")
    address, names = told["InternalIP"][0], [name, *told.get("Hostname", ()), *told.get("InternalDNS", ())]
    met = await knock(address, PORT, "", seconds, names)
    found = {"met": met}
    if met.get("own") is True:  # else it is somebody else's, or nobody's
        for page in ("pods", "healthz"):
            found[page] = await knock(address, PORT, f"/{page}", seconds, names)
        found["read_only"] = await knock(address, READ_ONLY, "/pods", seconds)
    return Item(f"{_NODE}{name}", 0, out=json.dumps(found).encode())
