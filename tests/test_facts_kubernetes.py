"""What Kubernetes says of its nodes, from real servers' answers, made-up ones, and any bytes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuassay.evidence.item import Item
from gpuassay.facts.kubernetes import Devices, Kubernetes, out_of_service, quantity
from gpuassay.judge.fact import Read, Unread
from kubeapi import cluster
from kubeapi.store import Store

if TYPE_CHECKING:
    from collections.abc import Mapping


class Evidence:
    """What was asked of a cluster."""

    problems: tuple[str, ...] = ()

    def __init__(
        self, outs: Mapping[str, bytes], asked: str = "/apis/resource.k8s.io/v1/resourceslices"
    ) -> None:
        self._items = {
            f"kubernetes/{name}": Item(f"kubernetes/{name}", 1, asked={"api": asked}, out=out)
            for name, out in outs.items()
        }

    def item(self, item_id: str, /) -> Item | None:
        """Give an item."""
        return self._items.get(item_id)

    def ref(self, item: Item, /) -> str:
        """Name it."""
        return f"cluster#{item.seq}"


def read(**lists: list[Any]) -> Kubernetes:
    """Read lists of objects."""
    return Kubernetes(
        Evidence({name: json.dumps({"items": items}).encode() for name, items in lists.items()})
    )


SAMPLES = Path(os.environ.get("GPUASSAY_SAMPLES", Path(__file__).parents[2] / "shared"))
CAPTURES = SAMPLES / "captures/kube-api"


@pytest.mark.skipif(not CAPTURES.is_dir(), reason="the samples are not here: set GPUASSAY_SAMPLES")
@pytest.mark.parametrize("version", ["1.20.2", "1.36.2"])
def test_real_servers(version: str) -> None:
    """The nodes of real servers are read as they are: ready, not cordoned, eight GPUs each, some held."""
    names = ("nodes", "pods", "resourceslices", "resourceclaims")
    outs = {name: (CAPTURES / version / f"{name}.json").read_bytes() for name in names}
    found = Kubernetes(Evidence(outs))
    assert isinstance(found.nodes, Read)
    for name, node in found.nodes.value.items():
        assert (node.name, node.cordoned, node.not_ready, node.is_worker) == (name, "", "", True)
        assert found.devices(node) == Devices("nvidia.com/gpu", 8, 8)
        assert isinstance(found.holders(name, Devices("nvidia.com/gpu", 8, 8)), Read)
    held = [found.holders(name, Devices("nvidia.com/gpu", 8, 8)) for name in found.nodes.value]
    holders = [holder.name for one in held if isinstance(one, Read) for holder in one.value]
    claims = found.holders("gpu-node-1", Devices("gpu.nvidia.com", 8, 8, "v1"))
    assert isinstance(claims, Read)
    seen = (holders, [(one.name, one.gpus) for one in claims.value])
    newer = version == "1.36.2"
    assert seen == ((["default/gpu8"], [("default/two-gpus", 2)]) if newer else ([], []))


def test_states() -> None:
    """Cordoned and not ready are told with their times and words, and only the former is out of service."""
    both = cluster.cordoned("gpu3")
    both["status"]["conditions"] = cluster.not_ready("gpu3")["status"]["conditions"]
    found = read(nodes=[cluster.node("gpu1"), cluster.cordoned("gpu2"), both, cluster.not_ready("gpu4")])
    names = frozenset({"gpu1", "gpu2", "gpu3", "gpu4"})
    late = "NotReady since 2026-11-30T08:00:00Z: NodeStatusUnknown: Kubelet stopped posting node status."
    assert out_of_service(found, names) == {
        "gpu2": "Kubernetes says cordoned since 2026-11-30T09:00:00Z",
        "gpu3": f"Kubernetes says cordoned since 2026-11-30T09:00:00Z; {late}",
    }
    assert out_of_service(found, frozenset()) == {}
    assert isinstance(found.nodes, Read)
    assert found.nodes.value["gpu4"].not_ready == late
    never = cluster.node("gpu5")
    del never["status"]["conditions"]
    never_seen = read(nodes=[never]).nodes
    assert isinstance(never_seen, Read)
    assert never_seen.value["gpu5"].not_ready == "NotReady: its kubelet has never reported"


def test_what_a_pod_holds() -> None:
    """Containers add up, an init container counts if it wants more, and who has ended holds nothing."""
    two = cluster.holder("two", "gpu1", 1)
    two["spec"]["containers"] *= 2
    first = cluster.holder("first", "gpu1", 1)
    first["spec"]["initContainers"] = [{"resources": {"limits": {"nvidia.com/gpu": "4"}}}]
    done = cluster.holder("done", "gpu1", 8)
    done["status"]["phase"] = "Succeeded"
    found = read(pods=[two, first, done, cluster.holder("elsewhere", "gpu2", 8)])
    held = found.holders("gpu1", Devices("nvidia.com/gpu", 8, 8))
    assert isinstance(held, Read)
    assert [(one.name, one.gpus) for one in held.value] == [("tenant/two", 2), ("tenant/first", 4)]


def test_devices() -> None:
    """A device plugin's GPUs come first; where it has none to give, those of a driver for claims do."""
    store = Store()
    cluster.slices(store, "gpu1", 4, "gpu.amd.com")
    nodes = [cluster.node("gpu1"), cluster.node("gpu2", 8, cluster.AMD)]
    nodes[1]["status"]["allocatable"][cluster.AMD] = "7"
    found = read(nodes=nodes, resourceslices=store.select("resourceslices"))
    assert isinstance(found.nodes, Read)
    assert found.devices(found.nodes.value["gpu1"]) == Devices("gpu.amd.com", 4, 4, "v1")
    assert found.devices(found.nodes.value["gpu2"]) == Devices("amd.com/gpu", 8, 7)


def test_what_was_not_seen_is_unread() -> None:
    """Lists that were denied, or never asked for, are no empty lists."""
    nothing = Kubernetes(Evidence({}))
    assert not nothing.asked
    assert isinstance(nothing.nodes, Unread)
    assert nothing.nodes.kind == "not_asked"
    assert isinstance(nothing.holders("gpu1", Devices("nvidia.com/gpu", 8, 8)), Unread)
    assert isinstance(nothing.holders("gpu1", Devices("gpu.nvidia.com", 8, 8, "v1")), Unread)


@pytest.mark.parametrize(
    ("value", "count"), [("8", 8), (8, 8), (True, 0), ("8k", 0), ("-1", 0), (None, 0), ("9" * 99, 0)]
)
def test_quantities(value: object, count: int) -> None:
    """Devices are counted in whole numbers; what is none is not taken for one."""
    assert quantity(value) == count


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["items", "metadata", "name", "spec", "status", "conditions", "type", "taints", "nodeName",
             "unschedulable", "capacity", "nvidia.com/gpu", "containers", "resources", "requests", "devices"]
        ),
        inner,
        max_size=5,
    ),
    max_leaves=30,
)  # fmt: skip


@given(nodes=JSON.map(lambda value: json.dumps(value).encode()) | st.binary(), others=JSON)
def test_any_answer(nodes: bytes, others: object) -> None:
    """Whatever a server may have answered, reading it gives facts or reasons, and never an exception."""
    other = json.dumps({"items": others}).encode()
    found = Kubernetes(
        Evidence({"nodes": nodes, "pods": other, "resourceslices": other, "resourceclaims": other})
    )
    known = found.nodes.value if isinstance(found.nodes, Read) else {}
    for name, node in known.items():
        assert isinstance(node.cordoned + node.not_ready, str)
        devices = found.devices(node) or Devices("nvidia.com/gpu", 8, 8)
        assert found.holders(name, devices)
    assert out_of_service(found, frozenset(known)).keys() <= known.keys()
