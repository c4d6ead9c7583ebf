"""A trial of storage in Kubernetes: a claim that many nodes are to share, and a pod on each of two."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from gpuassay.evidence.item import Item
from gpuassay.facts.text import brief
from gpuassay.stopping import undisturbed
from gpuassay.target import TargetError, kube_clean, kube_objects
from gpuassay.target.kube_api import Api, ApiError
from gpuassay.target.kube_auth import client, configuration
from gpuassay.target.kube_clean import NAMESPACES
from gpuassay.target.kube_shapes import Shape, keep
from gpuassay.target.kube_stage import stage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpuassay.judge.reach import KubernetesReach

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
_VOLUMES = "/api/v1/persistentvolumes"
_LOOK_S = 1.0
_SILENCE_S = 30.0
_PRINTED = ("wrote", "read", "why", "open", "shut", "seen", "opens", "topology", "shm_bytes", "memlock")
_MOST = 8
_CLASS: Shape = {"metadata": {"name": None}, "provisioner": None, "reclaimPolicy": None}
_NOT_LOCAL = ("csi", "nfs", "cephfs", "glusterfs", "azureFile", "fc", "iscsi", "rbd")
_LOCAL = ("hostPath", "local")

# What the pods run: each writes a word of its own, waits for the other's, and says what came of it. The
# folder is listed anew each time, for a network file system may remember that a file was not there.
_MEET = """\
import json, os, sys, time
folder, own, other, word = sys.argv[1:5]
told = {"wrote": False, "read": ""}
try:
    with open(os.path.join(folder, own), "x") as file:
        file.write(word)
        file.flush()
        os.fsync(file.fileno())
    told["wrote"] = True
    until = time.monotonic() + float(sys.argv[5])
    while not told["read"] and time.monotonic() < until:
        if other in os.listdir(folder):
            with open(os.path.join(folder, other)) as file:
                told["read"] = file.read(64)
        time.sleep(0.5)
except OSError as error:
    told["why"] = error.strerror or str(error)
print(json.dumps(told), flush=True)
"""


@dataclass(frozen=True, slots=True)
class StorageTrial:
    """Claims of ``size`` for many nodes, one of each class; the pods have ``wait_s`` to meet."""

    api: Api
    run: kube_objects.Run
    nodes: Sequence[str]
    size: str
    wait_s: float

    async def all(self) -> list[Item]:
        """Try every class whose volumes go with their claims, and tell what came of each.

        What was made is left for ``removed``.
        """
        try:
            if self.run.owns_namespace:
                await self.api.create(NAMESPACES, kube_objects.namespace(self.run))
            classes = [keep(one, _CLASS) for one in await self.api.pages(CLASSES)]
        except ApiError as error:
            return [Item("trial", 0, error.status, why=str(error))]
        return await asyncio.gather(*(self._item(*numbered) for numbered in enumerate(classes)))

    async def removed(self) -> Item:
        """Remove what was made, look whether it is gone, and tell."""
        return await removed(self.api, self.run)

    async def _item(self, number: int, of_class: dict[str, Any]) -> Item:
        name, begin = str(of_class["metadata"]["name"]), time.monotonic()
        told: dict[str, Any] = {"provisioner": of_class.get("provisioner", "")}
        try:
            if of_class.get("reclaimPolicy") == "Retain":
                told["skipped"] = "its volumes stay when their claim is removed"
            elif number >= _MOST:
                told["skipped"] = f"{_MOST} classes are tried at most"
            else:
                told |= await self._one(number, name)
        except ApiError as error:
            told["refused"] = brief(str(error))
        out = json.dumps(told, ensure_ascii=False).encode()
        return Item(f"class/{name}", 0, seconds=round(time.monotonic() - begin, 3), out=out)

    async def _one(self, number: int, of_class: str) -> dict[str, Any]:
        claim, words = f"{self.run.name}-{number}", [secrets.token_hex(8) for _ in self.nodes]
        space = f"{NAMESPACES}/{self.run.namespace}"
        await self.api.create(f"{space}/persistentvolumeclaims", self._claim(claim, of_class))
        pods = []
        for index, node in enumerate(self.nodes):
            name = f"{claim}-{'ab'[index]}"
            await self.api.create(f"{space}/pods", self._pod(name, node, claim, index, words[index]))
            pods.append(f"{space}/pods/{name}")
        await until_ended(self.api, pods, self.wait_s)
        told = [await hear(self.api, path, node) for path, node in zip(pods, self.nodes, strict=True)]
        for index, pod in enumerate(told):
            pod["read_other"] = pod.pop("read", "") == words[1 - index]
        return {"claim": await self._bound(f"{space}/persistentvolumeclaims/{claim}"), "pods": told}

    async def _bound(self, path: str) -> dict[str, Any]:
        claim = await self.api.get(path)
        status, spec = claim.get("status") or {}, claim.get("spec") or {}
        told: dict[str, Any] = {"phase": status.get("phase"), "said": await self._said(path)}
        try:
            volume = await self.api.get(f"{_VOLUMES}/{spec.get('volumeName') or ''}")
        except ApiError as error:
            return {**told, "volume_unread": str(error)}
        kept = volume.get("spec") or {}
        kinds = [kind for kind in (*_LOCAL, *_NOT_LOCAL) if kind in kept]
        return {**told, "volume": kinds[0] if kinds else "other", "pinned": "nodeAffinity" in kept}

    async def _said(self, path: str) -> str:
        """Give the last event that was told of a claim; empty where events may not be read."""
        name = path.rpartition("/")[2]
        try:
            events = await self.api.pages(
                f"{NAMESPACES}/{self.run.namespace}/events", fieldSelector=f"involvedObject.name={name}"
            )
        except ApiError:
            return ""
        return brief(str(events[-1].get("message", ""))) if events else ""

    def _claim(self, name: str, of_class: str) -> dict[str, Any]:
        spec = {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": of_class,
            "resources": {"requests": {"storage": self.size}},
        }
        metadata = self.run.metadata(name)
        return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}

    def _pod(self, name: str, node: str, claim: str, index: int, word: str) -> dict[str, Any]:
        own, other = "ab"[index], "ab"[1 - index]
        arguments = ("/data", own, other, word, f"{self.wait_s:g}")
        return kube_objects.with_claim(self.run, name, node, claim, (_MEET, *arguments))


class Trial(Protocol):
    """Something that is tried in a cluster, and removed again."""

    async def all(self) -> list[Item]:
        """Try it, and tell what came of it."""

    async def removed(self) -> Item:
        """Remove what was made, look whether it is gone, and tell."""


def carry_out(
    reach: KubernetesReach, deadline_s: float, make: Callable[[Api, kube_objects.Run], Trial]
) -> list[Item]:
    """Try something in a new run, and remove what it made, also when it is cut."""
    name = secrets.token_hex(4)
    place = reach.namespace or f"gpuassay-{name}"
    run = kube_objects.Run(
        name, place, owns_namespace=not reach.namespace, reach=reach, deadline_s=deadline_s
    )
    try:
        config = configuration(reach)

        async def tried() -> list[Item]:
            async with client(config, _SILENCE_S) as connection:
                return await make(Api(connection), run).all()

        async def cleaned() -> Item:
            async with client(config, _SILENCE_S) as connection:
                return await make(Api(connection), run).removed()

        try:
            items = asyncio.run(tried())
        finally:
            with undisturbed():
                left = asyncio.run(cleaned())
    except TargetError as error:
        return [Item("trial", 0, status="failed", why=str(error))]
    return [*items, left]


async def removed(api: Api, run: kube_objects.Run) -> Item:
    """Remove what a run has made, look whether it is gone, and tell."""
    try:
        if run.owns_namespace:
            await kube_clean.remove_namespaces(api, run.selector)
        else:
            await kube_clean.remove_objects(api, run.namespace, run.selector)
    except ApiError as error:
        why = f"{error}; remove it with: gpuassay clean --target=kubernetes"
        return Item("removed", 0, "failed", why=why)
    return Item("removed", 0, out=b"{}")


async def until_ended(api: Api, pods: Sequence[str], wait_s: float) -> None:
    """Wait until all pods have ended, or cannot; at most so long. Raises ApiError."""
    waited_s = 0.0
    while waited_s < wait_s + kube_objects.GRACE_S:
        stages = [stage(await api.get(path)) for path in pods]
        if all(one.state in ("ended", "hopeless") for one in stages):
            return
        await asyncio.sleep(_LOOK_S)
        waited_s += _LOOK_S


async def hear(api: Api, path: str, node: str) -> dict[str, Any]:
    """Tell how far a pod came, and the document that it printed. Raises ApiError."""
    found = stage(await api.get(path))
    if found.state != "ended":
        return {"node": node, "state": found.state, "why": found.why}
    out = bytearray()
    async with api.stream(f"{path}/log", container=kube_objects.CONTAINER) as chunks:
        async for chunk in chunks:
            out += chunk[: 4096 - len(out)]
    return {"node": node, "state": found.state, **(_document(bytes(out)) or {"why": found.why})}


def _document(log: bytes) -> dict[str, Any]:
    """Read what a pod printed; nothing for what is none of ours."""
    try:
        told = json.loads(log)
    except ValueError:
        return {}
    kept = told if isinstance(told, dict) else {}
    return {key: kept[key] for key in _PRINTED if key in kept}
