"""How nodes are got on this site: what the site file says to a scheduler, a cluster or ssh."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuassay.judge.config import COUNT, DURATION, TEXT, items

if TYPE_CHECKING:
    from gpuassay.judge.config import Table

_TEXTS = items(TEXT)
_SLURM_WORDS = ("partition", "account", "qos", "reservation", "constraint")
_SSH_FIXED = {
    "batchmode": "nobody is there to answer a question",
    "controlmaster": "no connection may stay behind",
    "forwardagent": "no node gets the use of your keys",
    "forwardx11": "no node gets the use of your screen",
    "remotecommand": "what runs on a node is the probe",
    "stricthostkeychecking": "host keys are always checked",
}
_KUBERNETES_WORDS = ("kubeconfig", "context", "namespace", "image", "pull_secret", "runtime_class")


@dataclass(frozen=True)
class SlurmReach:
    """What Slurm is told with every job.

    ``arguments`` are added as they are; ``wait_s`` is how long a job may wait for its node, in seconds;
    ``time_limit_s`` is asked for each, at most what partition, account and QOS allow. ``longest_job_s`` is
    how long a job of the customer's may run, as agreed.
    """

    partition: str = ""
    account: str = ""
    qos: str = ""
    reservation: str = ""
    constraint: str = ""
    arguments: tuple[str, ...] = ()
    wait_s: float = 30.0
    time_limit_s: float | None = None
    python: str = "python3"
    longest_job_s: float | None = None


@dataclass(frozen=True)
class KubernetesReach:
    """Where and as what pods run.

    ``image`` needs a Python 3.9 and is named by digest; ``namespace`` empty: a new one, removed afterwards;
    ``tolerations`` are ``key``, ``key=value``, ``key:Effect`` or ``key=value:Effect``, ``*`` is all;
    ``wait_s`` is how long a pod may wait for its place, in seconds. ``tooling`` names the programs (field
    managers) by which the provider's tooling changes nodes; none: all but what people type.
    """

    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""
    image: str = ""
    pull_secret: str = ""
    runtime_class: str = ""
    tolerations: tuple[str, ...] = ()
    tooling: tuple[str, ...] = ()
    wait_s: float = 30.0
    python: str = "python3"


@dataclass(frozen=True)
class SshReach:
    """How ssh connects, beyond the user's ``~/.ssh/config``; ``options`` are those of ``ssh -o``.

    ``python`` is a name or a path on the nodes, ``jump`` and ``config`` are those of ``ssh -J`` and ``-F``.
    """

    user: str = ""
    port: int | None = None
    jump: str = ""
    config: str = ""
    options: tuple[str, ...] = ()
    connect_timeout_s: float = 10.0
    python: str = "python3"


@dataclass(frozen=True, slots=True)
class Reach:
    """What is said for each target that needs to be told.

    ``image`` is the container image of workloads, with Python 3.9 or newer; empty for none.
    """

    slurm: SlurmReach = field(default_factory=SlurmReach)
    kubernetes: KubernetesReach = field(default_factory=KubernetesReach)
    ssh: SshReach = field(default_factory=SshReach)
    image: str = ""


def read_reach(site: Table) -> Reach:
    """Read ``[slurm]``, ``[kubernetes]``, ``[ssh]``, ``[workload]``; what is not said stays the default."""
    return Reach(
        _slurm(site.section("slurm")),
        _kubernetes(site.section("kubernetes")),
        _ssh(site.section("ssh")),
        _image(site.section("workload")),
    )


def _image(table: Table) -> str:
    image: str = table.take("image", TEXT, "")
    table.close()
    return image


def _slurm(table: Table) -> SlurmReach:
    reach = SlurmReach(
        **{name: table.take(name, TEXT, "") for name in _SLURM_WORDS},
        arguments=table.take("arguments", _TEXTS, ()),
        wait_s=table.take("wait", DURATION, SlurmReach.wait_s),
        time_limit_s=table.take("time_limit", DURATION, None),
        python=table.take("python", TEXT, SlurmReach.python),
        longest_job_s=table.take("longest_job", DURATION, None),
    )
    table.close()
    return reach


def _kubernetes(table: Table) -> KubernetesReach:
    reach = KubernetesReach(
        **{name: table.take(name, TEXT, "") for name in _KUBERNETES_WORDS},
        tolerations=table.take("tolerations", _TEXTS, ()),
        tooling=table.take("tooling", _TEXTS, ()),
        wait_s=table.take("wait", DURATION, KubernetesReach.wait_s),
        python=table.take("python", TEXT, KubernetesReach.python),
    )
    table.close()
    return reach


def _ssh(table: Table) -> SshReach:
    reach = SshReach(
        **{name: table.take(name, TEXT, "") for name in ("user", "jump", "config")},
        port=table.take("port", COUNT, None),
        options=_ssh_options(table),
        connect_timeout_s=table.take("connect_timeout", DURATION, SshReach.connect_timeout_s),
        python=table.take("python", TEXT, SshReach.python),
    )
    table.close()
    return reach


def _ssh_options(table: Table) -> tuple[str, ...]:
    options: tuple[str, ...] = table.take("options", _TEXTS, ())
    for option in options:
        name = re.split(r"[=\s]", option.strip(), maxsplit=1)[0]
        if why := _SSH_FIXED.get(name.lower()):
            table.wrong("options", f"{name} cannot be set: {why}")
    return options
