"""The checks of this suite and their tables: that they fit, keep to their form, and name their sources."""

from __future__ import annotations

import ast
import re
import tomllib
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.facts import Cluster, Gpu, Nic, Node, Port, RackPool
from gpuassay.facts.kube_access import KubeAct
from gpuassay.facts.kube_cluster import KubeCluster
from gpuassay.facts.kube_parts import KubeService, KubeWorkload
from gpuassay.facts.kube_policies import Policies
from gpuassay.facts.kube_workers import KubeWorker
from gpuassay.facts.mounts import Volume
from gpuassay.facts.seats import Agreement
from gpuassay.facts.slurm_cluster import SlurmCluster
from gpuassay.facts.slurm_node import OnSlurm
from gpuassay.facts.volumes import AllShared, DeclaredVolume, ObjectStore
from gpuassay.judge.catalog import TIERS, load_catalog
from gpuassay.judge.verdict import Verdict
from gpuassay.judge.versions import SCHEMES
from gpuassay.suite import PHASES, check_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuassay.judge.fact import Scalar

ROOT = Path(__file__).parents[1]
TABLES = tomllib.loads((ROOT / "thresholds.toml").read_text(encoding="utf-8"))
CATALOG = load_catalog(ROOT / "thresholds.toml", ROOT / "advisories.toml")
GUIDE = (ROOT / "docs" / "thresholds.md").read_text(encoding="utf-8")


KUBERNETES = (KubeCluster, KubeWorker, KubeWorkload, KubeService, KubeAct, Policies)
# What a check may observe as each domain: a thing itself, all of a kind, or what a scheduler has of it.
SUBJECTS: dict[str, tuple[type, ...]] = {
    "volume": (DeclaredVolume, Volume, AllShared, ObjectStore),
    "node": (Node, OnSlurm),
    "gpu": (Gpu,),
    "port": (Port,),
    "nic": (Nic,),
    "cluster": (Agreement, RackPool, Cluster, SlurmCluster, *KUBERNETES),
}


def checks() -> dict[str, ast.FunctionDef]:
    """Read the checks from their sources, by id."""
    found = {}
    for source in sorted(source for folder in PHASES for source in (ROOT / folder).glob("*.py")):
        for node in ast.parse(source.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef):
                found[check_id(ROOT, source, node.name) or ""] = node
    return found


CHECKS = checks()
OF_CLUSTER = dict.fromkeys(("pool", "endpoint", "reboot", "service", "storm", "trial", "whole"), "cluster")
"""What is one of a few things of the cluster as a whole, and is called by its own name."""
each_check = pytest.mark.parametrize("check", CHECKS)


def code(check: str) -> list[ast.AST]:
    """Give every node of a check's body but its docstring."""
    return [inner for statement in CHECKS[check].body[1:] for inner in ast.walk(statement)]


def observed(check: str) -> dict[str, ast.expr]:
    """Give the metrics that a check observes, with what it observes for each."""
    calls = [node for node in code(check) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    words = {word.arg: word.value for call in calls for word in call.keywords if word.arg}
    return {word: value for word, value in words.items() if word != "at"}  # a coordinate, no metric


def test_every_check_has_a_table_and_every_table_a_check() -> None:
    """The ids are the paths, in both directions."""
    tables = {
        f"{phase}.{area}.{name}"
        for phase in PHASES.values()
        for area, names in TABLES.get(phase, {}).items()
        for name in names
    }

    assert tables == set(CHECKS) == set(CATALOG.checks)


@each_check
def test_a_check_observes_exactly_what_its_table_limits(check: str) -> None:
    """A metric without a limit is an error, and a limit without its metric never judges anything."""
    assert set(observed(check)) == set(CATALOG.checks[check].limits)


@each_check
def test_a_check_observes_its_domain_through_facts_that_exist(check: str) -> None:
    """The loop goes over what the table calls ``over``, and every attribute is one of the subject's facts."""
    loop = CHECKS[check].body[1]
    assert isinstance(loop, ast.For)
    assert isinstance(loop.target, ast.Name)
    if isinstance(loop.iter, ast.Call):  # what a measurement gives is its tool's, not the fleet's
        assert ast.unparse(loop.iter) in {f"measure({name!r})" for name in CATALOG.measurements}
        loops = {ast.unparse(node.target) for node in code(check) if isinstance(node, ast.For)}
        assert CATALOG.checks[check].over in {*loops, *(OF_CLUSTER[one] for one in loops & OF_CLUSTER.keys())}
        return
    assert loop.target.id == CATALOG.checks[check].over
    for node in code(check):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in SUBJECTS:
            assert any(hasattr(one, node.attr) for one in SUBJECTS[node.value.id]), node.attr
    for limit in CATALOG.checks[check].limits.values():
        if limit.of is not None and limit.of.root == "subject":
            assert any(hasattr(one, limit.of.name) for one in SUBJECTS[loop.target.id]), limit.of.name


@each_check
def test_a_check_compares_nothing_and_decides_nothing(check: str) -> None:
    """Only loops, names and observations: no number, no condition, no vendor, no way to excuse itself."""
    function = CHECKS[check]
    allowed = (
        ast.For,
        ast.Assign,
        ast.Expr,
        ast.Call,
        ast.keyword,
        ast.Attribute,
        ast.Name,
        ast.expr_context,
    )
    asked = {id(node.args[0]) for node in code(check) if isinstance(node, ast.Call) and node.args}
    named = [node for node in code(check) if isinstance(node, ast.Constant) and id(node) in asked]
    others = [node for node in code(check) if not isinstance(node, allowed) and node not in named]
    assert [type(node).__name__ for node in others] == []
    assert {node.value for node in named} <= set(CATALOG.measurements)
    assert not function.decorator_list
    asked_for = [argument.arg for argument in function.args.args]
    assert asked_for in (["fleet", "observe"], ["measure", "observe"], ["fleet", "measure", "observe"])
    names = {node.id for node in code(check) if isinstance(node, ast.Name)}
    assert not [name for name in names if re.search("nvidia|amd|mellanox|intel|pytest", name)]
    assert function.end_lineno is not None
    assert function.end_lineno - function.lineno < 25


@each_check
def test_a_docstring_is_a_title_a_reason_and_a_fix(check: str) -> None:
    """These texts stand in reports that people sign: a line that says what holds, then why, then a remedy."""
    title, why, fix = (ast.get_docstring(CHECKS[check]) or "").split("\n\n")

    assert title.endswith(".")
    assert "\n" not in title
    assert len(why) > 100
    assert fix.startswith("Fix: ")
    assert fix.endswith(".")


def test_an_audit_alone_wins_no_more_than_a_ribbon() -> None:
    """Every tier above the ribbon rests on a phase in which machines are loaded."""
    phases = {tier: CATALOG.tiers[tier].phases for tier in TIERS}

    assert phases.pop("ribbon") == ("audit",)
    assert all("perf" in names for names in phases.values())
    assert [CATALOG.tiers[tier].warnings for tier in TIERS] == [8, 6, 4, 2, 0]


def test_no_two_products_share_a_name() -> None:
    """A name or PCI id belongs to one table; a part of a name is no name."""
    products = CATALOG.accelerators.values()

    assert all(set(one.match).isdisjoint(other.match) for one, other in combinations(products, 2))
    for model, name in [("NVIDIA GH200 480GB", "gh200"), ("NVIDIA H200", "h200"), ("1002:75a3", "mi355x")]:
        product = CATALOG.accelerator_of((model,))
        assert product is not None
        assert product.name == name
    assert CATALOG.accelerator_of(("NVIDIA B999", "10de:2fff")) is None


def test_what_a_product_lacks_is_a_check_or_a_metric() -> None:
    """An excuse must name what it excuses."""
    known = {
        *CHECKS,
        *(f"{check.id}.{metric}" for check in CATALOG.checks.values() for metric in check.limits),
    }

    assert all(product.lacks <= known for product in CATALOG.accelerators.values())


@pytest.mark.parametrize(
    ("check", "metric", "value", "verdict"),
    [
        ("audit.versions.driver_floor", "version", "580.159.03", Verdict.PASS),
        ("audit.versions.driver_floor", "version", "580.159.04", Verdict.PASS),
        ("audit.versions.driver_floor", "version", "580.126.09", Verdict.FAIL),
        ("audit.versions.driver_floor", "version", "535.288.01", Verdict.FAIL),
        ("audit.versions.driver_floor", "version", "570.211.01", Verdict.PASS),
        ("audit.versions.driver_floor", "version", "570.195.03", Verdict.FAIL),
        ("audit.versions.driver_floor", "version", "590.48.01", Verdict.PASS),
        ("audit.versions.driver_floor", "version", "595.71.05", Verdict.PASS),
        ("audit.versions.driver_floor", "version", "470.256.02", Verdict.FAIL),
        ("audit.versions.driver_floor", "version", "550.163.01", Verdict.FAIL),
        ("audit.versions.driver_floor", "version", "575.64.03", Verdict.FAIL),
        ("audit.versions.driver_floor", "version", "610.43.02", Verdict.WARN),
        ("audit.versions.driver_floor", "version", "999.1", Verdict.WARN),
        ("audit.versions.driver_floor", "version", "N/A", Verdict.ERROR),
        ("audit.versions.amdgpu_floor", "version", "6.16.13", Verdict.FAIL),
        ("audit.versions.amdgpu_floor", "version", "6.12.12", Verdict.FAIL),
        ("audit.versions.amdgpu_floor", "version", "6.19.14.31400000", Verdict.PASS),
        ("audit.versions.amdgpu_floor", "version", "6.19.14.31400100", Verdict.PASS),
        ("audit.health.xid_history", "window_hours", 72.0, Verdict.PASS),
        ("audit.health.xid_history", "window_hours", 71.99, Verdict.WARN),
        ("audit.health.xid_history", "serious_xids", 1, Verdict.FAIL),
        ("audit.health.xid_history", "application_xids", 3, Verdict.WARN),
        ("audit.network.gid_routability", "nccl_choice", "ipv4 v2", Verdict.PASS),
        ("audit.network.gid_routability", "nccl_choice", "link-local v1", Verdict.WARN),
        ("audit.network.gid_routability", "routable", 0, Verdict.FAIL),
        ("audit.host.memlock", "locked_memory", "unlimited", Verdict.PASS),
        ("audit.host.memlock", "locked_memory", "8 MiB", Verdict.FAIL),
        ("audit.host.time_sync", "max_error", 1024.0, Verdict.PASS),
        ("audit.host.time_sync", "max_error", 16000.0, Verdict.WARN),
        ("audit.health.row_remaps", "banks_exhausted", 2, Verdict.WARN),
    ],
)
def test_known_values_get_the_verdict_that_is_meant(
    check: str, metric: str, value: Scalar, verdict: Verdict
) -> None:
    """Values from real machines and published tables, on either side of each limit."""
    assert CATALOG.checks[check].limits[metric].grade(value).verdict is verdict


def test_every_floor_has_the_fixes_of_every_advisory() -> None:
    """The two tables agree: no floor is affected, and each advisory's range ends at or below its floor."""
    table = TABLES["audit"]["versions"]["driver_floor"]["version"]
    order = SCHEMES[table["as"]]

    drivers = {one.id for one in CATALOG.advisories.values() if one.affected and one.id.startswith("nvidia")}
    assert set(table["not_affected_by"]) == drivers
    for advisory in (CATALOG.advisories[name] for name in table["not_affected_by"]):
        assert all(advisory.first_fixed(floor) is None for floor in table["per_line"].values())
        for first, before in advisory.affected:
            assert first is not None
            assert not order(table["per_line"][first]) < order(before)


def values(data: Any) -> Iterator[str]:
    """Give every number and version in a table as it is written, at any depth."""
    if isinstance(data, dict):
        for inner in data.values():
            yield from values(inner)
    elif isinstance(data, list):
        for inner in data:
            yield from values(inner)
    elif not isinstance(data, bool) and re.fullmatch(r"[0-9.-]+", str(data)):
        yield str(data)


def figures() -> Iterator[str]:
    """Give every figure of a product that a performance check refers to."""
    checks = (check for check in CATALOG.checks.values() if check.phase == "perf")
    references = [limit.of for check in checks for limit in check.limits.values() if limit.of]
    names = {reference.name for reference in references if reference.root == "accelerator"}
    for product in CATALOG.accelerators.values():
        yield from (str(product.figures[name].value) for name in names if name in product.figures)


def test_the_guide_has_every_number_name_and_source() -> None:
    """docs/thresholds.md names every check, metric, product, advisory, version and number in the tables."""
    advisories = tomllib.loads((ROOT / "advisories.toml").read_text(encoding="utf-8"))["advisory"]
    words = {*CHECKS, *TABLES["accelerator"], *advisories}
    words |= {metric for check in CATALOG.checks.values() for metric in check.limits}
    words |= {model for product in CATALOG.accelerators.values() for model in product.match}
    words |= {*values([TABLES["audit"], TABLES["perf"], TABLES["reliability"]])}
    words |= {*values([one["affected"] for one in advisories.values()])}
    words |= {*figures()}
    words |= {str(advisory.date) for advisory in CATALOG.advisories.values()}

    missing = {word for word in words if not re.search(rf"(?<![\w.]){re.escape(word)}(?![\w]|\.\d)", GUIDE)}
    assert missing - {"535", "570", "580", "590", "595"} == set()  # the branches, there as R535 and so on


@each_check
def test_a_tier_needs_no_check_of_a_phase_on_which_it_does_not_rest(check: str) -> None:
    """A ribbon is won by the audit alone: a measurement that it needed would keep everybody from it."""
    table = CATALOG.checks[check]
    assert table.phase in CATALOG.tiers[table.tier].phases
