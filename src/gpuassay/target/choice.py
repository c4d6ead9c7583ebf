"""From the words of ``--target`` to the target."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpuassay.target import TARGETS, TargetError
from gpuassay.target.local import Local

if TYPE_CHECKING:
    from gpuassay.judge.reach import Reach
    from gpuassay.target import Target
    from gpuassay.target.kubernetes import Kubernetes


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a target is to do: ``nodes`` (none: all it has), each within ``deadline_s``, got by ``reach``."""

    nodes: tuple[str, ...]
    deadline_s: float
    reach: Reach
    host_view: bool = False


TOGETHER = "slurm,kubernetes"
"""Two ways to the same nodes, which may be taken in one run."""


def choose(words: str, wanted: Wanted) -> Target:
    """Make the target of this name. Raises TargetError."""
    match words.split(","):
        case ["local"]:
            return Local(deadline_s=wanted.deadline_s)
        case ["slurm"]:
            return _slurm(wanted)
        case ["kubernetes"]:
            return _kubernetes(wanted)
        case ["slurm", "kubernetes"] | ["kubernetes", "slurm"]:
            return _both(wanted)
        case ["ssh"]:
            from gpuassay.target.ssh import Ssh  # noqa: PLC0415 - who audits one machine pays for no other

            return Ssh(wanted.nodes, wanted.reach.ssh, wanted.deadline_s)
        case _:
            raise TargetError(f"--target={words}: expected one of {', '.join(TARGETS)}, or {TOGETHER}")


def _slurm(wanted: Wanted) -> Target:
    from gpuassay.target.slurm import Slurm  # noqa: PLC0415 - only who asks for it pays

    return Slurm(wanted)


def _both(wanted: Wanted) -> Target:
    kubernetes = _kubernetes(replace(wanted, nodes=()))  # whose names for them are other ones
    from gpuassay.target.both import Both  # noqa: PLC0415 - needs both
    from gpuassay.target.slurm import Slurm  # noqa: PLC0415 - the same

    return Both(Slurm(wanted), kubernetes)


def _kubernetes(wanted: Wanted) -> Kubernetes:
    try:
        from gpuassay.target.kubernetes import Kubernetes  # noqa: PLC0415 - what others do not need to have
    except ImportError as error:
        raise TargetError(f"--target=kubernetes: {error}: pip install 'gpuassay[kubernetes]'") from error
    return Kubernetes(wanted.reach.kubernetes, wanted.nodes, wanted.deadline_s, wanted.host_view)
