"""A Slurm of 64 nodes with planted facts: each is found where it is, and nothing else is said to be wrong.

The plan is that of a public audit tool's trial, which looked at one node of 64 and found two of them. What is
no fault was taken for one there: a health check of the operator's own, exporters on the nodes alone, and a
Docker that this user may not ask.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from recorded import describe
from recorded.build import cached
from recorded.judge import judge
from recorded.overlay import parse

if TYPE_CHECKING:
    from recorded.judge import Judged

NODES = "gpu[0001-0064]"


def config(key: str, now: str, then: str) -> dict[str, str]:
    """Change a setting of Slurm's."""
    return {"item": "slurm/config", "find": f"{key:<23} = {now}", "replace": f"{key:<23} = {then}"}


NO_FAULTS: list[dict[str, Any]] = [
    config("HealthCheckProgram", "/etc/slurm/health.sh", "/opt/site/bin/node-doctor"),
    {"item": "slurm/health-check", "set": "tools", "to": ["amd-smi", "dcgmi"]},
    {"item": "equipment", "set": "docker_socket.open", "to": False},
]
FAULTS: list[dict[str, Any]] = [
    {"node": "gpu[0002-0064]", "find": "580.159.03", "replace": "580.126.09"},
    {
        "node": "gpu0002",
        "item": "kmsg",
        "append": "4,16,251204118733,-;NVRM: Xid (PCI:0000:4a:00): 79, GPU has fallen off the bus.\n"
        "4,17,251204118790,-;NVRM: Xid (PCI:0000:3a:00): 48, An uncorrectable double bit error",
    },
    config("AccountingStorageType", "accounting_storage/slurmdbd", "accounting_storage/none"),
    {
        "item": "slurm/tres",
        "status": "failed",
        "why": "You are not running a supported accounting_storage plugin",
    },
    {"item": "survey/slurm_job/sacct", "status": "failed", "why": "Slurm accounting storage is disabled"},
    config("TopologyPlugin", "topology/tree", "topology/flat"),
    {
        "item": "slurm/nodes",
        "find": "NodeName=gpu0033 Arch=x86_64 CoresPerSocket=56\n",
        "replace": "NodeName=gpu0033 Arch=x86_64\n   Gres=gpu:b200:7(S:0-1)\n",
    },
]
# What each planted fact has to be found by, and with which words.
FOUND = {
    "audit.versions.driver_floor": ("fail", r"gpu0002.*580\.126\.09.*\(and 62 more\)"),
    "audit.versions.driver_equal": ("fail", r"gpu0001.*580\.159\.03"),
    "audit.health.xid_history": ("fail", r"gpu0002.*(79.*48|48.*79)"),
    "audit.slurm.accounting": ("fail", r"accounting_storage/none"),
    "audit.slurm.job": ("fail", r"sacct says nothing"),
    "audit.slurm.topology": ("warn", r"topology/flat"),
    # Eight nodes are below each leaf, and NCCL has one queue pair to a connection.
    "audit.slurm.queue_pairs": ("warn", r"gpu0001.*NCCL_IB_QPS_PER_CONNECTION is not set"),
    "audit.slurm.gres": ("fail", r"gpu0033.*expected 8"),
}


@pytest.fixture(scope="module")
def judged() -> Judged:
    """Give what the suite finds."""
    base = describe("slurm-b200-4")
    overlays = tuple(parse(overlay) for overlay in (*NO_FAULTS, *FAULTS))
    site = base.site.replace(base.nodes, NODES)
    return judge(cached(replace(base, name="slurm-b200-64", nodes=NODES, site=site, overlays=overlays)))


def test_every_planted_fact_is_found_where_it_is(judged: Judged) -> None:
    """On all nodes that have it, and not on one that was sampled."""
    found = {check: (judged.verdicts[check], judged.message(check)) for check in FOUND}

    assert {check: verdict for check, (verdict, _) in found.items()} == {c: v for c, (v, _) in FOUND.items()}
    assert [c for c, (_, words) in FOUND.items() if not re.search(words, found[c][1], re.DOTALL)] == []


def test_nothing_else_is_said_to_be_wrong(judged: Judged) -> None:
    """Every other check gives what it gives on the healthy cluster."""
    expected = describe("slurm-b200-4").expected
    others = {check: verdict for check, verdict in judged.verdicts.items() if check not in FOUND}

    assert others == {check: verdict for check, verdict in expected.items() if check not in FOUND}


def test_each_of_the_64_nodes_was_looked_at(judged: Judged) -> None:
    """The report counts them: 64 answered, and the driver of each was read."""
    assert judged.results["coverage"]["nodes"] == {"declared": 64, "answered": 64, "out": 0}
    assert judged.results["checks"]["audit.versions.driver_floor"]["counts"]["fail"] == 63
