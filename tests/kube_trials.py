"""Faults on a node of the Kubernetes of tests, in this process, and judged by the suite's own checks."""

from __future__ import annotations

import importlib.util
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from gpuassay.facts.fault_channel import CHANNELS, heard
from gpuassay.fault.trial import Trial
from gpuassay.judge.bench import Bench
from gpuassay.judge.catalog import load_catalog
from gpuassay.judge.needs import Needs
from gpuassay.judge.observe import Observe
from gpuassay.judge.settle import settle
from gpuassay.judge.site import load_site
from gpuassay.target.progress import Tally
from judging import Node
from kube_breaking import NODE, ROOT, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from gpuassay.evidence.item import Item
    from gpuassay.facts.fault_trial import FaultTrial
    from gpuassay.target import Job, Results
    from gpuassay.target.kubernetes import Kubernetes

_SITE = f"""
[cluster]
name = "here"
[[pool]]
nodes = "{NODE}"
[[mount]]
path = "/mnt"
role = "local"
[[mount]]
path = "/run/shared"
role = "data"
"""
DETECT_S = 5
"""By what time a node has to be noticed in these tests, where nobody waits for two minutes."""


@dataclass(frozen=True)
class Kind:
    """A fault by the check that is about it: its name, its words, and what tells that it is there."""

    check: str
    fault: str
    args: Mapping[str, Any]
    sick: Callable[[Place], bool]
    told: Mapping[str, Any] = field(default_factory=dict)


def conduct(
    reached: Kubernetes, kind: Kind, watch_s: float, mend_s: float = 6, replace_s: float = 0
) -> FaultTrial:
    """Conduct a trial to its end, and read it as if the provider had said that its tooling reads all."""
    kept: list[Item] = []

    @contextmanager
    def hold(node: str) -> Iterator[Callable[[Job], Results]]:
        with reached.hold(node, 60) as run:
            yield lambda job: run(job, Tally(1, lambda _line: None))

    what, bounds = (kind.fault, kind.args, NODE, hold), (watch_s, mend_s, replace_s)
    Trial(*what, reached.eyes(NODE), kept.append, *bounds, told=kind.told).conduct()
    (found,) = heard([(item, f"#{item.seq}") for item in kept], frozenset(CHANNELS.values()))
    return found


def verdict(kind: Kind, trial: FaultTrial, folder: Path) -> str:
    """Judge a trial by the check that is about it, with a shorter time to notice."""
    path = folder / "thresholds.toml"
    tables = (ROOT / "thresholds.toml").read_text(encoding="utf-8")
    path.write_text(tables.replace("fail_above = 120, unit", f"fail_above = {DETECT_S}, unit"), "utf-8")
    catalog = load_catalog(path, ROOT / "advisories.toml")
    (folder / "site.toml").write_text(_SITE, encoding="utf-8")
    site = load_site(folder / "site.toml", catalog)
    node = Node(NODE, dict.fromkeys(catalog.needs, True))
    observe = Observe()
    _function(kind.check)(lambda _name: [trial], observe)
    bench = Bench(catalog, site, [node], Needs(site, [node]))
    found = settle(bench, catalog.checks[f"reliability.{kind.check}"], observe).verdict
    assert found is not None
    return found.word


@cache
def _function(check: str) -> Callable[..., None]:
    """Load a check."""
    file, _, name = check.partition(".")
    source = ROOT / "tests_reliability" / f"test_{file}.py"
    spec = importlib.util.spec_from_file_location(f"conducted_{file}", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Callable[..., None] = getattr(module, f"test_{name}")
    return found
