"""A node's part of a job, in a pod of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuassay.target import kube_objects
from gpuassay.target.channel import Ending
from gpuassay.target.kube_channel import Pod
from gpuassay.target.kube_clean import NAMESPACES
from gpuassay.target.kube_nodes import claimed

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from gpuassay.target.kube_api import Api
    from gpuassay.target.kube_nodes import Plan


@dataclass(frozen=True, slots=True)
class Worker:
    """A channel to the pod of one node; ``connect`` opens a connection to the API server for it."""

    plan: Plan
    connect: Callable[[], AbstractAsyncContextManager[Api]]
    run: kube_objects.Run
    number: int
    image: str

    @property
    def node(self) -> str:
        """The node it leads to."""
        return self.plan.node

    @property
    def name(self) -> str:
        """How the pod is called, by us and, below the job's service, by the other pods."""
        return f"{self.run.name}-{self.number}"

    async def talk(self, feed: bytes, deadline_s: float, take: Callable[[bytes], bool]) -> Ending:
        """Make the pod, give it its part, hear what comes of it, and remove it."""
        if self.plan.closed:
            return self.plan.closed
        if self.plan.taken:
            return Ending("denied", f"was not started: {self.plan.taken}")
        devices = self.plan.devices
        objects = claimed(self.run, self.name, devices)
        pods = f"{NAMESPACES}/{self.run.namespace}/pods"
        objects[pods] = kube_objects.worker(self.run, self.name, self.node, devices, self.image)
        async with self.connect() as api:
            pod = Pod(self.node, api, objects, self.plan.wait_s, fed=self._fed)
            return await pod.talk(feed, deadline_s, take)

    def _fed(self, feed: bytes) -> dict[str, dict[str, Any]]:
        path = f"{NAMESPACES}/{self.run.namespace}/configmaps"
        return {path: kube_objects.config_map(self.run, self.name, feed)}
