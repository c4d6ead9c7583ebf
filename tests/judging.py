"""A made-up fleet before the real bench: what tests of the judge put on it, and what they ask of it."""

from __future__ import annotations

import itertools
import tempfile
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuassay.judge.bench import Bench
from gpuassay.judge.fact import Fact, Read, Unread
from gpuassay.judge.needs import Needs
from gpuassay.judge.observe import Observe
from gpuassay.judge.settle import CheckResult, settle
from gpuassay.judge.site import Site, load_site, undeclared
from judge_tables import catalog

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.judge.grading import Row

B200 = ("NVIDIA B200", "10de:2901")
EIGHT = Read(8)
DAY = date(2026, 11, 30)
CHECK = "audit.a.b"

HEAD = """
[tiers]
ribbon = { warnings = 4, phases = ["audit"] }
bronze = { warnings = 3, phases = ["audit"] }
silver = { warnings = 2, phases = ["audit"] }
gold = { warnings = 1, phases = ["audit"] }
platinum = { warnings = 0, phases = ["audit"] }

[needs]
gpu = "accelerators"
roce = "RDMA ports on Ethernet"
vm = "a virtual machine"
s3 = "object storage"
slurm = "a Slurm cluster"
earlier = "an earlier recording"

[profile.rating]
requires = ["gpu"]

[accelerator.b200]
match = ["NVIDIA B200", "10de:2901"]
lacks = []
source = "data sheet"
nvlinks = 18
tflops = { is = 1000, source = "measured" }
guessed = { is = 100, source = "a guess", provisional = true }

[accelerator.mi355x]
match = ["1002:75a3"]
lacks = ["audit.a.b.value"]
source = "data sheet"
nvlinks = 7
"""


def table(limits: str = "value = { is = 1 }", name: str = CHECK, **changed: object) -> str:
    """Write the table of a check: over GPUs and a design fault, unless ``changed``."""
    keys = {"category": "compute", "tier": "bronze", "over": "gpu", "source": "here"} | changed
    shown = "\n".join(f"{key} = {value!r}" for key, value in keys.items())
    return f"[{name}]\n{shown}\n{limits}\n"


def pool(nodes: str, *more: str) -> str:
    """Write a pool of a site file, its name the nodes."""
    return "\n".join(["[[pool]]", f'name = "{nodes}"', f'nodes = "{nodes}"', *more, ""])


@dataclass(frozen=True)
class Thing:
    """A subject: a GPU with a known name unless said otherwise. ``rated`` is what ``subject.rated`` gives."""

    where: str
    node: str
    models: tuple[str, ...] = B200
    rated: Any = EIGHT


def gpu(node: str, index: int = 0, **more: Any) -> Thing:
    """Name one GPU of a node."""
    return Thing(f"{node}/gpu{index}", node, **more)


@dataclass(frozen=True)
class Node:
    """A node: what it shows that it has (a need that is not named is not there) and how many subjects."""

    name: str
    has: Mapping[str, Fact[bool] | bool] = field(default_factory=lambda: {"gpu": True})
    counts: Mapping[str, Fact[int] | int] = field(default_factory=dict)
    silence: Unread | None = None

    def shows(self, need: str) -> Fact[bool]:
        """Tell whether it shows a need."""
        if self.silence:
            return self.silence
        shown = self.has.get(need, False)
        return Read(shown) if isinstance(shown, bool) else shown

    def sightings(self, _domain: str, _needs: tuple[str, ...]) -> Mapping[str, Fact[int]]:
        """Count the subjects of any domain, by witness."""
        if self.silence:
            return dict.fromkeys(self.counts, self.silence)
        return {name: Read(count) if isinstance(count, int) else count for name, count in self.counts.items()}


def silent(name: str, **more: Any) -> Node:
    """Make a node from which nothing came."""
    return Node(name, silence=Unread("not_found", "no evidence from this node"), **more)


def site_of(tables: str, pools: str = "") -> Site:
    """Read tables and, if there is any, a site file, as of the day of the recording."""
    with tempfile.TemporaryDirectory() as folder:
        tables_read = catalog(Path(folder), HEAD + tables, "")
        if not pools:
            return undeclared(tables_read)
        path = Path(folder, "site.toml")
        path.write_text(f'[cluster]\nname = "here"\n{pools}', encoding="utf-8")
        return load_site(path, tables_read).at(DAY)


def bench(tables: str, *nodes: Node, pools: str = "", profile: str = "acceptance") -> Bench:
    """Set up a bench for nodes of any kind."""
    site = site_of(tables, pools)
    return Bench(site.catalog, site, nodes, Needs(site, nodes), profile)


def judged(on: Bench, seen: Sequence[tuple[Any, Mapping[str, Any]]] = (), check: str = CHECK) -> CheckResult:
    """Observe metrics of subjects and settle the check."""
    observe = Observe()
    for subject, metrics in seen:
        observe(subject, **metrics)
    return settle(on, on.catalog.checks[check], observe)


def values(nodes: Sequence[Node], *found: Any, **more: Any) -> list[tuple[Thing, Mapping[str, Any]]]:
    """Let one GPU of each node in turn have a value; nodes begin anew when they are used up."""
    names = itertools.cycle([node.name for node in nodes])
    return [(gpu(next(names), i // len(nodes), **more), {"value": one}) for i, one in enumerate(found)]


def words(rows: Sequence[Row]) -> list[str]:
    """Name the verdict of each row."""
    return ["not_run" if row.verdict is None else row.verdict.word for row in rows]
