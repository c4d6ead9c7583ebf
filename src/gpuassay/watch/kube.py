"""The eyes on a Kubernetes: what it says of a node, whether a pod would be let in there, the other nodes."""

from __future__ import annotations

import asyncio
import json
import time
from itertools import count
from typing import TYPE_CHECKING, Any

from gpuassay.evidence.item import Item
from gpuassay.facts.fault_kube import canary_sight, event_sight, fleet_sight, node_sight
from gpuassay.target import TargetError, kube_objects
from gpuassay.target.kube_api import ApiError
from gpuassay.target.kube_clean import NAMESPACES
from gpuassay.target.kube_shapes import NAMED, Shape, keep

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from gpuassay.facts.kubernetes import Devices
    from gpuassay.target.kube_api import Api
    from gpuassay.watch import Eye

    Connect = Callable[[], AbstractAsyncContextManager[Api]]
    Held = Callable[[], kube_objects.Run | None]

NODES = "/api/v1/nodes"
_EVENTS = f"{NAMESPACES}/default/events"  # where those of nodes are
_SCHEDULED_S = 5.0
_LOOK_S = 0.1
_STANDING: Shape = {"unschedulable": None, "taints": None}
_READY: Shape = dict.fromkeys(("type", "status", "reason"))
_NODE: Shape = {
    "metadata": {**NAMED, "labels": None, "managedFields": None},
    "spec": {"unschedulable": None, "taints": None, "providerID": None},
    "status": {"allocatable": None, "capacity": None, "conditions": None, "nodeInfo": None},
}
_MEMBER: Shape = {
    "metadata": NAMED,
    "spec": _STANDING,
    "status": {"allocatable": None, "conditions": _READY},
}
_EVENT: Shape = {
    **dict.fromkeys(("reason", "message", "count", "lastTimestamp", "reportingComponent", "source", "type")),
    "metadata": NAMED,
    "involvedObject": {"kind": None, "name": None},
}


class _KubeEye:
    """What all have in common: a question each time, and whatever goes wrong is said in the item."""

    name = ""
    every_s = 1.0

    def __init__(self, connect: Connect, asked: Mapping[str, Any]) -> None:
        """Take the way to the API server, and the words of `asked_of`."""
        self._connect = connect
        self._node = str(asked["node"])
        self._asked = asked

    def look(self) -> Item:
        """Ask once."""
        began = time.monotonic()
        try:
            told = asyncio.run(self._answered())
        except ApiError as error:
            return Item(self.name, 0, error.status, self._asked, why=str(error))
        except TargetError as error:
            return Item(self.name, 0, "failed", self._asked, why=str(error))
        out = json.dumps(told, ensure_ascii=False).encode()
        return Item(self.name, 0, asked=self._asked, seconds=round(time.monotonic() - began, 3), out=out)

    async def _answered(self) -> Any:
        async with self._connect() as api:
            return await self._ask(api)

    def _ask(self, api: Api) -> Awaitable[Any]:
        raise NotImplementedError


class NodeEye(_KubeEye):
    """Looks at the Node object."""

    name = "kube-node"

    async def _ask(self, api: Api) -> Any:
        return keep(await api.get(f"{NODES}/{self._node}"), _NODE)

    def key(self, item: Item) -> Hashable:
        """Compare what it says, without heartbeats."""
        sight = node_sight(item, "")
        return item.status, sight.out, sight.by, sight.words, sight.identity


class CanaryEye(_KubeEye):
    """Asks the scheduler for a place on the node for a pod of ours that can never have one.

    A dry run is not scheduled, and a pod that were would run on a node that may be broken. This one asks for
    something that no node has, too, and the scheduler looks at taints and cordons before it looks at amounts:
    so it says whether a pod would have been let in, and none is.
    """

    name = "kube-canary"

    def __init__(self, connect: Connect, asked: Mapping[str, Any], held: Held) -> None:
        """Have a pod for each look: the scheduler does not look at one twice for a cordon.

        ``held`` gives the run that holds the node, where they are made; None when it is not held.
        """
        super().__init__(connect, asked)
        self._held = held
        self._numbers = count()

    async def _ask(self, api: Api) -> Any:
        run = self._held()
        if run is None:
            raise TargetError("the node is not held, and no pod is made for it")
        pods = f"{NAMESPACES}/{run.namespace}/pods"
        name = f"{run.name}-canary-{next(self._numbers)}"
        await api.create(pods, kube_objects.never(run, name, self._node))
        try:
            return await self._verdict(api, f"{pods}/{name}")
        finally:
            await api.delete(f"{pods}/{name}", 0)

    async def _verdict(self, api: Api, path: str) -> Any:
        until = time.monotonic() + _SCHEDULED_S
        while True:
            status = (await api.get(path)).get("status") or {}
            for condition in status.get("conditions") or ():
                if condition.get("type") == "PodScheduled" and condition.get("message"):
                    return {key: condition.get(key) for key in ("status", "reason", "message")}
            if time.monotonic() > until:
                raise ApiError(200, f"no scheduler has looked at it within {_SCHEDULED_S:g} s", "timed_out")
            await asyncio.sleep(_LOOK_S)

    def key(self, item: Item) -> Hashable:
        """Compare whether there is a place."""
        return item.status, canary_sight(item, "").lets_in


class FleetEye(_KubeEye):
    """Looks at all nodes: one may come in place of the one that was broken."""

    name = "kube-fleet"
    every_s = 2.0

    async def _ask(self, api: Api) -> Any:
        return {"items": [keep(one, _MEMBER) for one in await api.pages(NODES)]}

    def key(self, item: Item) -> Hashable:
        """Compare which are in service."""
        return item.status, fleet_sight(item, "").in_service


class EventEye(_KubeEye):
    """Looks at what is told of the node."""

    name = "kube-events"

    async def _ask(self, api: Api) -> Any:
        selector = f"involvedObject.kind=Node,involvedObject.name={self._node}"
        told = [keep(one, _EVENT) for one in await api.pages(_EVENTS, fieldSelector=selector)]
        return {"items": [one for one in told if (one.get("involvedObject") or {}).get("name") == self._node]}

    def key(self, item: Item) -> Hashable:
        """Compare what was told last."""
        return item.status, event_sight(item, "").words


def asked_of(
    node: str,
    tolerations: Sequence[Mapping[str, str]],
    tooling: Sequence[str],
    devices: Devices | None,
) -> Mapping[str, Any]:
    """Say what is looked at, and what it is read by.

    That is what pods of users tolerate, the programs that are said to be the provider's, and how many GPUs a
    device plugin gives out there. Those of dynamic resource allocation do not stand in a Node.
    """
    plugged = devices if devices and not devices.claimed else None
    gpus = {"gpus": {"name": plugged.name, "count": plugged.allocatable}} if plugged else {}
    return {"node": node, "tolerations": list(tolerations), "tooling": list(tooling), **gpus}


def eyes(connect: Connect, asked: Mapping[str, Any], held: Held) -> list[Eye]:
    """Give all eyes on one node."""
    plain = [eye(connect, asked) for eye in (NodeEye, FleetEye, EventEye)]
    return [*plain, CanaryEye(connect, asked, held)]
