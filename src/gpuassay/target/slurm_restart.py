"""How Slurm restarts nodes: by its RebootProgram, where one is set and we are permitted to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuassay.judge.fact import Read
from gpuassay.target import TargetError
from gpuassay.target.restarts import REASON, Ordered, by_themselves

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpuassay.target import Job, Results
    from gpuassay.target.slurm_client import Client, Cluster


def restart(client: Client, cluster: Cluster, nodes: Sequence[str], run: Callable[[Job], Results]) -> Ordered:
    """Order it from Slurm, which drains the nodes at once; else from each node itself.

    Raises TargetError where nothing is permitted, with what was tried.
    """
    setting = cluster.setting("RebootProgram")
    if isinstance(setting, Read) and setting.value:
        words = ("ASAP", "nextstate=RESUME", f"reason={REASON}", ",".join(_names(cluster, nodes)))
        told = client.run("scontrol", "reboot", *words)
        if told.status == "ok":
            return Ordered(dict.fromkeys(nodes, told), by_scheduler=True)
        tried = f"scontrol reboot: {told.why}"
    else:
        tried = "Slurm has no RebootProgram"
    ordered = by_themselves(nodes, run)
    refused = {item.why for item in ordered.items.values() if item.status != "ok"}
    if len(refused) == 1 and all(item.status != "ok" for item in ordered.items.values()):
        raise TargetError(f"{tried}; on the nodes themselves: {next(iter(refused))}")
    return ordered


def _names(cluster: Cluster, nodes: Sequence[str]) -> list[str]:
    return [known.name if (known := cluster.find(node)) else node for node in nodes]
