"""Churn in Kubernetes: many small pods and claims are made, watched until they are of use, and removed.

Times are by our own clock, for the API server's are in whole seconds. One list of pods and one of claims are
read again and again for all of them, so a time is late by one look at most.
"""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from gpuassay.evidence.item import Item
from gpuassay.facts.churn import ATTACHMENTS, CLAIMS, PODS, VOLUMES
from gpuassay.target import kube_objects
from gpuassay.target.kube_api import ApiError
from gpuassay.target.kube_clean import NAMESPACES
from gpuassay.target.kube_stage import stage
from gpuassay.target.kube_trial import CLASSES, removed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from gpuassay.target.kube_api import Api

    One = Callable[[str, str], Awaitable[dict[str, Any]]]

_LOOK_S = 0.25
_PVS = "/api/v1/persistentvolumes"
_ATTACHED = "/apis/storage.k8s.io/v1/volumeattachments"
_DEFAULT = "storageclass.kubernetes.io/is-default-class"
_WAIT = "import os, signal; signal.signal(signal.SIGTERM, lambda *_: os._exit(0)); signal.pause()"
_USE = f"import os; f = open('/data/word', 'w'); f.write('word'); f.flush(); os.fsync(f.fileno())\n{_WAIT}"


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many pods and claims are made, how many at once, and how long each step may take."""

    pods: int
    claims: int
    at_once: int
    size: str
    wait_s: float


class Sightings:
    """What the API server listed at the last look."""

    def __init__(self, api: Api, space: str, selector: str) -> None:
        """Take where it is listed, and by what selector."""
        self._api = api
        self._selector = selector
        self._paths = {kind: f"{space}/{kind}" for kind in ("pods", "persistentvolumeclaims")}
        self._seen = asyncio.Condition()
        self._objects: dict[str, dict[str, Any]] = {}

    async def watch(self) -> None:
        """Look again and again, until cancelled; a look that fails is followed by the next."""
        while True:
            with suppress(ApiError):
                found = [
                    (kind, one)
                    for kind, path in self._paths.items()
                    for one in await self._api.pages(path, labelSelector=self._selector)
                ]
                async with self._seen:
                    self._objects = {f"{kind}/{one['metadata']['name']}": one for kind, one in found}
                    self._seen.notify_all()
            await asyncio.sleep(_LOOK_S)

    def get(self, place: str) -> Mapping[str, Any]:
        """Give an object by its kind and name as it was last seen; empty where it was not."""
        return self._objects.get(place, {})

    async def until(self, good: Callable[[], bool], begin: float, wait_s: float) -> float | None:
        """Wait until it is so, and give the seconds since ``begin``; None if that was not in time."""
        try:
            async with asyncio.timeout(wait_s), self._seen:
                await self._seen.wait_for(good)
        except TimeoutError:
            return None
        return round(time.monotonic() - begin, 3)


@dataclass(frozen=True, slots=True)
class Churn:
    """Pods, then claims with a pod each, spread over the nodes."""

    api: Api
    run: kube_objects.Run
    nodes: Sequence[str]
    bounds: Bounds
    sightings: Sightings = field(init=False)

    def __post_init__(self) -> None:
        """Look at what the run makes."""
        object.__setattr__(self, "sightings", Sightings(self.api, self._space, self.run.selector))

    async def all(self) -> list[Item]:
        """Churn, and tell what came of each; then look for volumes that stayed."""
        try:
            if self.run.owns_namespace:
                await self.api.create(NAMESPACES, kube_objects.namespace(self.run))
        except ApiError as error:
            return [Item(PODS, 0, error.status, why=str(error))]
        watcher = asyncio.create_task(self.sightings.watch())
        try:
            # The first pod of a node pulls the image there, which is not what is timed.
            await asyncio.gather(*(self._pod(f"warm-{at}", node) for at, node in enumerate(self.nodes)))
            pods = _told(PODS, {"cycles": await self._many(self.bounds.pods, "pod", self._pod)})
            return [pods, *await self._claims()]
        finally:
            watcher.cancel()

    async def removed(self) -> Item:
        """Remove what was made, look whether it is gone, and tell."""
        return await removed(self.api, self.run)

    @property
    def _space(self) -> str:
        return f"{NAMESPACES}/{self.run.namespace}"

    async def _many(self, count: int, word: str, one: One) -> list[dict[str, Any]]:
        """Do so many, some at once, on the nodes in turn."""
        free = asyncio.Semaphore(self.bounds.at_once)

        async def bounded(number: int) -> dict[str, Any]:
            async with free:
                return await one(f"{word}-{number}", self.nodes[number % len(self.nodes)])

        return await asyncio.gather(*map(bounded, range(count)))

    async def _pod(self, name: str, node: str) -> dict[str, Any]:
        name = f"{self.run.name}-{name}"
        made = kube_objects.alone(self.run, name, node, (_WAIT,))
        told: dict[str, Any] = {"node": node}
        try:
            await self._until_ready(made, told, time.monotonic())
            await self._gone("pods", name, told, "gone_s")
        except ApiError as error:
            told["why"] = str(error)
        return told

    async def _until_ready(self, pod: dict[str, Any], told: dict[str, Any], begin: float) -> None:
        """Make a pod, and note how long that took, and since ``begin`` until it was placed, and was ready."""
        place, asked = f"pods/{pod['metadata']['name']}", time.monotonic()
        await self.api.create(f"{self._space}/pods", pod)
        told["create_s"] = round(time.monotonic() - asked, 3)
        for key, kind in (("scheduled_s", "PodScheduled"), ("ready_s", "Ready")):
            reached = partial(self._is, place, kind)
            took = await self.sightings.until(reached, begin, self.bounds.wait_s)
            if took is None:
                told["why"] = f"not {kind} within {self.bounds.wait_s:g} s: "
                told["why"] += stage(self.sightings.get(place)).why or "the API server does not say why"
                return
            told[key] = took

    def _is(self, place: str, kind: str) -> bool:
        """Tell whether a condition of a pod was true when it was last seen."""
        conditions = (self.sightings.get(place).get("status") or {}).get("conditions") or ()
        return any(one.get("type") == kind and one.get("status") == "True" for one in conditions)

    async def _gone(self, kind: str, name: str, told: dict[str, Any], key: str) -> None:
        """Remove an object, and note how long it stayed."""
        begin = time.monotonic()
        await self.api.delete(
            f"{self._space}/{kind}/{name}", kube_objects.GRACE_S if kind == "pods" else None
        )
        place = f"{kind}/{name}"
        told[key] = await self.sightings.until(
            lambda: not self.sightings.get(place), begin, self.bounds.wait_s
        )

    # --- claims ------------------------------------------------------------------------------------

    async def _claims(self) -> list[Item]:
        try:
            of_class = chosen(await self.api.pages(CLASSES))
        except ApiError as error:
            return [Item(CLAIMS, 0, error.status, why=str(error))]
        if not of_class:
            why = "there is no storage class whose volumes go with their claims"
            return [Item(CLAIMS, 0, "not_found", why=why)]

        async def one(name: str, node: str) -> dict[str, Any]:
            return await self._claim(name, node, of_class)

        cycles = await self._many(self.bounds.claims, "claim", one)
        volumes = frozenset(str(told["volume"]) for told in cycles if told.get("volume"))
        left = [
            await self._left(VOLUMES, _PVS, volumes, lambda one: one["metadata"]["name"]),
            await self._left(
                ATTACHMENTS, _ATTACHED, volumes, lambda one: one["spec"]["source"].get("persistentVolumeName")
            ),
        ]
        return [_told(CLAIMS, {"class": of_class, "cycles": cycles}), *left]

    async def _claim(self, name: str, node: str, of_class: str) -> dict[str, Any]:
        """Claim a volume, have a pod write to it, and remove both."""
        name, kind = f"{self.run.name}-{name}", "persistentvolumeclaims"
        told: dict[str, Any] = {"node": node}
        begin = time.monotonic()
        try:
            await self.api.create(
                f"{self._space}/{kind}", kube_objects.wanted(self.run, name, of_class, self.bounds.size)
            )
            user = kube_objects.with_claim(self.run, name, node, name, (_USE,))
            bound = self.sightings.until(lambda: self._volume(name) != "", begin, self.bounds.wait_s)
            # Some classes bind a claim when a pod wants it, so the pod is made at once.
            _, told["bound_s"] = await asyncio.gather(self._until_ready(user, told, begin), bound)
            told["volume"] = self._volume(name)
            await self._gone("pods", name, told, "pod_gone_s")
            await self._gone(kind, name, told, "gone_s")
        except ApiError as error:
            told["why"] = str(error)
        return told

    def _volume(self, name: str) -> str:
        """Name the volume that a claim is bound to."""
        claim = self.sightings.get(f"persistentvolumeclaims/{name}")
        bound = (claim.get("status") or {}).get("phase") == "Bound"
        return str((claim.get("spec") or {}).get("volumeName") or "") if bound else ""

    async def _left(
        self, item_id: str, path: str, volumes: frozenset[str], of: Callable[[dict[str, Any]], Any]
    ) -> Item:
        """Wait until nothing speaks of our volumes any more, and name what does at the end."""
        until = time.monotonic() + self.bounds.wait_s
        try:
            while True:
                left = sorted(name for one in await self.api.pages(path) if (name := of(one)) in volumes)
                if not left or time.monotonic() > until:
                    return _told(item_id, {"made": len(volumes), "left": left})
                await asyncio.sleep(_LOOK_S)
        except ApiError as error:
            return Item(item_id, 0, error.status, why=str(error))


def _told(item_id: str, document: Mapping[str, Any]) -> Item:
    return Item(item_id, 0, out=json.dumps(document, ensure_ascii=False).encode())


def chosen(classes: Sequence[Mapping[str, Any]]) -> str:
    """Choose the default class, else the first, whose volumes go with their claims; empty for none."""
    fit = [one for one in classes if one.get("reclaimPolicy") != "Retain"]
    marked = [one for one in fit if (one["metadata"].get("annotations") or {}).get(_DEFAULT) == "true"]
    return str((marked or fit)[0]["metadata"]["name"]) if fit else ""
