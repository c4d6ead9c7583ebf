"""What a recording has of nodes that serve in place of others that were broken on purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuassay import facts
from gpuassay.facts.fault_audited import Answers
from gpuassay.facts.spare import lacking
from gpuassay.judge.catalog import load_catalog
from gpuassay.judge.config import ConfigError
from gpuassay.judge.fact import Unread
from gpuassay.judge.site import load_site, undeclared

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from gpuassay.evidence.recording import Recording
    from gpuassay.facts import Node
    from gpuassay.facts.fault_trial import FaultTrial
    from gpuassay.judge.site import Site


def compare(trial: FaultTrial, nodes: Iterable[Node], site: Site) -> None:
    """Tell a trial what its serving node lacks of what the failed one, among ``nodes``, had before."""
    then = next((node for node in nodes if node.name == trial.node), None)
    answers = Answers(trial.serving, trial.items)
    if then is not None and answers.answered:
        trial.lacks = lacking(then, facts.in_place(then, answers, site), site.services.mounts)


def compare_recorded(trials: Iterable[FaultTrial], recording: Recording, folder: Path, suite: Path) -> None:
    """Tell the trials of a recording, by the site file in its folder and the tables in a suite's.

    A site file with mistakes leaves it unknown. Raises ConfigError for mistakes in the tables.
    """
    audited = [trial for trial in trials if Answers(trial.serving, trial.items).answered]
    if not audited:
        return
    catalog = load_catalog(suite / "thresholds.toml", suite / "advisories.toml")
    path = folder / "site.toml"
    try:
        site = load_site(path, catalog) if path.is_file() else undeclared(catalog)
    except ConfigError as error:
        for trial in audited:
            trial.lacks = Unread("garbled", f"the recording's own site file cannot be read: {error}")
        return
    nodes = facts.fleet(recording, site).nodes
    for trial in audited:
        compare(trial, nodes, site)
