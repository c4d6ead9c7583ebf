"""What follows from Slurm's configuration, in the words of several versions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts_evidence import absent, evidence, unread, value
from gpuassay.evidence.item import Item
from gpuassay.facts.node import Node
from gpuassay.facts.slurm_cluster import SlurmCluster
from gpuassay.facts.slurm_health import tools_in
from gpuassay.judge.fact import Read, Unread

SAMPLES = Path(os.environ.get("GPUASSAY_SAMPLES", Path(__file__).parents[2] / "shared")) / "captures/slurm"
PRODUCTS = ("b200", "gb200", "h200", "h100", "h100_nvl")


def slurm(*nodes: Node, out: tuple[str, ...] = (), **items: Any) -> SlurmCluster:
    """Give what Slurm said, by the last word of each item's id."""
    told = {f"slurm/{name.replace('_', '-')}": content for name, content in items.items()}
    return SlurmCluster(evidence(told), nodes, out, PRODUCTS)


def config(**settings: str) -> SlurmCluster:
    """Give a Slurm with these settings."""
    return slurm(config="".join(f"{key:<23} = {setting}\n" for key, setting in settings.items()))


def test_gpus_are_isolated_by_cgroups_alone() -> None:
    """Both the plugin and ConstrainDevices are needed; a ConstrainDevices that is not told is no yes."""
    both = config(TaskPlugin="task/cgroup,task/affinity", ConstrainDevices="yes")
    assert value(both.isolates_gpus) is True
    assert value(config(TaskPlugin="task/cgroup", ConstrainDevices="no").isolates_gpus) is False
    assert value(config(TaskPlugin="task/affinity", ConstrainDevices="yes").isolates_gpus) is False
    assert unread(config(TaskPlugin="task/cgroup").isolates_gpus).kind == "not_found"
    assert unread(slurm().isolates_gpus).kind == "not_asked"


@pytest.mark.parametrize(
    ("plugin", "known"),
    [
        ("topology/tree", True),
        ("topology/block", True),
        ("topology/flat", False),
        ("topology/none", False),
        ("topology/default", False),
        ("(null)", False),
    ],
)
def test_a_plugin_that_knows_no_network_is_no_topology(plugin: str, known: bool) -> None:  # noqa: FBT001
    """The default of each age has a name that is not empty, and knows nothing."""
    assert value(config(TopologyPlugin=plugin).topology.known) is known


TREE = """\
SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=gpu[001-002]
SwitchName=spine Level=1 LinkSpeed=1 Nodes=gpu[001-003] Switches=leaf1
"""


def test_a_node_below_a_spine_alone_is_in_no_leaf() -> None:
    """Only a switch at level 0 has nodes of its own; the others repeat those below them."""
    nodes = "\n".join(f"NodeName=gpu00{n}\n   State=IDLE\n" for n in (1, 2, 3))
    fleet = [Node(f"gpu00{n}", evidence({"uptime": "1 1"})) for n in (1, 2, 3)]
    found = slurm(*fleet, nodes=nodes, config="TopologyPlugin = topology/tree\n", topology=TREE)

    assert found.topology.unplaced == Read(1, "nodes/n1#3", "of no leaf: gpu003")


@pytest.mark.parametrize(("gres", "unplaced"), [("(null)", 0), ("gpu:8", 1)])
def test_a_node_without_gpus_needs_no_leaf(gres: str, unplaced: int) -> None:
    """Jobs of many GPUs never go to it; one that has only lost them is missed."""
    shown = f"NodeName=gpu003\n   State=IDLE\n   Gres={gres}\n"
    login = Node("gpu003", evidence({"uptime": "1 1", "pci": {}}))
    found = slurm(login, nodes=shown, config="TopologyPlugin = topology/tree\n", topology=TREE)

    assert value(found.topology.unplaced) == unplaced


def test_an_empty_topology_is_unread() -> None:
    """In 22.05 scontrol ends well although it reached nobody: nothing printed is not a flat network."""
    found = slurm(config="TopologyPlugin = topology/tree\n", topology="")

    assert unread(found.topology.unplaced).kind == "garbled"


@pytest.mark.parametrize("name", ["topology_tree_3level.conf", "topology_block_nvl.conf"])
def test_published_topologies_are_read(name: str) -> None:
    """A tree of three levels and the blocks of racks, as sites have published them."""
    if not (SAMPLES / name).is_file():
        pytest.skip(f"the samples are not here: {name}")
    shown = (SAMPLES / name).read_text(encoding="utf-8").replace("Nodes=", "Level=0 Nodes=")
    found = slurm(config="TopologyPlugin = topology/tree\n", topology=shown)

    assert value(found.topology.by_blocks) is ("block" in name)
    assert value(found.topology.unplaced) == 0


def test_a_published_configuration_is_read() -> None:
    """The configuration of a real cluster of 2023, which has no health check."""
    file = SAMPLES / "scontrol-show-config_2023.txt"
    if not file.is_file():
        pytest.skip("the samples are not here: scontrol-show-config_2023.txt")
    found = slurm(config=file.read_text(encoding="utf-8"))

    assert value(found.accounting) == "accounting_storage/slurmdbd"
    assert value(found.accounts_gpus) is True
    assert value(found.health.program) is False
    assert value(found.health.interval_s) == 0
    assert value(found.health.looks_at_gpus) is False
    assert value(found.health.after_jobs) is True
    assert value(found.default_memory) is True
    assert value(found.requeues) is True


@pytest.mark.parametrize(
    ("out", "err", "pmix"),
    [
        ("MPI plugin types are...\n\tnone\n\tpmix\nspecific pmix plugin versions available: v4\n", "", True),
        ("", "srun: MPI types are...\nsrun: none\nsrun: pmix_v3\n", True),
        ("MPI plugin types are...\n\tnone\n\tpmi2\n", "", False),
    ],
)
def test_mpi_is_listed_on_either_output(out: str, err: str, pmix: bool) -> None:  # noqa: FBT001
    """Up to 21.08 the list went to the standard error."""
    assert value(slurm(mpi=Item("", 0, out=out.encode(), err=err)).pmix) is pmix


def test_controllers_are_told_apart_where_one_is_down() -> None:
    """The status of scontrol is 1 then, and what it printed counts."""
    told = "Slurmctld(primary) at ctl1 is UP\nSlurmctld(backup1) at ctl2 is DOWN\n"
    found = slurm(controllers=Item("", 0, "failed", exit=1, out=told.encode()))

    assert value(found.controllers_down) == 1
    assert value(found.backups) == 1
    assert unread(slurm(controllers="").controllers_down).kind == "garbled"


@pytest.mark.parametrize("cut", [{"status": "timed_out"}, {"truncated": True}])
def test_a_controller_that_was_not_told_of_is_not_up(cut: dict[str, Any]) -> None:
    """A ping that hangs on the backup has said only that the first one is up; a strange line still counts."""
    first = b"Slurmctld(primary) at ctl1 is UP\n"
    assert isinstance(slurm(controllers=Item("", 0, out=first, **cut)).controllers_down, Unread)

    strange = slurm(controllers=Item("", 0, out=first + b"Slurmctld(backup) at  is DOWN\n"))
    assert unread(strange.controllers_down).kind == "garbled"


def test_an_error_of_srun_names_no_kind_of_mpi() -> None:
    """It may end with the word that is looked for."""
    failed = Item("", 0, err="srun: error: cannot find mpi plugin: pmix\n")
    assert unread(slurm(mpi=failed).pmix).kind == "garbled"


@pytest.mark.parametrize(
    ("kind", "product", "other"),
    [
        ("h200", "h200", False),
        ("nvidia_h200", "b200", True),
        ("h200", "b200", True),
        ("b200", "gb200", True),
        ("ampere", "h100", False),
        ("h100", "h100_nvl", False),
        ("", "h100", False),
    ],
)
def test_a_type_is_wrong_if_it_names_another_product(kind: str, product: str, other: bool) -> None:  # noqa: FBT001
    """Any other word may be the site's own."""
    bus = {"0000:01:00.0": {"vendor": "0x10de", "device": "0x2901", "class": "0x030200"}}
    node = Node("gpu001", evidence({"pci": bus}), product_of=lambda _: Read(product))
    typed = f"gpu:{kind}:1" if kind else "gpu:1"
    found = slurm(node, nodes=f"NodeName=gpu001\n   Gres={typed}\n   State=IDLE\n")

    assert [value(one.other_product) for one in found.nodes] == [other]


REASONS = """\
NodeName=gpu001
   State=IDLE+DRAIN
   Reason=- [root@2026-11-30T20:16:00]

NodeName=gpu002
   State=DOWN+DRAIN
   Reason=Kill task failed [root@2026-11-30T20:16:00]

NodeName=gpu003
   State=IDLE+DRAIN+INVALID_REG
   Reason=gres/gpu count reported lower than configured (7 < 8) [slurm@2026-11-30T20:16:00]

NodeName=gpu004
   State=IDLE+DRAIN
   Reason=NHC: check_nvsmi_healthmon returned 127 [root@2026-11-30T20:16:00]

NodeName=other
   State=IDLE+DRAIN
"""


def test_reasons_are_those_of_the_nodes_that_are_ours() -> None:
    """Each kind is counted once, and a node of somebody else's is not counted at all."""
    found = slurm(out=("gpu001", "gpu002", "gpu003", "gpu004"), nodes=REASONS).reasons

    assert [value(fact) for fact in (found.wordless, found.unkillable)] == [1, 1]
    assert [value(fact) for fact in (found.not_as_configured, found.tool_missing)] == [1, 1]
    assert unread(slurm(out=("other1",), nodes=REASONS).reasons.wordless).kind == "not_found"


def test_tools_are_named_whole_and_not_in_comments() -> None:
    """What is commented out is not run; NHC joins words by underscores."""
    assert tools_in("# dcgmi\nnvidia-smi -q\n || check_nvsmi_healthmon\n") == ["nvidia-smi", "nvsmi"]
    assert tools_in("ordcgmibus\n") == []


FACTS = [name for name, made in vars(SlurmCluster).items() if isinstance(made, property)]


@given(noise=st.binary(max_size=200))
def test_any_bytes_give_facts_or_reasons(noise: bytes) -> None:
    """No answer of Slurm's, however broken, is an exception, and noise isolates no GPU."""
    asked = ("nodes", "config", "topology", "controllers", "mpi", "srun", "tres")
    told = evidence({f"slurm/{name}": noise for name in asked})
    found = SlurmCluster(told, (), (), PRODUCTS)

    for name in FACTS:
        assert isinstance(getattr(found, name), (Read, Unread))
    assert isinstance(found.isolates_gpus, Unread)
    assert isinstance(found.health.looks_at_gpus, Unread)
    assert isinstance(found.topology.unplaced, Unread)
    assert isinstance(found.database_answers, Unread)


def test_a_database_that_refuses_is_told_from_a_tool_that_is_not_here() -> None:
    """A failure is the database's word; without sacctmgr nobody was asked."""
    refused = slurm(tres=absent("failed", "Connection refused"))
    missing = slurm(tres=absent("not_found", "sacctmgr: No such file"))

    assert value(refused.database_answers) is False
    assert unread(missing.database_answers).kind == "denied"
