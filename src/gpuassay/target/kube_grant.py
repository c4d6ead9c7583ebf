"""A trial of what containers are given: a pod with one GPU, and one that only names all of them."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuassay.evidence.item import Item
from gpuassay.facts.kubernetes import KubeNode
from gpuassay.facts.record import Record
from gpuassay.target import kube_objects
from gpuassay.target.kube_api import Api, ApiError
from gpuassay.target.kube_clean import NAMESPACES
from gpuassay.target.kube_trial import hear, removed, until_ended

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_AT_ONCE = 32

# Device files are what a container is given; a library in its image says nothing of them.
_COUNT = """\
import json, os, re, sys
names = os.listdir(sys.argv[1])
seen = sum(1 for name in names if re.fullmatch("nvidia[0-9]+", name))
if "kfd" in names and "dri" in names:
    seen += sum(1 for name in os.listdir(os.path.join(sys.argv[1], "dri")) if name.startswith("renderD"))
print(json.dumps({"seen": seen}), flush=True)
"""
_VISIBLE = ("NVIDIA_VISIBLE_DEVICES", "AMD_VISIBLE_DEVICES")


@dataclass(frozen=True, slots=True)
class GrantTrial:
    """Two pods on each node; each has ``wait_s`` to end."""

    api: Api
    run: kube_objects.Run
    nodes: Sequence[str]
    wait_s: float

    async def all(self) -> list[Item]:
        """Try every node, and tell what came of it; what was made is left for ``removed``."""
        try:
            if self.run.owns_namespace:
                await self.api.create(NAMESPACES, kube_objects.namespace(self.run))
            listed = [KubeNode(Record(one)) for one in await self.api.pages("/api/v1/nodes")]
        except ApiError as error:
            return [Item("trial", 0, error.status, why=str(error))]
        known, turn = {node.name: node for node in listed}, asyncio.Semaphore(_AT_ONCE)
        tried = (self._item(number, name, known, turn) for number, name in enumerate(self.nodes))
        return await asyncio.gather(*tried)

    async def removed(self) -> Item:
        """Remove what was made, look whether it is gone, and tell."""
        return await removed(self.api, self.run)

    async def _item(
        self, number: int, name: str, known: Mapping[str, KubeNode], turn: asyncio.Semaphore
    ) -> Item:
        devices = known[name].plugged if name in known else None
        if devices is None:
            why = "no device plugin offers GPUs of it by the piece"
            return Item(f"node/{name}", 0, "denied", why=why)
        try:
            async with turn:
                told = await self._pods(number, name, devices.name)
        except ApiError as error:
            return Item(f"node/{name}", 0, error.status, why=str(error))
        return Item(f"node/{name}", 0, out=json.dumps(told, ensure_ascii=False).encode())

    async def _pods(self, number: int, node: str, resource: str) -> dict[str, Any]:
        space = f"{NAMESPACES}/{self.run.namespace}/pods"
        paths = {}
        for kind in ("one", "none"):
            name = f"{self.run.name}-{number}-{kind}"
            made = kube_objects.alone(self.run, name, node, (_COUNT, "/dev"))
            (container,) = made["spec"]["containers"]
            if kind == "one":
                for part in ("requests", "limits"):
                    container["resources"][part][resource] = "1"
            else:
                container["env"] = [{"name": one, "value": "all"} for one in _VISIBLE]
            await self.api.create(space, made)
            paths[kind] = f"{space}/{name}"
        await until_ended(self.api, list(paths.values()), self.wait_s)
        return {kind: await hear(self.api, path, node) for kind, path in paths.items()}
