"""Jobs that hold nodes on which something is broken on purpose: there may be one in a Slurm cluster."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gpuassay.facts.text import brief
from gpuassay.target import TargetError
from gpuassay.target.slurm_client import PREFIX

if TYPE_CHECKING:
    from gpuassay.evidence.item import Item
    from gpuassay.target.slurm_client import Client

HOLDING = f"{PREFIX}break-"
"""With this their names begin."""

_ENDING = "CG"  # squeue(1): COMPLETING
_PATIENCE_S, _TICK_S = 60.0, 1.0


def refuse_another(client: Client) -> None:
    """Go on only if no other run holds a node. Raises TargetError.

    One that is ending is waited for: after a reboot Slurm may still clear up the job that held the node.
    """
    until = time.monotonic() + _PATIENCE_S
    while (others := _others(shown := _ask(client))) and time.monotonic() < until:
        if any(line.split()[-2] != _ENDING for line in others):
            break
        time.sleep(_TICK_S)
    if shown.status != "ok" or others:
        why = f"job {brief(others[0])} is one" if others else shown.why
        raise TargetError(f"only one fault at a time may be in a cluster: {why} (see: gpuassay clean)")


def _ask(client: Client) -> Item:
    return client.run("squeue", "--noheader", "--all", "--format=%A %u %N %t %j")


def _others(shown: Item) -> list[str]:
    lines = shown.out.decode(errors="replace").splitlines()
    return [line for line in lines if line.rpartition(" ")[2].startswith(HOLDING)]
