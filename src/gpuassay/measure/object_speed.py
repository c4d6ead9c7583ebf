"""How fast objects get from all nodes at once to the declared store and back: lent, moved and removed."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from gpuassay.evidence.item import Item
from gpuassay.measure import errand, object_cases
from gpuassay.measure.object_nodes import LACK, NODE, REMOVED, read_nodes
from gpuassay.measure.s3 import lack, undisturbed
from gpuassay.target import Job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gpuassay.evidence.item import Status
    from gpuassay.evidence.recording import NodeEvidence
    from gpuassay.facts import Node
    from gpuassay.judge.catalog import Measurement
    from gpuassay.judge.fact import Scalar
    from gpuassay.judge.services import S3, Services
    from gpuassay.measure.object_nodes import NodeStreams
    from gpuassay.measure.s3client import Place
    from gpuassay.target import Results

_CLEAN_S = 300.0
"""How long removing may take; it is kept back from the deadline."""
GRACE_S = 10.0
_BUSY = "{}; a load needs an idle node"


class ObjectSpeed:
    """Objects of three sizes, written by every node and read by another one, three times each."""

    method = 1
    need = "s3"

    def ask(
        self,
        run: Callable[[Job], Results],
        services: Services,
        nodes: Sequence[Node],
        measurement: Measurement,
    ) -> Iterator[Item]:
        """Measure on the idle ones of these nodes; what was made is removed before the first answer."""
        if services.s3 is None:
            return
        idle = [node for node in nodes if not node.busy]
        yield from (_failed(node.name, _BUSY.format(node.busy)) for node in nodes if node.busy)
        missing = lack(services.s3)
        if missing:
            yield from (Item(f"{LACK}{node.name}", 0, status="not_found", why=missing) for node in idle)
        elif idle:
            yield from _measured(partial(self._lend, measurement), run, services.s3, idle, measurement)

    def read(
        self, services: Services, args: Mapping[str, Scalar], evidence: NodeEvidence
    ) -> Sequence[NodeStreams]:
        """Read the answers into a subject for each node."""
        return read_nodes(args, evidence, services.s3.speeds if services.s3 else {})

    def cost(self, args: Mapping[str, Scalar], nodes: int) -> str:
        """Say what is moved."""
        return object_cases.cost(args, nodes)

    def _lend(
        self, measurement: Measurement, place: Place, names: Sequence[str], left_s: float, *, tiny: bool
    ) -> Job:
        """Lend each node what it needs, and make the job of it. Raises what a store raises."""
        from gpuassay.measure import s3loan  # noqa: PLC0415 - an extra

        args = measurement.args
        cases, rounds = object_cases.cases(args, tiny=tiny), int(args["repeats"])
        loan = s3loan.Loan(place, cases, rounds, int(measurement.deadline_s))
        order: dict[str, Any] = {
            "method": self.method,
            "nodes": list(names),
            "plans": loan.plans(names),
            "cases": [case.name for case in cases],
            "tiny": tiny,
            "rounds": {
                "count": rounds,
                "seconds": args["patience_s"],
                "streams": object_cases.streams(args, tiny=tiny),
            },
        }
        feed = errand.alone("object_streams", order)
        return Job(measurement.name, errand.ALONE, tuple(names), 1, {}, "", left_s, feed, GRACE_S)


def _measured(
    lend: Callable[..., Job],
    run: Callable[[Job], Results],
    s3: S3,
    nodes: Sequence[Node],
    measurement: Measurement,
) -> list[Item]:
    from gpuassay.measure import s3client  # noqa: PLC0415 - an extra

    names = [node.name for node in nodes]
    until = time.monotonic() + measurement.deadline_s
    items: list[Item] = []
    place = None
    try:
        place = s3client.Place(s3, os.environ[s3.access_key], os.environ[s3.secret_key])
        items.append(_told("bucket", place.open()))
        left_s = max(1.0, until - _CLEAN_S - time.monotonic())
        job = lend(place, names, left_s, tiny=not any(node.gpus for node in nodes))
        items += [replace(item, id=f"{NODE}{name}") for (name, _), item in sorted(run(job).items())]
    except s3client.ERRORS as error:
        status = cast("Status", s3client.kind_of(error))
        items += [_failed(name, s3client.words_of(error), status) for name in names]
    finally:
        if place is not None:
            with undisturbed():  # also when it was cut: whoever asks again is told that it goes on
                items.append(_told(REMOVED, place.clean(max(until, time.monotonic() + _CLEAN_S))))
    return items


def _told(name: str, told: Mapping[str, Any]) -> Item:
    return Item(name, 0, out=json.dumps(told, ensure_ascii=False).encode())


def _failed(node: str, why: str, status: Status = "failed") -> Item:
    return Item(f"{NODE}{node}", 0, status=status, why=why)
