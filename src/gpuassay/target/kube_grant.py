"""A trial of what containers are given: a pod with one GPU, and one that only names all of them."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuassay.evidence.item import Item
from gpuassay.facts.kubernetes import KubeNode
from gpuassay.facts.record import Record
from gpuassay.facts.text import brief
from gpuassay.target import kube_objects
from gpuassay.target.kube_api import Api, ApiError
from gpuassay.target.kube_clean import NAMESPACES
from gpuassay.target.kube_shapes import Shape, keep
from gpuassay.target.kube_trial import hear, removed, until_ended

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_AT_ONCE = 32
_TOLD: Shape = {
    "conditions": {"type": None, "lastTransitionTime": None},
    "containerStatuses": {"state": {"terminated": {"startedAt": None}}},
}

_VISIBLE = ("NVIDIA_VISIBLE_DEVICES", "AMD_VISIBLE_DEVICES")


@dataclass(frozen=True, slots=True)
class GrantTrial:
    """Two pods on each node, which run a ``program`` of Python's; each has ``wait_s`` to end."""

    api: Api
    run: kube_objects.Run
    nodes: Sequence[str]
    wait_s: float
    program: tuple[str, ...]

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
            made = kube_objects.alone(self.run, name, node, self.program)
            (container,) = made["spec"]["containers"]
            if kind == "one":
                for part in ("requests", "limits"):
                    container["resources"][part][resource] = "1"
                _share_memory(made["spec"])
            else:
                container["env"] = [{"name": one, "value": "all"} for one in _VISIBLE]
            await self.api.create(space, made)
            paths[kind] = f"{space}/{name}"
        await until_ended(self.api, list(paths.values()), self.wait_s)
        told = {kind: await hear(self.api, path, node) for kind, path in paths.items()}
        told["one"]["times"] = _times(await self.api.get(paths["one"]))
        told["one"]["pulled"] = await _pulled(self.api, space, paths["one"])
        return told


def _share_memory(spec: dict[str, Any]) -> None:
    """Ask for the /dev/shm that NCCL wants; a container's own has 64 MiB, and any tenant may ask."""
    spec["volumes"].append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}})
    (container,) = spec["containers"]
    container["volumeMounts"].append({"name": "shm", "mountPath": "/dev/shm"})  # noqa: S108 - POSIX's


def _times(pod: Mapping[str, Any]) -> dict[str, str]:
    """Take when a pod got its place and when its container started, by the cluster's own clocks."""
    status = keep(pod.get("status"), _TOLD) or {}
    conditions = {one.get("type"): one.get("lastTransitionTime") for one in status.get("conditions") or ()}
    states = [one.get("state") or {} for one in status.get("containerStatuses") or ()]
    began = [state["terminated"].get("startedAt") for state in states if state.get("terminated")]
    times = {"placed": conditions.get("PodScheduled"), "started": began[0] if began else None}
    return {name: time for name, time in times.items() if isinstance(time, str)}


async def _pulled(api: Api, space: str, path: str) -> str:
    """Give what the kubelet told of the image; empty where events may not be read."""
    name = path.rpartition("/")[2]
    try:
        events = await api.pages(
            space.replace("/pods", "/events"), fieldSelector=f"involvedObject.name={name}"
        )
    except ApiError:
        return ""
    return brief(next((str(one.get("message")) for one in events if one.get("reason") == "Pulled"), ""))
