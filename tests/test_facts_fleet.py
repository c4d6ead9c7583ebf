"""The fleet: which nodes are in it, in what order, and what a silent one says."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from facts_evidence import device, function, small, unread, value
from gpuassay.evidence.recording import read_recording
from gpuassay.facts import Fleet, fleet
from gpuassay.judge.fact import Unread
from gpuassay.judge.pools import Pool
from gpuassay.judge.services import Services

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gpuassay.judge.fact import Fact
    from gpuassay.judge.site import Site

SILENT = Unread("not_found", "no evidence from this node")
NEEDS = ("gpu", "nvidia", "amd", "rdma", "roce", "infiniband", "vm", "bare_metal")


def site(*pools: Pool, out: tuple[str, ...] = ()) -> Site:
    """Declare these pools, and nodes that are out of service."""
    owners = {name: pool for pool in pools for name in pool.nodes}
    catalog = SimpleNamespace(accelerator_of=lambda _: None)
    told = {"nodes": tuple(owners), "out_nodes": frozenset(out), "pool_of": owners.get, "catalog": catalog}
    return cast("Site", SimpleNamespace(**told, services=Services()))


def record(folder: Path, nodes: Mapping[str, Mapping[str, Any]], declared: tuple[str, ...] = ()) -> Fleet:
    """Write a recording of these nodes; read it without a site file."""
    return fleet(read_recording(write(folder, nodes, declared)), site())


def write(folder: Path, nodes: Mapping[str, Mapping[str, Any]], declared: tuple[str, ...] = ()) -> Path:
    """Write a recording by hand."""
    (folder / "nodes").mkdir()
    (folder / "recording.toml").write_text(f"schema = 1\ndeclared = {json.dumps(declared)}\n")
    for name, contents in nodes.items():
        lines = (
            {"id": item, "seq": seq, "status": "ok", "out": out if isinstance(out, str) else json.dumps(out)}
            for seq, (item, out) in enumerate(contents.items(), 1)
        )
        (folder / "nodes" / f"{name}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return folder


def test_the_fleet_is_what_is_declared_and_what_answered(tmp_path: Path) -> None:
    """In natural order, without those that are out of service."""
    nodes = {name: small() for name in ("gpu10", "gpu2", "gpu3", "login")}
    recording = read_recording(write(tmp_path, nodes, declared=("gpu4",)))
    declared = site(Pool("gpu", frozenset({"gpu1", "gpu2", "gpu11"})), out=("gpu3", "gpu11"))
    found = fleet(recording, declared)
    assert [node.name for node in found.nodes] == ["gpu1", "gpu2", "gpu4", "gpu10", "login"]
    assert found.out == ("gpu3", "gpu11")
    assert [gpu.where for gpu in found.gpus][:3] == ["gpu2/gpu0", "gpu2/gpu1", "gpu10/gpu0"]


def test_every_fact_of_a_silent_node_is_its_silence(tmp_path: Path) -> None:
    """One reason for all, so that its rows fold to one line."""
    (node,) = record(tmp_path, {}, declared=("gpu1",)).nodes
    assert node.silence == SILENT
    assert (node.gpus, node.ports, node.roce_ports, node.models) == ((), (), (), ())
    facts: list[Fact[Any]] = [
        node.gpus_on_bus,
        node.gpus_in_driver,
        node.gpus_seen,
        node.driver_version,
        node.module_version,
    ]
    facts += [node.memlock, node.clock_synchronized, node.clock_max_error_ms, node.uptime_hours]
    facts += [node.kernel_log.window_hours, node.kernel_log.serious_xids]
    facts += [node.shows(need) for need in NEEDS]
    facts += [*node.sightings("gpu", ()).values(), *node.sightings("port", ("roce",)).values()]
    assert set(facts) == {SILENT}


def test_a_file_without_a_readable_item_is_silence(tmp_path: Path) -> None:
    """Garbage is no answer."""
    folder = write(tmp_path, {"gpu1": {}})
    (folder / "nodes" / "gpu1.jsonl").write_bytes(b"\x00\xff garbage\n{]\n")
    (node,) = fleet(read_recording(folder), site()).nodes
    assert node.silence == SILENT


def test_the_lost_part_of_a_damaged_file_is_garbled(tmp_path: Path) -> None:
    """Items that should have been there are not "not asked for"."""
    folder = write(tmp_path, {"gpu1": small()})
    file = folder / "nodes" / "gpu1.jsonl"
    file.write_bytes(file.read_bytes()[:-40])
    (node,) = fleet(read_recording(folder), site()).nodes
    assert node.silence is None
    assert value(node.gpus_on_bus) == 2
    assert unread(node.memlock).kind == "garbled"


def test_the_declared_ports_of_a_pool_are_its_fabric(tmp_path: Path) -> None:
    """The same node has other compute ports in another pool."""
    port = {"state": "4: ACTIVE", "link_layer": "Ethernet", "gids": {}, "types": {}, "ndevs": {}}
    adapters = {name: {"ports": {"1": port}} for name in ("mlx5_0", "mlx5_1")}
    nodes = {name: small(infiniband=adapters) for name in ("a1", "b1")}
    recording = read_recording(write(tmp_path, nodes))
    found = fleet(recording, site(Pool("a", frozenset({"a1"}), ports=("mlx5_1",))))
    assert [one.where for one in found.roce_ports] == ["a1/mlx5_1/1", "b1/mlx5_0/1", "b1/mlx5_1/1"]


def test_a_reference_leads_to_the_line_of_the_recording(tmp_path: Path) -> None:
    """Node file and number of the item."""
    contents = {"pci": {"0000:1a:00.0": function()}, "nvml": {"count": 1, "devices": [device(0, 0x1A)]}}
    (node,) = record(tmp_path, {"gpu1": contents}).nodes
    assert node.gpus[0].ecc_current.evidence == "nodes/gpu1#2"
    assert node.gpus[0].pcie_width.evidence == "nodes/gpu1#1"


def test_what_kubernetes_calls_a_node(tmp_path: Path) -> None:
    """Its host name there is another name for it, and its boot there is the one that has to answer."""
    host = {"hostname": "ip-10-0-0-7"}
    folder = write(tmp_path, {"gpu1": {"host": host}, "gpu2": {"host": host}, "gpu3": {"host": host}})
    listed = {
        "items": [
            {
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": label}},
                "status": {"nodeInfo": {"bootID": "of-gpu1"}},
            }
            for name, label in (("gpu1", "ip-10-0-0-7"), ("gpu2", "gpu2"))
        ]
    }
    line = {"id": "kubernetes/nodes", "seq": 1, "status": "ok", "out": json.dumps(listed)}
    (folder / "cluster.jsonl").write_text(f"{json.dumps(line)}\n")
    nodes = fleet(read_recording(folder), site()).nodes
    assert [value(node.is_called_so) for node in nodes] == [True, False, False]
    assert [node.scheduled_boot for node in nodes] == ["of-gpu1", "of-gpu1", ""]
