"""A node of Kubernetes that is ours for a while: a pod has all its GPUs, and others of ours act there.

Those that act are privileged and enter the namespaces of the node's first process, as root, so what they do
is done to the node and not to a container.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from gpuassay.target import TargetError, kube_objects
from gpuassay.target.jobs import run_job
from gpuassay.target.kube_api import ApiError
from gpuassay.target.kube_channel import NotStartedError, Pod, until_started
from gpuassay.target.kube_clean import NAMESPACES
from gpuassay.target.kube_nodes import claimed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from gpuassay.target import Job, Progress, Results
    from gpuassay.target.channel import Ending
    from gpuassay.target.kube_api import Api
    from gpuassay.target.kube_nodes import Plan

PODS = "/api/v1/pods"
HELD_BY_THE_NODE = ("DaemonSet", "Node")
"""Who owns pods that belong to a node and are no tenant's: the second are static ones."""

_PULL_S = 120.0  # for a kubelet to take a pod up, also where it has to pull the image first
_ACT_S = 30.0  # the same where it has the image
_HOLD = "-hold"  # so the names end of pods that hold a node
_ENDED = ("Succeeded", "Failed")
_SLEEP = "import time; time.sleep({seconds})"


@dataclass(frozen=True, slots=True)
class Hold:
    """One node, held from `take` until what the run has made is removed."""

    plan: Plan
    connect: Callable[[], AbstractAsyncContextManager[Api]]
    run: kube_objects.Run
    _numbers: Iterator[int] = field(default_factory=count)

    async def take(self) -> None:
        """Make the pod that has all GPUs of the node, and wait until it runs. Raises TargetError."""
        node, run = self.plan.node, self.run
        name = f"{run.name}{_HOLD}"
        try:
            async with self.connect() as api:
                if others := tenants(await api.pages(PODS, fieldSelector=f"spec.nodeName={node}"), node):
                    raise TargetError(f"{node} is not wholly ours: {', '.join(others[:3])} run there")
                if held := holds(await api.pages(PODS, labelSelector=kube_objects.MINE)):
                    why = f"{', '.join(held)} (see: gpuassay clean)"
                    raise TargetError(f"only one fault at a time may be in a cluster: {why}")
                if run.owns_namespace:
                    await api.create(NAMESPACES, kube_objects.namespace(run))
                plain = replace(run, host_view=False)
                for path, item in claimed(plain, name, self.plan.devices).items():
                    await api.create(path, item)
                program = (_SLEEP.format(seconds=int(run.deadline_s)),)
                pod = kube_objects.alone(plain, name, node, program, self.plan.devices)
                await api.create(self._pods, pod)
                await until_started(api, f"{self._pods}/{name}", self.plan.wait_s, _PULL_S)
        except ApiError as error:
            raise TargetError(f"{node} cannot be held: {error}") from error
        except NotStartedError as error:
            raise TargetError(f"{node} cannot be held whole: {error}") from error

    def act(self, job: Job, progress: Progress) -> Results:
        """Run a job on the node itself, as root."""
        name = f"{self.run.name}-act-{next(self._numbers)}"
        return run_job([_Act(self, name)], job, progress)

    @property
    def _pods(self) -> str:
        return f"{NAMESPACES}/{self.run.namespace}/pods"


@dataclass(frozen=True, slots=True)
class _Act:
    """A channel to the node, by a pod that lives as long as it takes."""

    hold: Hold
    name: str

    @property
    def node(self) -> str:
        """The node it leads to."""
        return self.hold.plan.node

    async def talk(self, feed: bytes, deadline_s: float, take: Callable[[bytes], bool]) -> Ending:
        """Make the pod, give it its part, hear what comes of it, and remove it."""
        run = self.hold.run
        space = f"{NAMESPACES}/{run.namespace}"
        objects: dict[str, dict[str, Any]] = {
            f"{space}/configmaps": kube_objects.config_map(run, self.name, feed),
            f"{space}/pods": kube_objects.on_the_node(run, self.name, self.node),
        }
        async with self.hold.connect() as api:
            pod = Pod(self.node, api, objects, self.hold.plan.wait_s, start_s=_ACT_S)
            return await pod.talk(feed, deadline_s, take)


def tenants(pods: Sequence[Mapping[str, Any]], node: str) -> list[str]:
    """Name those of these pods that run on the node and do not belong to it."""
    found = []
    for pod in pods:
        metadata, spec, status = (pod.get(key) or {} for key in ("metadata", "spec", "status"))
        owners = {one.get("kind") for one in metadata.get("ownerReferences") or ()}
        here = spec.get("nodeName") == node and status.get("phase") not in _ENDED
        if here and not owners & {*HELD_BY_THE_NODE}:
            found.append(f"{metadata.get('namespace')}/{metadata.get('name')}")
    return found


def holds(pods: Sequence[Mapping[str, Any]]) -> list[str]:
    """Name those of our runs' pods that hold a node; one that is being removed does so no more."""
    found = []
    for pod in pods:
        metadata, status = pod.get("metadata") or {}, pod.get("status") or {}
        over = "deletionTimestamp" in metadata or status.get("phase") in _ENDED
        if str(metadata.get("name")).endswith(_HOLD) and not over:
            found.append(f"{metadata.get('namespace')}/{metadata.get('name')}")
    return found
