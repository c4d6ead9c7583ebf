"""What a recording has of nodes that serve in place of others that were broken on purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuassay import facts
from gpuassay.facts.fault_audited import Answers
from gpuassay.facts.spare import lacking

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuassay.facts import Node
    from gpuassay.facts.fault_trial import FaultTrial
    from gpuassay.judge.site import Site


def compare(trial: FaultTrial, nodes: Iterable[Node], site: Site) -> None:
    """Tell a trial what its serving node lacks of what the failed one, among ``nodes``, had before."""
    then = next((node for node in nodes if node.name == trial.node), None)
    answers = Answers(trial.serving, trial.items)
    if then is not None and answers.answered:
        trial.lacks = lacking(then, facts.in_place(then, answers, site), site.services.mounts)
