"""Facts: evidence of any vendor as typed values, each with its reference, or the reason why there is none.

What a vendor calls things, and how its tools spell them, is known here and nowhere else.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import TYPE_CHECKING

from gpuassay.facts.earlier import Earlier, Past
from gpuassay.facts.gpu import Gpu
from gpuassay.facts.kube_cluster import KubeCluster
from gpuassay.facts.link import twins
from gpuassay.facts.nics import Nic
from gpuassay.facts.node import Node
from gpuassay.facts.racks import RackPool, rack_pools
from gpuassay.facts.rdma import Port
from gpuassay.facts.seats import Agreement, Seats
from gpuassay.facts.slurm_cluster import SlurmCluster
from gpuassay.facts.slurm_limits import bought
from gpuassay.facts.source import Nothing, Silence
from gpuassay.facts.standing import heard
from gpuassay.facts.volumes import AllShared, DeclaredVolume, ObjectStore
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.names import natural
from gpuassay.judge.services import Services

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gpuassay.evidence.recording import Recording
    from gpuassay.facts.fault_audited import Answers
    from gpuassay.facts.slurm_node import OnSlurm
    from gpuassay.judge.catalog import Catalog
    from gpuassay.judge.fact import Fact
    from gpuassay.judge.services import Mount
    from gpuassay.judge.site import Site

__all__ = ["Cluster", "Earlier", "Fleet", "Gpu", "Nic", "Node", "Port", "RackPool", "fleet", "past"]

_HOST_LABEL = "kubernetes.io/hostname"  # kubelet's word for the host's name


class Cluster:
    """The cluster as a whole: what can only be said of all nodes together."""

    where = node = ""
    models: tuple[str, ...] = ()

    def __init__(self, nodes: tuple[Node, ...]) -> None:
        """Take the nodes in service."""
        self._nodes = nodes

    @property
    def accelerators(self) -> Fact[int]:
        """How many GPUs can be used in all; one node that cannot say leaves it unread."""
        total = 0
        for node in self._nodes:
            seen = node.gpus_seen
            if isinstance(seen, Unread):
                return Unread(seen.kind, f"{node.name}: {seen.why}", seen.evidence)
            total += seen.value
        return Read(total, note=f"on {len(self._nodes)} nodes")


class Fleet:
    """The nodes of a cluster that are in service, silent ones too, in natural order.

    ``slurms`` is the Slurm that gives them out, if one was asked.
    """

    slurms: tuple[SlurmCluster, ...] = ()

    @property
    def slurm_nodes(self) -> tuple[OnSlurm, ...]:
        """The nodes as that Slurm offers them."""
        return tuple(node for slurm in self.slurms for node in slurm.nodes)

    def __init__(
        self, nodes: Iterable[Node], out: Iterable[str] = (), services: Services | None = None
    ) -> None:
        """Take the nodes in service, the names of those that are out of it, and the services declared."""
        self.kubernetes = KubeCluster(Nothing(), None)
        self._services = services or Services()
        self.seats = Seats(Silence(Unread("not_asked", "no scheduler was asked")))
        self.nodes = tuple(sorted(nodes, key=lambda node: natural(node.name)))
        self.out = tuple(sorted(out, key=natural))

    @property
    def agreements(self) -> tuple[Agreement, ...]:
        """What Slurm and Kubernetes say of each node that Slurm has, those out of service too."""
        names = sorted([*(node.name for node in self.nodes), *self.out], key=natural)
        return self.seats.agreements(names)

    @cached_property
    def clusters(self) -> tuple[Cluster]:
        """The cluster, alone."""
        return (Cluster(self.nodes),)

    @cached_property
    def gpus(self) -> tuple[Gpu, ...]:
        """All GPUs."""
        return tuple(gpu for node in self.nodes for gpu in node.gpus)

    @cached_property
    def nics(self) -> tuple[Nic, ...]:
        """All network cards of the ConnectX and BlueField families."""
        return tuple(nic for node in self.nodes for nic in node.nics)

    @cached_property
    def roce_ports(self) -> tuple[Port, ...]:
        """The RoCE ports of the compute fabric."""
        return tuple(port for node in self.nodes for port in node.roce_ports)

    @cached_property
    def rack_pools(self) -> tuple[RackPool, ...]:
        """The pools with nodes of racks whose machines NVLink joins."""
        return rack_pools(self.nodes)

    @cached_property
    def infiniband_ports(self) -> tuple[Port, ...]:
        """The InfiniBand ports of the compute fabric."""
        return tuple(port for node in self.nodes for port in node.fabric.infiniband_ports)

    @cached_property
    def fabric_ports(self) -> tuple[Port, ...]:
        """All ports of the compute fabric."""
        return tuple(port for node in self.nodes for port in node.fabric.ports)

    @cached_property
    def shared_volumes(self) -> tuple[DeclaredVolume, ...]:
        """The shared storage of the site file, as its nodes see it."""
        return tuple(self._volume(mount) for mount in self._services.mounts if mount.shared)

    @cached_property
    def sold_volumes(self) -> tuple[DeclaredVolume, ...]:
        """The storage of which the site file names the capacity."""
        return tuple(self._volume(mount) for mount in self._services.mounts if mount.capacity_tb is not None)

    @property
    def all_shared(self) -> tuple[AllShared]:
        """All shared storage together."""
        return (AllShared(self.shared_volumes),)

    @property
    def object_stores(self) -> tuple[ObjectStore, ...]:
        """The object storage of the site file."""
        return (ObjectStore(self._services.s3),) if self._services.s3 else ()

    def _volume(self, mount: Mount) -> DeclaredVolume:
        return DeclaredVolume(mount, (node.mounts.at(mount.path) for node in self.nodes))

    def guid_twins(self, port: Port) -> Fact[int]:
        """How many other adapters of the fleet have the GUID of this one's adapter; the note names them."""
        guid = port.guid
        if isinstance(guid, Unread):
            return guid
        own = f"{port.node}/{port.device}"
        others = [adapter for adapter in self._guids[guid.value] if adapter != own]
        return Read(
            len(others), guid.evidence, f"{guid.value} is that of {', '.join(others)} too" if others else ""
        )

    @cached_property
    def _guids(self) -> dict[str, list[str]]:
        return twins(port for node in self.nodes for port in node.ports)


def fleet(recording: Recording, site: Site, earlier: Earlier | None = None) -> Fleet:
    """Give the nodes that are declared, by site file or recording, and those that answered undeclared."""
    names = {*site.nodes, *recording.meta.declared, *recording.nodes} - site.out_nodes
    node = _builder(recording, site, earlier)
    found = Fleet(map(node, names), site.out_nodes, site.services)
    found.seats = Seats(recording.cluster, recording.meta.target)
    found.kubernetes = KubeCluster(recording.cluster, recording.meta.begin)
    if found.seats.by_slurm:
        products = frozenset(site.catalog.accelerators)
        slurm = SlurmCluster(recording.cluster, found.nodes, found.out, products)
        slurm.bought = bought(recording.cluster, found.nodes, site)
        found.slurms = (slurm,)
    if earlier is not None:
        earlier.meet(found.nodes)
    return found


def past(recording: Recording, site: Site, hours: float) -> Earlier:
    """Give the nodes of an earlier recording, made so many hours before."""
    return Earlier(map(_builder(recording, site), recording.nodes), hours)


def in_place(then: Node, answers: Answers, site: Site) -> Node:
    """Give the node that serves in place of another, by its own answers; it is held to that one's pool."""
    pool = site.pool_of(answers.node) or site.pool_of(then.name)
    ports, of = (pool.ports, pool.name) if pool else ((), "")
    return Node(answers.node, heard(answers), ports, of, _products(site.catalog))


def _builder(recording: Recording, site: Site, earlier: Earlier | None = None) -> Callable[[str], Node]:
    """Give what makes a node of its name."""
    product_of = _products(site.catalog)
    seats = Seats(recording.cluster, recording.meta.target)

    def node(name: str) -> Node:
        pool = site.pool_of(name)
        ports, of = (pool.ports, pool.name) if pool else ((), "")
        made = Node(name, heard(recording.nodes.get(name)), ports, of, product_of)
        made.past = Past(made, earlier)
        made.declared_mounts = site.services.mounts
        made.seats = {**seats.has(name), "ssh_peers": seats.has_ssh_peers(name)}
        host, slurm = seats.host(name), seats.slurm.find(name)
        made.declared_packages = site.services.packages
        made.aliases = tuple(filter(None, (seats.dialled(name),)))
        if slurm is not None:
            made.aliases += (slurm.name, slurm.hostname)
        if isinstance(host, Read):
            made.aliases += (str(host.value.labels.get(_HOST_LABEL, "")),)
            made.scheduled_boot = host.value.boot_id
        made.orchestrator = seats
        return made

    return node


def _products(catalog: Catalog) -> Callable[[tuple[str, ...]], Fact[str]]:
    """Give what names the product of the catalogue that goes by some names."""

    @cache
    def product_of(models: tuple[str, ...]) -> Fact[str]:
        named = " / ".join(models) or "neither a name nor a PCI id was read"
        try:
            found = catalog.accelerator_of(models)
        except LookupError as error:
            return Unread("garbled", str(error))
        if found is None:
            return Unread("garbled", f"unknown product: {named}")
        return Read(found.name, note=f"it says that it is {named}")

    return product_of
