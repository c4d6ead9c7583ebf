"""The survey of object storage: what a trial with small objects showed, step by step."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from gpuassay.evidence.item import Item
from gpuassay.measure.s3trial import ObjectTrial

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuassay.evidence.item import Status
    from gpuassay.evidence.recording import NodeEvidence
    from gpuassay.judge.fact import Scalar
    from gpuassay.judge.services import S3, Services
    from gpuassay.measure.s3store import Trial

CLEAN_S = 30.0
"""How long removing may take; it is kept back from the deadline."""

_INSTALL = "boto3 is not installed where the suite runs: pip install 'gpuassay[s3]'"


class S3Survey:
    """A trial with some twenty small objects and one of 6 MiB in two parts."""

    method = 1

    def ask(
        self,
        services: Services,
        nodes: Sequence[str],  # noqa: ARG002 - a store is the whole cluster's
        args: Mapping[str, Scalar],  # noqa: ARG002 - there are none
        deadline_s: float,
    ) -> Iterator[Item]:
        """Try the store that is declared, and remove what was made before the first answer is given."""
        if services.s3 is None:
            return
        missing = lack(services.s3)
        if missing:
            yield Item("client", 0, status="not_found", why=missing)
            return
        yield Item("endpoint", 0, out=_encoded({"scheme": services.s3.endpoint.partition(":")[0].lower()}))
        yield from _tried(services.s3, deadline_s)

    def read(self, args: Mapping[str, Scalar], evidence: NodeEvidence) -> Sequence[ObjectTrial]:  # noqa: ARG002
        """Read the one store; nothing was asked where none is declared."""
        return [ObjectTrial(evidence)] if evidence.answered else []


def lack(s3: S3) -> str:
    """Say what is missing to try it: a library, or the keys."""
    try:
        import gpuassay.measure.s3store  # noqa: F401, PLC0415 - an extra
    except ImportError:
        return _INSTALL
    for key in ("access_key", "secret_key"):
        name = getattr(s3, key)
        if not name:
            return f"the site file does not name the environment variable of its {key} ([s3] {key})"
        if name not in os.environ:
            return f"the environment variable {name} is not set where the suite runs ([s3] {key})"
    return ""


def _tried(s3: S3, deadline_s: float) -> list[Item]:
    from gpuassay.measure import s3store  # noqa: PLC0415 - an extra

    until = time.monotonic() + deadline_s
    try:
        trial = s3store.Trial(s3, os.environ[s3.access_key], os.environ[s3.secret_key])
    except s3store.ERRORS as error:  # the endpoint is no address, or the user's own settings of AWS are odd
        return [Item("bucket", 0, status="failed", why=s3store.words_of(error))]
    items: list[Item] = []
    try:
        items += _steps(trial, until - CLEAN_S)
    finally:
        with undisturbed():  # also when it was cut: whoever asks again is told that it goes on
            begin = time.monotonic()
            left = trial.clean(max(until, begin + CLEAN_S))
            items.append(_item("removed", begin, left))
    return items


def _steps(trial: Trial, until: float) -> Iterator[Item]:
    """Try step by step; without its bucket, or past its time, nothing more is tried."""
    from gpuassay.measure import s3store  # noqa: PLC0415 - an extra

    for name, step in trial.steps.items():
        begin = time.monotonic()
        if begin > until:
            yield Item(name, 0, status="timed_out", why="no time was left for it")
            continue
        try:
            yield _item(name, begin, step())
        except s3store.SSLError as error:
            yield Item("tls", 0, status="failed", why=s3store.words_of(error))
            return
        except s3store.ERRORS as error:
            yield Item(name, 0, status=cast("Status", s3store.kind_of(error)), why=s3store.words_of(error))
            if name == "bucket":
                return


def _item(name: str, begin: float, told: Mapping[str, Any]) -> Item:
    return Item(name, 0, seconds=round(time.monotonic() - begin, 3), out=_encoded(told))


def _encoded(told: Mapping[str, Any]) -> bytes:
    return json.dumps(told, ensure_ascii=False).encode()


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let the signals that would cut this wait until it is done."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
