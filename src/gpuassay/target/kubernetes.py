"""``--target=kubernetes``: one pod per node asks it; the API server is asked for the cluster as a whole."""

from __future__ import annotations

import asyncio
import secrets
import sys
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from gpuassay.evidence.item import Item
from gpuassay.facts.kubernetes import Kubernetes as Facts
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.names import folded, natural
from gpuassay.probe import travel
from gpuassay.stopping import undisturbed
from gpuassay.target import Bound, TargetError, kube_clean, kube_objects
from gpuassay.target.answers import ask_all
from gpuassay.target.jobs import in_image, run_job
from gpuassay.target.kube_api import Api, ApiError
from gpuassay.target.kube_auth import client, configuration
from gpuassay.target.kube_evidence import VERSION, ask_cluster
from gpuassay.target.kube_hold import Hold
from gpuassay.target.kube_jobs import Worker
from gpuassay.target.kube_nodes import Plan, plan_node
from gpuassay.target.restarts import by_themselves, together
from gpuassay.target.withheld import Withheld
from gpuassay.watch.kube import asked_of, eyes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from contextlib import AbstractContextManager

    from lightkube.config.kubeconfig import SingleConfig

    from gpuassay.judge.reach import KubernetesReach
    from gpuassay.target import Job, Progress, Results, Runs, Writer
    from gpuassay.watch import Eye

_SILENCE_S = 30.0
_START_S = 60.0  # for the launchers of a job, and the end of what hangs
_FORBIDDEN = 403
_WORD = "--target=kubernetes"


class Answers:
    """What the API server answered, as evidence that facts are read from."""

    problems: tuple[str, ...] = ()

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = {item.id: item for item in items}

    def item(self, item_id: str, /) -> Item | None:
        """Give the item of this id."""
        return self._items.get(item_id)

    def ref(self, item: Item, /) -> str:
        """Give the reference that it has in the recording."""
        return f"cluster#{item.seq}"


@dataclass(frozen=True)
class Kubernetes:
    """A cluster behind an API server; no ``nodes`` are all that run workloads."""

    name: ClassVar[str] = "kubernetes"
    reach: KubernetesReach
    nodes: tuple[str, ...]
    deadline_s: float
    host_view: bool = False

    def declared(self) -> tuple[str, ...]:
        """Name the nodes that are to answer. Raises TargetError."""
        return self.nodes or tuple(sorted(self._workers(), key=natural))

    def gather(self, writer: Writer, progress: Progress) -> None:
        """Ask the API server, then all nodes by one pod each, and remove all that was made for it.

        An exception, Ctrl-C too, removes it as well. Raises TargetError, and what ``writer`` raises.
        """
        self.tell(writer)
        self.ask(self.declared(), writer, progress)

    def tell(self, writer: Writer) -> None:
        """Write down what the API server says of the cluster. Raises TargetError."""
        for item in self._asked:
            writer.add_cluster(item)

    def ask(self, nodes: Sequence[str], writer: Writer, progress: Progress) -> None:
        """Ask nodes by one pod each, and remove all that was made for it; see ``gather``."""
        run, plans = self._run(), self._plans(nodes)
        progress.began(run.name)
        try:
            asyncio.run(self._gather(run, plans, writer, progress))
        finally:
            left = self._remove(run)
            if left:
                seq = len(self._asked) + 1
                writer.add_cluster(Item("kubernetes/removal", seq, "failed", {"api": "removal"}, why=left))

    def run(self, job: Job, progress: Progress) -> Results:
        """Run a job in one pod per node, which has all GPUs of it, and remove all that was made for it.

        The image of the site file is taken where the job names none. Raises TargetError.
        """
        run = replace(self._run(), deadline_s=job.deadline_s + _START_S, host_view=False)
        reach = replace(self.reach, image=job.image or self.reach.image)
        nodes = self._facts.nodes
        known = isinstance(nodes, Read) and {*job.nodes} <= {*nodes.value}
        facts = self._facts if known else self._latest()
        plans = [plan_node(facts, node, reach, host_view=False) for node in job.nodes]
        progress.began(run.name)
        try:
            asyncio.run(self._prepare(run, kube_objects.service(run)))
            workers = [Worker(plan, self._api, run, number, reach.image) for number, plan in enumerate(plans)]
            master = f"{workers[0].name}.{run.name}.{run.namespace}.svc"
            return run_job(workers, in_image(job, reach.image), progress, master)
        finally:
            self._remove(run)

    def bound(self, _nodes: Sequence[str]) -> Bound:
        """Give none: the deadline of a pod is what we ask for."""
        return Bound()

    @contextmanager
    def hold(self, node: str, seconds: float) -> Iterator[Runs]:
        """Hold all GPUs of a node by a pod, and act there by others, as root. Raises TargetError."""
        if not self.host_view:
            raise TargetError(f"{node}: a fault is injected by root on the node itself: --host-view")
        run = replace(self._run(), deadline_s=seconds)
        plan = plan_node(self._latest(), node, self.reach, host_view=False)
        if plan.closed or plan.taken:
            raise TargetError(f"{node} is not ours alone: {plan.closed.why if plan.closed else plan.taken}")
        held = Hold(plan, self._api, run)
        try:
            asyncio.run(held.take())
            self._held[node] = run
            yield held.act
        finally:
            self._held.pop(node, None)
            self._remove(run)

    def hold_all(self, nodes: Sequence[str], seconds: float) -> AbstractContextManager[Runs]:
        """Hold several nodes, all or none. Raises TargetError."""
        return together(self.hold, nodes, seconds)

    restart = staticmethod(by_themselves)

    def eyes(self, node: str) -> Sequence[Eye]:
        """Look at a node through the API server; pods are made for it only while it is held."""
        nodes = self._facts.nodes
        known = nodes.value.get(node) if isinstance(nodes, Read) else None
        devices = self._facts.devices(known) if known else None
        asked = asked_of(node, kube_objects.tolerations(self._run()), self.reach.tooling, devices)
        return eyes(self._api, asked, lambda: self._held.get(node))

    def plan(self) -> list[str]:
        """Say what would run where, as whom and for how long. Raises TargetError."""
        run, plans = self._run(), self._plans(self.declared())
        where = "in a new namespace" if run.owns_namespace else f"in namespace {run.namespace}"
        asked = [plan.node for plan in plans if plan.closed is None]
        lines = [
            f"API server {self._config.cluster.server}: {len(self._asked)} requests to read",
            f"{folded(asked) or 'no node'}: {len(asked)} pods {where}, each at most {self.deadline_s:g} s",
            f"image {self.reach.image or 'not named'}; {len(travel.pack())} bytes of probe in a ConfigMap",
            "everything made is labelled app.kubernetes.io/managed-by=gpuassay, and removed afterwards",
            _PRIVILEGED if self.host_view else _UNPRIVILEGED,
        ]
        alike: dict[str, list[str]] = {}
        for plan in plans:
            alike.setdefault(plan.words, []).append(plan.node)
        return [*lines, *(f"{folded(nodes)}: {words}" for words, nodes in alike.items())]

    def clean(self) -> list[str]:
        """Remove all that any run of ours has left, and give what that was. Raises TargetError."""
        return asyncio.run(self._clean())

    def end(self, name: str) -> list[str]:
        """Remove what one run of ours has left, and give what that was. Raises TargetError."""
        left = replace(self._run(), id=name.removeprefix(kube_objects.PREFIX))
        try:
            return asyncio.run(self._removed(left))
        except ApiError as error:
            if error.status == "denied":  # who may not list them could make none
                return []
            raise TargetError(f"{_WORD}: {self._config.cluster.server}: {error}") from error

    @cached_property
    def _held(self) -> dict[str, kube_objects.Run]:
        """The nodes that are held, each with the run that holds it."""
        return {}

    # --- the API server --------------------------------------------------------------------------

    @cached_property
    def _config(self) -> SingleConfig:
        return configuration(self.reach)

    @asynccontextmanager
    async def _api(self) -> AsyncIterator[Api]:
        async with client(self._config, _SILENCE_S) as connection:
            yield Api(connection)

    @cached_property
    def _asked(self) -> list[Item]:
        """The cluster's evidence, asked for once. Raises TargetError if nobody answers."""
        return asyncio.run(self._ask())

    async def _ask(self) -> list[Item]:
        async with self._api() as api:
            try:
                await api.get(VERSION)
            except ApiError as error:
                if error.code != _FORBIDDEN:  # which is no reason to give up: much else may be allowed
                    raise TargetError(f"{_WORD}: {self._config.cluster.server}: {error}") from error
            return await ask_cluster(api, self.reach.namespace or self._config.namespace)

    @cached_property
    def _facts(self) -> Facts:
        return Facts(Answers(self._asked))

    def _latest(self) -> Facts:
        """Ask anew: a node may have come since, or have gone."""
        return Facts(Answers(asyncio.run(self._ask())))

    def _workers(self) -> list[str]:
        nodes = self._facts.nodes
        if isinstance(nodes, Unread):
            raise TargetError(f"{_WORD}: the nodes are not known: {nodes.why}; name them: --nodes or --site")
        workers = [name for name, node in nodes.value.items() if node.is_worker]
        if not workers:
            raise TargetError(f"{_WORD}: {self._config.cluster.server} has no node that runs workloads")
        return workers

    # --- a run -----------------------------------------------------------------------------------

    def _run(self) -> kube_objects.Run:
        name = secrets.token_hex(4)
        place = self.reach.namespace
        return kube_objects.Run(
            name,
            place or f"gpuassay-{name}",
            owns_namespace=not place,
            reach=self.reach,
            deadline_s=self.deadline_s,
            host_view=self.host_view,
        )

    def _plans(self, nodes: Sequence[str]) -> list[Plan]:
        return [plan_node(self._facts, name, self.reach, self.host_view) for name in nodes]

    async def _gather(
        self, run: kube_objects.Run, plans: Sequence[Plan], writer: Writer, progress: Progress
    ) -> None:
        withheld = Withheld(writer)
        async with self._api() as api:
            if any(plan.closed is None for plan in plans):
                await _prepare(api, run, kube_objects.config_map(run, run.name, travel.pack()))
            channels = []
            for number, plan in enumerate(plans):
                if plan.taken:
                    withheld.why[plan.node] = plan.taken
                channels.append(plan.channel(api, run, number, withheld.why.__setitem__))
            await ask_all(channels, withheld, progress, self.deadline_s)

    async def _prepare(self, run: kube_objects.Run, shared: dict[str, Any]) -> None:
        async with self._api() as api:
            await _prepare(api, run, shared)

    def _remove(self, run: kube_objects.Run) -> str:
        """Remove what this run made; what is still there is said here, and given."""
        try:
            with undisturbed():
                asyncio.run(self._removed(run))
        except (ApiError, TargetError) as error:
            why = f"{error}; remove it with: gpuassay clean {_WORD}"
            sys.stderr.write(f"gpuassay: not everything that was made could be removed: {why}\n")
            return why
        return ""

    async def _removed(self, run: kube_objects.Run) -> list[str]:
        async with self._api() as api:
            if run.owns_namespace:
                return await kube_clean.remove_namespaces(api, run.selector)
            return await kube_clean.remove_objects(api, run.namespace, run.selector)

    async def _clean(self) -> list[str]:
        async with self._api() as api:
            try:
                return await kube_clean.remove_all(api, self.reach.namespace)
            except ApiError as error:
                raise TargetError(f"{_WORD}: {self._config.cluster.server}: {error}") from error


_UNPRIVILEGED = "the pods are unprivileged (Pod Security: restricted); they see of the host what pods see"
_PRIVILEGED = (
    "--host-view: the pods are privileged, share the host's processes and have its / mounted read-only; "
    "the host's own python3 runs the probe in there, as root"
)


async def _prepare(api: Api, run: kube_objects.Run, shared: dict[str, Any]) -> None:
    """Make the namespace of a run, and what all its pods share. Raises TargetError."""
    spaces = kube_clean.NAMESPACES
    try:
        if run.owns_namespace:
            await api.create(spaces, kube_objects.namespace(run))
        await api.create(f"{spaces}/{run.namespace}/{shared['kind'].lower()}s", shared)
    except ApiError as error:
        hint = "name one that you may use as [kubernetes] namespace in the site file; " * run.owns_namespace
        raise TargetError(
            f"{_WORD}: nothing can be made in namespace {run.namespace}: {error}; {hint}"
            "docs/targets.md has the Role that is needed"
        ) from error
