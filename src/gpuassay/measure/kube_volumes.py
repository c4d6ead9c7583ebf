"""The survey of shared storage in Kubernetes: a volume that says ReadWriteMany is tried by pods on two nodes.

Of each storage class one volume is claimed; a pod on either node writes a word and waits for the other's.
Nothing is told from a provisioner's name, and nothing from a claim that is bound.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import TYPE_CHECKING

from gpuassay.evidence.item import Item
from gpuassay.measure.shared_claims import SharedClaims
from gpuassay.stopping import undisturbed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuassay.evidence.recording import NodeEvidence
    from gpuassay.judge.fact import Scalar
    from gpuassay.judge.reach import KubernetesReach
    from gpuassay.judge.services import Services

_TWO = 2
_INSTALL = "the Kubernetes client is not installed where the suite runs: pip install 'gpuassay[kubernetes]'"
_NO_IMAGE = "no image is named for pods: write image in [kubernetes] of the site file"
_SILENCE_S = 30.0


class KubeVolumes:
    """Claims, two pods for each, and their removal, which is looked after."""

    method = 1

    def ask(
        self, services: Services, nodes: Sequence[str], args: Mapping[str, Scalar], deadline_s: float
    ) -> Iterator[Item]:
        """Try each class on the first two of ``nodes``; ``size`` is what is claimed of each."""
        lack = _lack(services.reach.kubernetes, nodes)
        if lack:
            yield Item("trial", 0, status="denied", why=lack)
            return
        from gpuassay.target import TargetError  # noqa: PLC0415 - with the client, an extra

        begin = time.monotonic()
        try:
            yield from _tried(services.reach.kubernetes, nodes[:_TWO], args, deadline_s)
        except TargetError as error:
            yield Item("trial", 0, status="failed", why=str(error), seconds=_since(begin))

    def read(self, args: Mapping[str, Scalar], evidence: NodeEvidence) -> Sequence[SharedClaims]:  # noqa: ARG002
        """Read what came of all classes together."""
        return [SharedClaims(evidence)] if evidence.answered else []


def _lack(reach: KubernetesReach, nodes: Sequence[str]) -> str:
    """Say what is missing to try it."""
    try:
        import gpuassay.target.kube_auth  # noqa: F401, PLC0415 - an extra
    except ImportError:
        return _INSTALL
    if not reach.image:
        return _NO_IMAGE
    return "" if len(nodes) >= _TWO else "it takes two nodes"


def _tried(
    reach: KubernetesReach, nodes: Sequence[str], args: Mapping[str, Scalar], deadline_s: float
) -> list[Item]:
    from gpuassay.target.kube_api import Api  # noqa: PLC0415 - an extra
    from gpuassay.target.kube_auth import client, configuration  # noqa: PLC0415 - an extra
    from gpuassay.target.kube_objects import Run  # noqa: PLC0415
    from gpuassay.target.kube_trial import StorageTrial  # noqa: PLC0415

    config, name = configuration(reach), secrets.token_hex(4)
    run = Run(
        name,
        reach.namespace or f"gpuassay-{name}",
        owns_namespace=not reach.namespace,
        reach=reach,
        deadline_s=deadline_s,
    )

    async def tried() -> list[Item]:
        async with client(config, _SILENCE_S) as connection:
            return await trial(Api(connection)).all()

    async def removed() -> Item:
        async with client(config, _SILENCE_S) as connection:
            return await trial(Api(connection)).removed()

    def trial(api: Api) -> StorageTrial:
        return StorageTrial(api, run, nodes, str(args["size"]), float(args["seconds"]))

    try:
        items = asyncio.run(tried())
    finally:
        with undisturbed():
            left = asyncio.run(removed())
    return [*items, left]


def _since(begin: float) -> float:
    return round(time.monotonic() - begin, 3)
