"""What a node lacks that serves in place of another: by kind, whatever its serial numbers and addresses."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuassay.evidence.recording import read_recording
from gpuassay.facts import Node, fleet
from gpuassay.facts.spare import lacking
from gpuassay.judge.catalog import load_catalog
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.site import load_site
from recorded.build import build

if TYPE_CHECKING:
    from gpuassay.judge.fact import Fact
    from gpuassay.judge.services import Mount

ROOT = Path(__file__).parents[1]
WHOLE = "hgx-b200-4"


@cache
def nodes(cluster: str) -> tuple[dict[str, Node], tuple[Mount, ...]]:
    """Give the nodes of a recorded cluster by name, and the file systems that are declared."""
    folder = build(cluster)
    site = load_site(folder / "site.toml", load_catalog(ROOT / "thresholds.toml", ROOT / "advisories.toml"))
    return {node.name: node for node in fleet(read_recording(folder), site).nodes}, site.services.mounts


def lacks(cluster: str, name: str, then: str = "gpu001") -> Fact[int]:
    """Compare a node of a cluster with one of the whole cluster, in whose place it serves."""
    whole, mounts = nodes(WHOLE)
    return lacking(whole[then], nodes(cluster)[0][name], mounts)


def test_a_whole_node_lacks_nothing_of_another() -> None:
    """Its serial numbers, GUIDs and disks are its own, and nobody takes that for a loss."""
    found = lacks(WHOLE, "gpu004")
    assert isinstance(found, Read)
    assert found.value == 0
    assert found.note == "it has all that gpu001 had: 8 GPUs, 10 network cards, 8 ports"


@pytest.mark.parametrize(
    ("cluster", "name", "says"),
    [
        (
            "gpu-missing",
            "gpu003",
            "7 of 8 GPUs that are of use (b200 with 179 GiB); 126 of 144 NVLinks are up",
        ),
        ("gpu-lost", "gpu003", "7 of 8 GPUs that are of use (b200 with 179 GiB); 126 of 144 NVLinks are up"),
        ("gpu-memory-lost", "gpu003", "7 of 8 GPUs that are of use (b200 with 179 GiB)"),
        ("another-product-on-one-node", "gpu003", "0 of 8 GPUs that are of use (b200 with 179 GiB)"),
        ("nic-of-another-make", "gpu003", "7 of 8 network cards (MT_0000000838)"),
        ("roce-port-missing", "gpu003", "7 of 8 network cards (MT_0000000838); 7 of 8 ports carry traffic"),
        ("roce-port-slow-undeclared", "gpu002", "8 of 8 ports carry traffic, the slowest at 200 Gb/s"),
        ("nvlink-gpu-all-links-down", "gpu003", "126 of 144 NVLinks are up"),
        ("home-missing-on-one-node", "gpu003", "/home is not mounted"),
        ("home-hangs-on-one-node", "gpu002", "/home does not answer: no answer within 5 s"),
    ],
)
def test_what_is_less_is_named(cluster: str, name: str, says: str) -> None:
    """Each part by its kind, with how many there are of how many."""
    found = lacks(cluster, name)
    assert isinstance(found, Read)
    assert found.value == says.count(";") + 1
    assert found.note == says


def test_a_file_system_from_another_address_of_its_storage_is_there() -> None:
    """Storage gives each node one of many addresses."""
    assert lacks("home-of-another-server", "gpu004") == lacks(WHOLE, "gpu004")


def test_gpus_that_share_the_memory_of_the_system_are_told_by_their_product() -> None:
    """They have no memory of their own to count, before or after."""
    alike, mounts = nodes("gpu-memory-unified")
    odd = next(
        node for node in alike.values() if any(isinstance(gpu.memory_mib, Unread) for gpu in node.gpus)
    )
    found = lacking(odd, odd, mounts)
    assert isinstance(found, Read)
    assert found.value == 0


@pytest.mark.parametrize(("cluster", "name"), [("cut-in-half", "gpu002"), ("nothing-answered", "gpu002")])
def test_what_could_not_be_read_accuses_nobody(cluster: str, name: str) -> None:
    """Half an answer is no loss; nothing is known."""
    assert isinstance(lacks(cluster, name), Unread)
