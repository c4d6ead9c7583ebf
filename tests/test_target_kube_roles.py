"""The Role of docs/targets.md: every request of a run is within it, and each grant is used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from gpuassay.target import Job
from gpuassay.target.kube_evidence import ASKS
from gpuassay.target.progress import Tally
from kubeapi import cluster
from kubeapi.rig import Start, clusters, gather, target

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = (Path(__file__).parents[1] / "docs/targets.md").read_text(encoding="utf-8")
SPACE = "acceptance"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start clusters."""
    with clusters(tmp_path) as start:
        yield start


def grants() -> set[tuple[str, str, str]]:
    """Read what is granted: a verb, on a resource with its group, in a namespace or, if empty, everywhere."""
    block = DOCS.partition("<!-- roles -->\n```yaml\n")[2].partition("```")[0]
    roles: list[dict[str, Any]] = list(yaml.safe_load_all(block))
    assert [role["kind"] for role in roles] == ["Role", "ClusterRole"]
    return {
        (verb, "/".join(filter(None, [group, resource])), role["metadata"].get("namespace", ""))
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_a_run_needs_all_of_it_and_no_more(start: Start, tmp_path: Path) -> None:
    """With these grants a run is whole and leaves nothing; each of them is used."""
    server = start(cluster.node("gpu1", 8), cluster.node("gpu2"), dra="v1")
    cluster.slices(server.store, "gpu2", 8)
    metadata = {"name": SPACE, "labels": {"kubernetes.io/metadata.name": SPACE}}
    server.store.put("namespaces", {"metadata": metadata, "status": {"phase": "Active"}})
    used: set[tuple[str, str, str]] = set()
    granted = grants()

    def allows(verb: str, resource: str, place: str) -> bool:
        found = {(verb, resource, place), (verb, resource, "")} & granted
        used.update(found)
        return bool(found)

    server.allows = allows
    told = gather(target(server, tmp_path, namespace=SPACE))
    job = Job("hello", ("true",), ("gpu1",))
    ran = target(server, tmp_path, namespace=SPACE).run(job, Tally(1, lambda _line: None))
    assert ran["gpu1", 0].status == "ok"
    assert told.whole("gpu1")
    assert told.whole("gpu2")
    refused = {name for name, item in told.cluster.items() if item.status != "ok"}
    assert refused == {"kubernetes/kubelets"}  # it takes nodes/proxy, which an administrator has
    assert server.store.ours() == []
    assert used == granted


def test_what_is_kept_is_documented() -> None:
    """Every list that is asked for is named in the table of what is written down."""
    assert [ask.id for ask in ASKS if f"`{ask.id}`" not in DOCS] == []
