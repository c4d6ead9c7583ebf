"""Measurements: what is run on a cluster with the user's consent, and then read like any evidence.

To a check, a workload of ours and a well-known tool are the same: ``measure("dcgm_diag")`` gives one
subject for each node, with facts. A tool is a module with the ``Tool`` of that name in ``TOOLS``.

A survey asks a service of the cluster from where the suite runs, such as Prometheus or S3: ``measure("s3")``
gives the subjects that it found. It is a module with the ``Survey`` of that name in ``SURVEYS``.

A survey of ``NODE_SURVEYS`` asks a service from all nodes at once, on loan: ``measure("object_speed")`` gives
a subject for each node.

A tool of ``MOUNT_TOOLS`` runs on the nodes too, in each mount that the site file declares: ``measure("fio")``
gives a subject for each mount on each node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from gpuassay.judge.outside import FILE, IMAGE, MODEL
from gpuassay.measure.alertmanager import AlertmanagerSurvey
from gpuassay.measure.containers import Containers
from gpuassay.measure.dcgm_diag import DcgmDiag
from gpuassay.measure.exporters import ExportersSurvey
from gpuassay.measure.exports import Exports
from gpuassay.measure.fabric_seat import FabricSeat
from gpuassay.measure.fio import FIO
from gpuassay.measure.grafana import GrafanaSurvey
from gpuassay.measure.hpl_mxp import HplMxp
from gpuassay.measure.inference import InferenceSurvey
from gpuassay.measure.io_tools import ELBENCHO, IOR, MDTEST, SMALL_FILES
from gpuassay.measure.kube_admission import KubeAdmission
from gpuassay.measure.kube_anonymous import KubeAnonymous
from gpuassay.measure.kube_churn import KubeChurn
from gpuassay.measure.kube_grants import KubeGrants
from gpuassay.measure.kube_kubelets import KubeKubelets
from gpuassay.measure.kube_policy import KubePolicy
from gpuassay.measure.kube_volumes import KubeVolumes
from gpuassay.measure.mamf import Mamf
from gpuassay.measure.metadata import Metadata
from gpuassay.measure.mlperf import MLPERF
from gpuassay.measure.nccl_tests import NcclTests
from gpuassay.measure.nvbandwidth import NvBandwidth
from gpuassay.measure.object_endurance import ObjectEndurance
from gpuassay.measure.object_speed import ObjectSpeed
from gpuassay.measure.outside import Fetches, Lookups
from gpuassay.measure.prometheus import PrometheusSurvey
from gpuassay.measure.rvs import Rvs
from gpuassay.measure.s3 import S3Survey
from gpuassay.measure.second_account import SecondAccount
from gpuassay.measure.slurm_churn import SlurmChurn
from gpuassay.measure.slurm_containers import SlurmContainers
from gpuassay.measure.slurm_hygiene import SlurmHygiene
from gpuassay.measure.slurm_job import SlurmJob
from gpuassay.measure.ssh_ways import SshWays
from gpuassay.measure.transferbench import TransferBench

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gpuassay.evidence.item import Item
    from gpuassay.evidence.recording import NodeEvidence
    from gpuassay.facts import Node
    from gpuassay.judge.catalog import Measurement
    from gpuassay.judge.fact import Scalar, Unread
    from gpuassay.judge.services import Services
    from gpuassay.measure.mounted import MountTool
    from gpuassay.target import Job, Results


class Tool(Protocol):
    """One tool: how it is started, and how its answer is read."""

    @property
    def method(self) -> int:
        """Raised whenever measuring changes: older measurements are not read as this one."""

    def argv(self, args: Mapping[str, Scalar]) -> tuple[str, ...]:
        """Give the command, for the arguments of its ``[measure.X]`` table."""

    def read(self, node: str, args: Mapping[str, Scalar], item: Item | Unread, ref: str) -> Any:
        """Read what came back from a node, or why nothing did, into a subject; ``ref`` refers to it."""


@runtime_checkable
class Errand(Tool, Protocol):
    """A tool that is a program of ours, sent to the nodes with an order."""

    def order(self, services: Services) -> Mapping[str, Any]:
        """Give what the site file has for it: that is part of what is asked."""

    def feed(self, args: Mapping[str, Scalar], order: Mapping[str, Any], nodes: Sequence[str]) -> bytes:
        """Pack it for these nodes, which run it at the same time."""


class Survey(Protocol):
    """What is asked of one service that the site file declares."""

    @property
    def method(self) -> int:
        """Raised whenever asking changes: older answers are not read as this one's."""

    def ask(
        self, services: Services, nodes: Sequence[str], args: Mapping[str, Scalar], deadline_s: float
    ) -> Iterator[Item]:
        """Ask, and give each answer as it came, also each that failed; ids are the survey's own.

        ``nodes`` are those that answered, for a service that each of them has. It ends within
        ``deadline_s`` seconds and removes what it created, also when it is cut.
        """

    def read(self, args: Mapping[str, Scalar], evidence: NodeEvidence) -> Sequence[Any]:
        """Read the answers into subjects; a question that got none is unread on them."""


class NodeSurvey(Protocol):
    """What nodes ask together of a service that the site file declares, with what they are lent for it."""

    @property
    def method(self) -> int:
        """Raised whenever measuring changes."""

    @property
    def need(self) -> str:
        """The word of ``[needs]`` that says that there is such a service."""

    def ask(
        self,
        run: Callable[[Job], Results],
        services: Services,
        nodes: Sequence[Node],
        measurement: Measurement,
    ) -> Iterator[Item]:
        """Ask, and give the answer of each node, also why one was not asked; removes what it made."""

    def cost(self, args: Mapping[str, Scalar], nodes: int) -> str:
        """Say what is moved to the service and back."""

    def read(self, services: Services, args: Mapping[str, Scalar], evidence: NodeEvidence) -> Sequence[Any]:
        """Read the answers into subjects."""


TOOLS: Mapping[str, Tool] = {
    "containers": Containers(),
    "dcgm_diag": DcgmDiag(),
    "exports": Exports(),
    "fetches": Fetches("mirrors", FILE),
    "hpl_mxp": HplMxp(),
    "lookups": Lookups(),
    "mamf": Mamf(),
    "fabric_seat": FabricSeat(),
    "metadata": Metadata(),
    "nccl_tests": NcclTests(),
    "nvbandwidth": NvBandwidth(),
    "pulls": Fetches("pulls", IMAGE, MODEL),
    "rvs": Rvs(),
    "ssh_ways": SshWays(),
    "transferbench": TransferBench(),
}
MOUNT_TOOLS: Mapping[str, MountTool] = {
    one.name: one for one in (FIO, IOR, MDTEST, ELBENCHO, MLPERF, SMALL_FILES)
}
NODE_SURVEYS: Mapping[str, NodeSurvey] = {
    "object_endurance": ObjectEndurance(),
    "object_speed": ObjectSpeed(),
}
SURVEYS: Mapping[str, Survey] = {
    "alertmanager": AlertmanagerSurvey(),
    "exporters": ExportersSurvey(),
    "grafana": GrafanaSurvey(),
    "kube_admission": KubeAdmission(),
    "inference": InferenceSurvey(),
    "kube_anonymous": KubeAnonymous(),
    "kube_churn": KubeChurn(),
    "kube_grants": KubeGrants(),
    "kube_kubelets": KubeKubelets(),
    "kube_policy": KubePolicy(),
    "kube_volumes": KubeVolumes(),
    "prometheus": PrometheusSurvey(),
    "s3": S3Survey(),
    "slurm_churn": SlurmChurn(),
    "slurm_containers": SlurmContainers(),
    "second_account": SecondAccount(),
    "slurm_hygiene": SlurmHygiene(),
    "slurm_job": SlurmJob(),
}
