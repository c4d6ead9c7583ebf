"""The survey of an API server as it is to somebody without a name: three requests without any credential.

How it answers is kept, and nothing of what it says.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Final

from gpuassay.evidence.item import Item
from gpuassay.facts.record import Record
from gpuassay.facts.source import parse
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure.kube_volumes import INSTALL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuassay.evidence.recording import NodeEvidence
    from gpuassay.judge.fact import Fact, Scalar
    from gpuassay.judge.services import Services
    from gpuassay.target.kube_api import Api

PATHS: Final = ("/api/v1/namespaces", "/api/v1/nodes", "/api/v1/pods")
_REFUSED: Final = frozenset({401, 403})
_MOST: Final = 599
_OK: Final = 200


class Stranger:
    """What the API server does for requests without a name."""

    where = "the API server"
    node = ""
    models: tuple[str, ...] = ()

    def __init__(self, evidence: NodeEvidence) -> None:
        """Take the answers of the survey."""
        self._evidence = evidence

    @property
    def answered(self) -> Fact[int]:
        """How many of the lists were given."""
        given, evidence = [], ""
        for item in self._evidence.items:
            evidence = self._evidence.ref(item)
            if item.status != "ok":
                return Unread(item.status, item.why, evidence)
            status = Record(parse(item, evidence), evidence).count("status", most=_MOST)
            if isinstance(status, Unread):
                return status
            if status.value == _OK:
                given.append(item.id)
            elif status.value not in _REFUSED:
                return Unread("failed", f"{item.id}: HTTP {status.value} is neither yes nor no", evidence)
        missing = sorted({*PATHS} - {item.id for item in self._evidence.items})
        if missing:
            return Unread("failed", f"no answer to {', '.join(missing)} was recorded", evidence)
        return Read(len(given), evidence, ", ".join(given))


class KubeAnonymous:
    """``GET`` of three lists, one object each, without token or certificate."""

    method = 1

    def ask(
        self,
        services: Services,
        nodes: Sequence[str],  # noqa: ARG002 - it is the whole cluster's
        args: Mapping[str, Scalar],  # noqa: ARG002 - there are none
        deadline_s: float,
    ) -> Iterator[Item]:
        """Ask for each, one after the other."""
        try:
            from gpuassay.target.kube_auth import client, configuration  # noqa: PLC0415 - an extra
        except ImportError:
            yield Item("client", 0, status="not_found", why=INSTALL)
            return
        from gpuassay.target import TargetError  # noqa: PLC0415 - with the client
        from gpuassay.target.kube_api import Api  # noqa: PLC0415

        async def asked() -> list[Item]:
            nameless = configuration(services.reach.kubernetes)._replace(user=None)
            async with asyncio.timeout(deadline_s), client(nameless, deadline_s / len(PATHS)) as connection:
                return [await _answer(Api(connection), path) for path in PATHS]

        try:
            yield from asyncio.run(asked())
        except (TargetError, TimeoutError) as error:
            yield Item("client", 0, status="failed", why=str(error) or f"no answer within {deadline_s:g} s")

    def read(self, args: Mapping[str, Scalar], evidence: NodeEvidence) -> Sequence[Stranger]:  # noqa: ARG002
        """Read the answers together."""
        return [Stranger(evidence)] if evidence.answered else []


async def _answer(api: Api, path: str) -> Item:
    from gpuassay.target.kube_api import ApiError  # noqa: PLC0415 - an extra

    try:
        await api.get(path, limit=1)
        status = _OK
    except ApiError as error:
        if not error.code:
            return Item(path, 0, error.status, why=str(error))
        status = error.code
    return Item(path, 0, out=json.dumps({"status": status}).encode())
