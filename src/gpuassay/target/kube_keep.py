"""A volume of its own for each of some nodes, in which a file outlives what is done to the node meanwhile."""

from __future__ import annotations

import asyncio
import json
import secrets
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuassay.evidence.item import Item
from gpuassay.stopping import undisturbed
from gpuassay.target import kube_objects
from gpuassay.target.kube_api import Api, ApiError
from gpuassay.target.kube_auth import client, configuration
from gpuassay.target.kube_churn import chosen
from gpuassay.target.kube_clean import NAMESPACES
from gpuassay.target.kube_trial import CLASSES, hear, removed, until_ended

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from gpuassay.judge.reach import KubernetesReach

_SILENCE_S = 30.0
_START_S = 60.0  # for a volume to be made and attached, beside what a pod waits for its place
_SIZE = "1Gi"
_FILE = "/data/gpuassay-kept"
_WRITE = f"""\
import hashlib, json, os, sys
data = hashlib.shake_256(sys.argv[1].encode()).digest(1 << 20)
with open("{_FILE}", "wb") as file:
    file.write(data)
    file.flush()
    os.fsync(file.fileno())
print(json.dumps({{"wrote": hashlib.sha256(data).hexdigest()}}), flush=True)
"""
_READ = f"""\
import hashlib, json
try:
    with open("{_FILE}", "rb") as file:
        told = {{"read": hashlib.sha256(file.read()).hexdigest()}}
except OSError as error:
    told = {{"why": error.strerror or str(error)}}
print(json.dumps(told), flush=True)
"""


@dataclass(frozen=True, slots=True)
class Keeper:
    """Writes a file into a claim for each node, and reads it again."""

    run: kube_objects.Run

    def write(self, node: str) -> Item:
        """Claim a volume, and have a pod on the node write to it; what could not be done, the item says."""
        return asyncio.run(self._told(node, "write", (_WRITE, f"{self.run.id} {node}")))

    def read(self, node: str) -> Item:
        """Have a pod on the node read the file."""
        return asyncio.run(self._told(node, "read", (_READ,)))

    async def _told(self, node: str, verb: str, program: tuple[str, ...]) -> Item:
        name, space = f"{self.run.name}-{node}", f"{NAMESPACES}/{self.run.namespace}"
        wait_s = self.run.reach.wait_s + _START_S
        try:
            async with _api(self.run.reach) as api:
                if verb == "write":
                    await self._claim(api, name)
                made = kube_objects.with_claim(self.run, f"{name}-{verb}", node, name, program)
                await api.create(f"{space}/pods", made)
                path = f"{space}/pods/{name}-{verb}"
                await until_ended(api, [path], wait_s)
                told = await hear(api, path, node)
        except ApiError as error:
            return Item(verb, 0, error.status, why=str(error))
        return Item(verb, 0, out=json.dumps(told).encode())

    async def _claim(self, api: Api, name: str) -> None:
        of_class = chosen(await api.pages(CLASSES))
        if not of_class:
            raise ApiError(404, "there is no storage class whose volumes go with their claims", "not_found")
        if self.run.owns_namespace:
            await self._space(api)
        space = f"{NAMESPACES}/{self.run.namespace}"
        await api.create(
            f"{space}/persistentvolumeclaims", kube_objects.wanted(self.run, name, of_class, _SIZE)
        )

    async def _space(self, api: Api) -> None:
        try:
            await api.get(f"{NAMESPACES}/{self.run.namespace}")
        except ApiError:
            await api.create(NAMESPACES, kube_objects.namespace(self.run))


@contextmanager
def keeper(reach: KubernetesReach, seconds: float) -> Iterator[Keeper]:
    """Give one whose claims last as long as this context; then all that it made is removed."""
    name = secrets.token_hex(4)
    place = reach.namespace or f"gpuassay-{name}"
    run = kube_objects.Run(name, place, not reach.namespace, reach, seconds)
    try:
        yield Keeper(run)
    finally:
        with undisturbed():
            asyncio.run(_cleared(run))


async def _cleared(run: kube_objects.Run) -> Item:
    async with _api(run.reach) as api:
        return await removed(api, run)


@asynccontextmanager
async def _api(reach: KubernetesReach) -> AsyncIterator[Api]:
    async with client(configuration(reach), _SILENCE_S) as connection:
        yield Api(connection)
