"""What Slurm says, in the forms of its versions: states, reasons, resources, partitions, jobs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts_evidence import absent, evidence, unread, value
from gpuassay.facts.gres import Gres, gpus, read_gres
from gpuassay.facts.slurm import Slurm, allocated_gpus, out_of_service, read_time
from gpuassay.facts.slurm_state import Standing, read_state
from gpuassay.judge.fact import Read

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.facts.slurm import SlurmNode

SAMPLES = Path(os.environ.get("GPUASSAY_SAMPLES", Path(__file__).parents[2] / "shared")) / "captures/slurm"

FOUND = ("gpu001", "gpu001.example.com", "worker-1", "worker-1.example.com", "192.0.2.1")
SHOWN = """\
NodeName=gpu001 Arch=x86_64 CoresPerSocket=56
   CPUAlloc=0 CPUEfctv=224 CPUTot=224 CPULoad=0.51
   AvailableFeatures=(null)
   Gres=gpu:b200:8(S:0-1)
   GresUsed=gpu:b200:0(IDX:N/A)
   NodeAddr=192.0.2.1 NodeHostName=worker-1 Port=6818 Version=22.05.8
   OS=Linux 6.8.0-60-generic State=DOWN #1 SMP
   RealMemory=2048 AllocMem=0 FreeMem=22568 Sockets=1 Boards=1
   State=IDLE+DRAIN ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=batch,all
   BootTime=2026-11-30T20:00:01 SlurmdStartTime=2026-11-30T20:15:57
   CfgTRES=cpu=8,mem=2G,billing=8
   AllocTRES=
   Reason=bad GPU State=IDLE, see ticket [root@2026-11-30T20:16:00]

NodeName=gpu002 CoresPerSocket=56
   Gres=(null)
   NodeAddr=192.0.2.2 NodeHostName=worker-2
   State=DOWN* ThreadsPerCore=1
   Reason=Not responding [slurm@2026-11-30T20:16:00]
"""

PARTITIONS = """\
PartitionName=batch
   AllowGroups=ALL Default=YES Hidden=NO
   MaxNodes=UNLIMITED MaxTime=7-00:00:00 MinNodes=0
   PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO
   State=UP TotalCPUs=32

PartitionName=all
   MaxTime=UNLIMITED RootOnly=YES OverSubscribe=EXCLUSIVE
   State=DRAIN
"""


def slurm(**items: Any) -> Slurm:
    """Give what Slurm said, by the last word of each item's id."""
    return Slurm(evidence({f"slurm/{name}": content for name, content in items.items()}))


def nodes(shown: object) -> Mapping[str, SlurmNode]:
    """Read nodes."""
    found: Mapping[str, SlurmNode] = value(slurm(nodes=shown).nodes)
    return found


@pytest.mark.parametrize(
    ("text", "words", "standing"),
    [
        ("IDLE", "IDLE", Standing.FREE),
        ("idle", "IDLE", Standing.FREE),
        ("PLANNED", "IDLE+PLANNED", Standing.FREE),
        ("plnd", "IDLE+PLANNED", Standing.FREE),
        ("idle-", "IDLE+PLANNED", Standing.FREE),
        ("IDLE+CLOUD", "IDLE+CLOUD", Standing.FREE),
        ("IDLE+DYNAMIC_NORM", "IDLE+DYNAMIC_NORM", Standing.FREE),
        ("comp", "IDLE+COMPLETING", Standing.FREE),
        ("MIXED", "MIXED", Standing.BUSY),
        ("mix", "MIXED", Standing.BUSY),
        ("ALLOCATED+COMPLETING", "ALLOCATED+COMPLETING", Standing.BUSY),
        ("alloc@", "ALLOCATED+REBOOT_REQUESTED", Standing.BUSY),
        ("MIXED+REBOOT_REQUESTED", "MIXED+REBOOT_REQUESTED", Standing.BUSY),
        ("npc", "IDLE+PERFCTRS", Standing.BUSY),
        ("IDLE+DRAIN", "IDLE+DRAIN", Standing.OUT),
        ("drained*", "IDLE+DRAIN+NOT_RESPONDING", Standing.OUT),
        ("drng", "ALLOCATED+DRAIN", Standing.OUT),
        ("IDLE+DRAIN+REBOOT_REQUESTED", "IDLE+DRAIN+REBOOT_REQUESTED", Standing.OUT),
        ("IDLE*+DRAIN", "IDLE+NOT_RESPONDING+DRAIN", Standing.OUT),
        ("DOWN+DRAIN", "DOWN+DRAIN", Standing.OUT),
        ("fail", "IDLE+FAIL", Standing.OUT),
        ("failg", "ALLOCATED+FAIL", Standing.OUT),
        ("inval", "IDLE+INVALID_REG", Standing.GONE),
        ("DOWN*", "DOWN+NOT_RESPONDING", Standing.GONE),
        ("IDLE*", "IDLE+NOT_RESPONDING", Standing.GONE),
        ("unk", "UNKNOWN", Standing.GONE),
        ("error", "ERROR", Standing.GONE),
        ("FUTURE", "FUTURE", Standing.GONE),
        ("idle^", "IDLE+REBOOT_ISSUED", Standing.GONE),
        ("UNHEARD_OF", "UNHEARD_OF", Standing.GONE),
        ("idle~", "IDLE+POWERED_DOWN", Standing.ASLEEP),
        ("IDLE+CLOUD+POWERED_DOWN", "IDLE+CLOUD+POWERED_DOWN", Standing.ASLEEP),
        ("power_saving", "IDLE+POWERED_DOWN", Standing.ASLEEP),
        ("IDLE+POWER", "IDLE+POWERED_DOWN", Standing.ASLEEP),
        ("idle#", "IDLE+POWERING_UP", Standing.ASLEEP),
        ("idle%", "IDLE+POWERING_DOWN", Standing.ASLEEP),
        ("maint", "IDLE+MAINTENANCE", Standing.HELD),
        ("idle$", "IDLE+MAINTENANCE", Standing.HELD),
        ("resv", "IDLE+RESERVED", Standing.HELD),
    ],
)
def test_states(text: str, words: str, standing: Standing) -> None:
    """Each word is a word of its own: a node that is POWERED_DOWN is not DOWN."""
    state = read_state(text)
    assert state is not None
    assert (str(state), state.standing) == (words, standing)


@pytest.mark.parametrize("text", ["", "+", "IDLE++DRAIN", "IDLE DRAIN", "\x00", "5", "*"])
def test_no_state(text: str) -> None:
    """What is no state is none, not an idle one."""
    assert read_state(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu:8", [Gres("gpu", "", 8)]),
        ("gpu:h200:8(S:0-1)", [Gres("gpu", "h200", 8)]),
        ("gpu:h200:8(S:0,2)", [Gres("gpu", "h200", 8)]),
        ("gpu:a100:4,gpu:1g.10gb:7", [Gres("gpu", "a100", 4), Gres("gpu", "1g.10gb", 7)]),
        ("gpu:ampere:8(IDX:0-3)", [Gres("gpu", "ampere", 8)]),
        ("gpu:h200:0(IDX:N/A)", [Gres("gpu", "h200", 0)]),
        ("gpu:b200:8(S:0-1),shard:64(S:0-1)", [Gres("gpu", "b200", 8), Gres("shard", "", 64)]),
        ("gpu:no_consume:4", [Gres("gpu", "", 4)]),
        ("gpu", [Gres("gpu", "", 1)]),
        ("gpu:tesla", [Gres("gpu", "tesla", 1)]),
        ("bandwidth:lustre:4G", [Gres("bandwidth", "lustre", 4 << 30)]),
        ("gres/gpu=2", [Gres("gpu", "", 2)]),
        ("gres:gpu:8", [Gres("gpu", "", 8)]),
        ("(null)", []),
        ("N/A", []),
        ("", []),
    ],
)
def test_generic_resources(text: str, expected: list[Gres]) -> None:
    """All forms are read, with and without type, place or index."""
    assert value(read_gres(text)) == tuple(expected)


def test_no_generic_resources() -> None:
    """What cannot be read is no count of zero."""
    assert unread(gpus(read_gres("gpu:8 gpu"))).kind == "garbled"
    assert value(gpus(read_gres("gpu:a100:4,gpu:1g.10gb:7,shard:3"))) == 11


def test_nodes_of_text() -> None:
    """Every field is read from its place, whatever free text says beside it."""
    found = nodes(SHOWN)
    one, two = found["gpu001"], found["gpu002"]
    assert (one.address, one.hostname, one.version) == ("192.0.2.1", "worker-1", "22.05.8")
    assert one.partitions == ("batch", "all")
    assert (one.reason, one.reason_by) == ("bad GPU State=IDLE, see ticket", "root@2026-11-30T20:16:00")
    assert one.boot_time == "2026-11-30T20:00:01"
    assert (value(one.gpus), value(two.gpus)) == (8, 0)
    assert str(one.state) == "IDLE+DRAIN"
    assert two.says == "Slurm says DOWN+NOT_RESPONDING: Not responding [slurm@2026-11-30T20:16:00]"


@pytest.mark.parametrize(
    ("state", "boot"),
    [
        ({"state": "idle", "state_flags": ["DRAIN"], "slurmd_version": "22.05.8"}, 1796049107),
        (
            {"state": ["IDLE", "DRAIN"], "version": "24.11.5"},
            {"set": True, "infinite": False, "number": 1796049107},
        ),
    ],
    ids=["22.05", "24.11"],
)
def test_nodes_of_json(state: dict[str, Any], boot: object) -> None:
    """The shapes of old and new JSON say the same as the text."""
    reason = {"reason": "two\nlines", "reason_set_by_user": "root", "reason_changed_at": boot}
    node = {"name": "gpu001", "gres": "gpu:8", "boot_time": boot, "partitions": ["batch"], **reason, **state}
    one = nodes({"nodes": [node]})["gpu001"]
    assert one.says == "Slurm says IDLE+DRAIN: two lines [root@2026-11-30T14:31:47Z]"
    assert one.boot_time == "2026-11-30T14:31:47Z"
    assert one.version == state.get("version", "22.05.8")
    assert (value(one.gpus), one.partitions) == (8, ("batch",))


def test_names_and_aliases() -> None:
    """A node is found by host name and address too, but not by one that several share."""
    shown = slurm(nodes=SHOWN)
    assert [node.name for name in FOUND if (node := shown.find(name))] == ["gpu001"] * len(FOUND)
    assert shown.find("worker-9") is None
    shared = slurm(nodes="NodeName=a NodeHostName=h\n\nNodeName=b NodeHostName=h\n")
    assert shared.find("h") is None


def test_out_of_service() -> None:
    """Only the nodes that somebody took out are out, and only those that are asked about."""
    shown = slurm(nodes=SHOWN)
    says = "Slurm says IDLE+DRAIN: bad GPU State=IDLE, see ticket [root@2026-11-30T20:16:00]"
    assert out_of_service(shown, frozenset({"worker-1", "gpu002", "gpu003"})) == {"worker-1": says}
    assert out_of_service(slurm(), frozenset({"gpu001"})) == {}


def test_partitions() -> None:
    """Limits and states of partitions."""
    found = value(slurm(partitions=PARTITIONS).partitions)
    batch, rest = found["batch"], found["all"]
    assert (batch.up, batch.default, batch.max_time_s, batch.exclusive) == (True, True, 7 * 86400.0, False)
    assert (rest.up, rest.state, rest.max_time_s) == (False, "DRAIN", None)
    assert rest.root_only
    assert rest.exclusive


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1:00:00", 3600.0),
        ("7-00:00:00", 604800.0),
        ("1-12", 129600.0),
        ("30:00", 1800.0),
        ("5", 300.0),
        ("UNLIMITED", None),
        ("INFINITE", None),
        ("9" * 5000, None),
    ],
)
def test_times(text: str, seconds: float | None) -> None:
    """Times as Slurm writes and takes them; what has no limit has none."""
    assert read_time(text) == seconds


def test_jobs() -> None:
    """Who holds which node: node sets are written out, noise is passed over."""
    shown = slurm(jobs="12 gpu[001-002]\n13 gpu002\n14 \nerror: x\n15 gpu[\n")
    assert value(shown.jobs) == {"gpu001": ("12",), "gpu002": ("12", "13")}


def test_settings() -> None:
    """A setting, one without a value, and none at all."""
    shown = slurm(
        config="Configuration data as of x\nPrivateData             = jobs,nodes\nProlog = (null)\n"
    )
    assert shown.private == {"jobs", "nodes"}
    assert value(shown.setting("Prolog")) == ""
    assert unread(shown.setting("Nope")).kind == "not_found"
    assert slurm().private == frozenset()


def test_gpus_of_an_allocation() -> None:
    """What a job holds on each of its nodes; on one without a generic resource it holds none."""
    shown = b"""JobId=1 JobName=x
   JOB_GRES=gpu:h200:12
     Nodes=n[1-2] CPU_IDs=0-7 Mem=0 GRES=gpu:h200:4(IDX:0-3)
     Nodes=n3 CPU_IDs=0-7 Mem=0 GRES=
   Command=/bin/sh Nodes=n9
"""
    assert allocated_gpus(shown) == {"n1": 4, "n2": 4, "n3": 0}


@pytest.mark.parametrize("shown", ["", "nothing here", "{", '{"nodes": 3}', '{"nodes": []}', "\xff\x00"])
def test_no_nodes(shown: str) -> None:
    """What lists no node says so, and finds none."""
    assert unread(slurm(nodes=shown).nodes).kind == "garbled"
    assert slurm(nodes=shown).find("gpu001") is None


def test_what_was_not_told() -> None:
    """The reason of what Slurm refused is the reason of what follows."""
    refused = slurm(nodes=absent("denied", "Access denied"), jobs=absent("failed", "down"))
    assert unread(refused.nodes).why == "Access denied"
    assert unread(refused.jobs).kind == "failed"


@given(st.binary() | st.text(alphabet="NodeName=Stat +*IDLE\n[](){}:,0-9\"'").map(str.encode))
def test_any_bytes(noise: bytes) -> None:
    """No reader raises, whatever comes."""
    shown = Slurm(
        evidence(dict.fromkeys(("slurm/nodes", "slurm/partitions", "slurm/jobs", "slurm/config"), noise))
    )
    for fact in (shown.nodes, shown.partitions, shown.jobs, shown.setting("x")):
        assert isinstance(fact, Read) or fact.why
    assert shown.private is not None
    allocated_gpus(noise)
    found = shown.nodes.value if isinstance(shown.nodes, Read) else {}
    for node in found.values():
        assert node.says.startswith("Slurm says ")
        assert isinstance(node.gpus, Read) or node.gpus.why


KEYS = st.sampled_from(
    ["nodes", "name", "state", "state_flags", "reason", "gres", "boot_time", "set", "number", "partitions"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)


@given(JSON)
def test_any_json(document: object) -> None:
    """Nor does the reader of JSON, whatever the keys hold."""
    shown = Slurm(
        evidence({"slurm/nodes": json.dumps({"nodes": [document, {"name": "n", "state": document}]})})
    )
    assert value(shown.nodes)["n"].says.startswith("Slurm says ")


@pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"no samples in {SAMPLES}: set GPUASSAY_SAMPLES")
def test_real_outputs() -> None:
    """Real JSON of two versions, and a real configuration, are read."""
    found = nodes((SAMPLES / "debian-24.11/nodes.json").read_bytes())
    assert [value(node.gpus) for node in found.values()] == [8] * 4
    assert found["node2"].says == "Slurm says IDLE+DRAIN: t [root@2026-11-30T15:55:46Z]"
    assert {node.version for node in found.values()} == {"24.11.5"}
    config = (SAMPLES / "scontrol-show-config_2023.txt").read_bytes()
    assert value(slurm(config=config).setting("SelectType")).startswith("select/")
    job = (SAMPLES / "scontrol-show-job_gpu-idx.txt").read_bytes()
    assert allocated_gpus(job) == {"node1751": 8}
    states = [
        line.split("|")[16].strip()
        for line in (SAMPLES / "sinfo_all-fields_pipe.txt").read_text().splitlines()
    ]
    assert {str(read_state(state)) for state in states[1:]} >= {"IDLE+DRAIN+NOT_RESPONDING"}


@pytest.mark.parametrize(
    "shown",
    [
        "NodeName=gpu001 State=DOWN+INVALID_REG\n\nNodeName=gpu001 State=IDLE\n",
        json.dumps({"nodes": [{"name": "gpu001", "state": ["DOWN"]}, {"name": "gpu001", "state": ["IDLE"]}]}),
    ],
)
def test_a_node_that_is_listed_twice_is_not_believed(shown: str) -> None:
    """Which of its two states holds is not known, and the better one may not hide the other."""
    why = unread(Slurm(evidence({"slurm/nodes": shown})).nodes)
    assert (why.kind, "gpu001 more than once" in why.why) == ("garbled", True)
