"""Measurements: what is run on a cluster with the user's consent, and then read like any evidence.

To a check, a workload of ours and a well-known tool are the same: ``measure("dcgm_diag")`` gives one
subject for each node, with facts. A tool is a module with the ``Tool`` of that name in ``TOOLS``.

A survey asks a service of the cluster from where the suite runs, such as Prometheus or S3: ``measure("s3")``
gives the subjects that it found. It is a module with the ``Survey`` of that name in ``SURVEYS``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from gpuassay.measure.alertmanager import AlertmanagerSurvey
from gpuassay.measure.dcgm_diag import DcgmDiag
from gpuassay.measure.exporters import ExportersSurvey
from gpuassay.measure.grafana import GrafanaSurvey
from gpuassay.measure.kube_anonymous import KubeAnonymous
from gpuassay.measure.kube_grants import KubeGrants
from gpuassay.measure.kube_policy import KubePolicy
from gpuassay.measure.kube_volumes import KubeVolumes
from gpuassay.measure.metadata import Metadata
from gpuassay.measure.nccl_tests import NcclTests
from gpuassay.measure.prometheus import PrometheusSurvey
from gpuassay.measure.rvs import Rvs
from gpuassay.measure.s3 import S3Survey
from gpuassay.measure.slurm_hygiene import SlurmHygiene
from gpuassay.measure.slurm_job import SlurmJob

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuassay.evidence.item import Item
    from gpuassay.evidence.recording import NodeEvidence
    from gpuassay.judge.fact import Scalar, Unread
    from gpuassay.judge.services import Services


class Tool(Protocol):
    """One tool: how it is started, and how its answer is read."""

    @property
    def method(self) -> int:
        """Raised whenever measuring changes: older measurements are not read as this one."""

    def argv(self, args: Mapping[str, Scalar]) -> tuple[str, ...]:
        """Give the command, for the arguments of its ``[measure.X]`` table."""

    def read(self, node: str, args: Mapping[str, Scalar], item: Item | Unread, ref: str) -> Any:
        """Read what came back from a node, or why nothing did, into a subject; ``ref`` refers to it."""


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


TOOLS: Mapping[str, Tool] = {
    "dcgm_diag": DcgmDiag(),
    "metadata": Metadata(),
    "nccl_tests": NcclTests(),
    "rvs": Rvs(),
}
SURVEYS: Mapping[str, Survey] = {
    "alertmanager": AlertmanagerSurvey(),
    "exporters": ExportersSurvey(),
    "grafana": GrafanaSurvey(),
    "kube_anonymous": KubeAnonymous(),
    "kube_grants": KubeGrants(),
    "kube_policy": KubePolicy(),
    "kube_volumes": KubeVolumes(),
    "prometheus": PrometheusSurvey(),
    "s3": S3Survey(),
    "slurm_hygiene": SlurmHygiene(),
    "slurm_job": SlurmJob(),
}
