"""The eyes on a Slurm: what it says of a node, whether it would let a job in there, and the other nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuassay.facts.fault_slurm import identity, node_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from gpuassay.evidence.item import Item
    from gpuassay.target.slurm_client import Client
    from gpuassay.watch import Eye

_PATIENCE_S = 10.0


class NodeEye:
    """Looks at the node as Slurm knows it."""

    name = "slurm-node"
    every_s = 0.5

    def __init__(self, client: Client, node: str) -> None:
        """Take the node by its name in Slurm."""
        self._client = client
        self._node = node

    def look(self) -> Item:
        """Ask for the node."""
        return self._client.run("scontrol", "show", "node", self._node, patience_s=_PATIENCE_S)

    def key(self, item: Item) -> Hashable:
        """Compare what Slurm says of its state, with the reason, and of its boot."""
        found = node_of(item)
        said = found and (found.state, found.reason, found.reason_by, found.boot_time)
        return item.status, said, identity(item)


class CanaryEye:
    """Asks whether a job pinned to the node would be let in. No job is made (srun --test-only)."""

    name = "slurm-canary"
    every_s = 1.0

    def __init__(self, client: Client, node: str, options: Sequence[str]) -> None:
        """Take the node, and what the site says to Slurm with every job."""
        self._client = client
        self._argv = (
            "srun",
            "--test-only",
            f"--nodelist={node}",
            "--nodes=1",
            "--ntasks=1",
            *options,
            "true",
        )

    def look(self) -> Item:
        """Ask for a place."""
        return self._client.run(*self._argv, patience_s=_PATIENCE_S)

    def key(self, item: Item) -> Hashable:
        """Compare whether there is one."""
        return item.status


class FleetEye:
    """Looks at the states of all nodes: one may come in place of the one that was broken."""

    name = "slurm-fleet"
    every_s = 1.0

    def __init__(self, client: Client) -> None:
        """Take Slurm's programs."""
        self._client = client

    def look(self) -> Item:
        """Ask for all nodes."""
        return self._client.run("sinfo", "--noheader", "--Node", "--format=%N|%T", patience_s=_PATIENCE_S)

    def key(self, item: Item) -> Hashable:
        """Compare all of it, whatever the order."""
        return item.status, frozenset(item.out.splitlines())


def eyes(client: Client, node: str, options: Sequence[str]) -> list[Eye]:
    """Give all eyes on one node."""
    return [NodeEye(client, node), CanaryEye(client, node, options), FleetEye(client)]
