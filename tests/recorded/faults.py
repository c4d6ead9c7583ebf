"""What is kept of a fault that was injected, on a cluster whose provider notices and drains the node."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gpuassay.evidence.item import Item
from gpuassay.facts import fault_trial as facts
from gpuassay.facts.fault_audited import ANSWER, AUDIT
from gpuassay.facts.fault_smoke import SMOKE
from gpuassay.measure.work import gemm

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

BEGAN, ARMED, BROKEN, SEEN, ENDED, TOLD, BACK = 0.3, 0.5, 0.8, 31.4, 32.6, 44.9, 1514.2
"""When each step of a trial was, in seconds after it began."""

PRODUCT, GPUS = "bfloat16 4096x4096x4096", 8
BOOTED, BOOTED_AGAIN = "2026-11-02T09:14:11", "2026-11-30T08:21:00"


def on_slurm(names: Sequence[str], answers: Sequence[Item] = ()) -> list[Item]:
    """Return the trials of a cluster that Slurm gives out: all end as they should.

    ``answers`` are those of the node that serves again, if it is audited.
    """
    frozen = {"service": "slurmd", "how": "freeze", "watch_s": 600, "mend_s": 240, "replace_s": 3600}
    frozen |= {"smoke": PRODUCT}
    begun = _begun("service", frozen, names[0], "slurmd (4711) is stopped", audit=bool(answers))
    back = _replaced(names, answers)
    items = (*begun, _message(ARMED), *_taken(names[0]), _message(TOLD, names[0]), *back)
    return [of("frozen_slurmd", item) for item in items]


def slurm_trial(name: str, fault: str, args: Mapping[str, Any], node: str, proof: str) -> list[Item]:
    """Return the evidence of a trial on a node of Slurm, which is drained and later comes back."""
    items = (*_begun(fault, args, node, proof), *_taken(node), *_back(node))
    return [of(name, item) for item in items]


def spared_trial(name: str, fault: str, args: Mapping[str, Any], node: str, proof: str) -> list[Item]:
    """Return the evidence of a trial on a node of Slurm, which the provider leaves in service."""
    return [of(name, item) for item in (*_begun(fault, args, node, proof), *_spared(args["watch_s"]))]


def _begun(
    fault: str, args: Mapping[str, Any], node: str, proof: str, *, audit: bool = False
) -> Iterator[Item]:
    """Yield all until something is broken."""
    what = {"fault": fault, "args": dict(args), "method": facts.METHOD}
    where = {"node": node, "ticket": "CHG-0000", "mark": "00000000", "wall": 1796025600.0}
    plan = {"does": ["…"], "undoes": ["…"], "expects": "…", "state": {}, "boot": "made up"}
    yield Item(facts.TRIAL, 0, asked={**what, **where, AUDIT: audit})
    yield act("plan", BEGAN, plan)
    yield act("arm", ARMED, {"by": f"systemd's timer gpuassay-undo-{where['mark']}"})
    yield from _sights(node, ARMED, "ALLOCATED", "", refused=False)
    yield act("inject", BROKEN, {"proof": proof})


def _taken(node: str) -> Iterator[Item]:
    """Yield what is seen where the provider takes the node: it is handed over."""
    yield from _sights(node, SEEN, "ALLOCATED+DRAIN", "health: the node does not answer", refused=True)
    yield act("stand_down", ENDED, {"stood_down": True})
    yield Item(facts.END, 0, asked={"state": facts.HANDED_OVER, "watched_until_s": ENDED})


def _replaced(names: Sequence[str], answers: Sequence[Item]) -> Iterator[Item]:
    """Yield what is seen where the provider boots the first node anew and lets it in again."""
    yield _fleet(ARMED, names)
    yield _fleet(ENDED, names[1:])
    yield _fleet(BACK, names)
    audited = audits(names[0], answers) if answers else ()
    yield from _back(names[0], (*audited, *loads(names[0], GPUS)))


def _back(node: str, proven: Iterable[Item] = ()) -> Iterator[Item]:
    """Yield what is seen where the provider boots a node anew and lets it in again."""
    yield from _sights(node, BACK, "IDLE", "", refused=False)
    yield act("look", BACK + 2, {"proof": "booted since, with 8 GPUs on its bus"})
    yield from proven
    yield Item(facts.OVER, 0, asked={"watched_until_s": BACK + 3})


def audits(node: str, answers: Iterable[Item]) -> Iterator[Item]:
    """Yield what a node that serves again answers when it is asked what all nodes are."""
    times = {"since_s": BACK + 2, "at_s": BACK + 2.5}
    for item in answers:
        if "/" not in item.id:  # what was measured on it is no answer
            yield replace(item, id=ANSWER + item.id, asked={**item.asked, **times})
    yield Item(AUDIT, 0, asked={"node": node, **times})


def loads(node: str, gpus: int) -> Iterator[Item]:
    """Yield what the ranks of the load print on a node that serves again: all of it is right."""
    name, _, shape = PRODUCT.partition(" ")
    case = {"format": name, **dict(zip("mnk", map(int, shape.split("x")), strict=True))}
    right = {"checked": 1024, "wrong": 0, "changed": 0, "worst": 0.001, "seconds": [0.33, 0.33, 0.33]}
    for rank in range(gpus):
        asked = {"node": node, "product": PRODUCT, "gpus": gpus, "ranks": gpus, "rank": rank}
        times = {"since_s": BACK + 2, "at_s": BACK + 2.9}
        told = {"workload": "gemm", "method": gemm.METHOD, "rank": rank, "device": {"kind": "cuda"}}
        told |= {"versions": {"torch": "2.13.0"}, "rows": [{"case": case, "status": "ok", **right}]}
        yield Item(SMOKE, 0, asked={**asked, **times}, exit=0, out=json.dumps(told).encode())


def _spared(watch_s: float) -> Iterator[Item]:
    """Yield what is seen where the provider leaves the node alone: nothing, until it is undone."""
    yield act("undo", BROKEN + watch_s, {"proof": "…", "fired": False})
    yield Item(facts.END, 0, asked={"state": facts.UNDONE, "watched_until_s": BROKEN + watch_s})


def of(name: str, item: Item) -> Item:
    """Return an item as one of a measurement."""
    return Item(
        f"survey/{name}/{item.id}", 0, item.status, item.asked, item.exit, None, item.out, item.err, item.why
    )


def act(verb: str, at_s: float, told: Mapping[str, Any]) -> Item:
    """Return what came of one act on the node."""
    out = json.dumps({"verb": verb, "clock": 1796025600.0 + at_s, **told}).encode()
    times = {"verb": verb, "since_s": at_s - 0.2, "at_s": at_s}
    return Item(verb.replace("_", "-"), 0, asked=times, exit=0, out=out)


def _message(at_s: float, node: str = "") -> Item:
    """Return what has come to our receiver by then: one message, if it names a node."""
    came = [f"node {node} was drained: it does not answer"] if node else []
    times = {"listen": "10.0.0.5:9099", "at_s": at_s, "since_s": at_s - 0.5}
    return Item("watch/webhook", 0, asked=times, out=json.dumps(came).encode())


def _fleet(at_s: float, names: Sequence[str]) -> Item:
    out = "".join(f"{name}|idle\n" for name in names).encode()
    return Item("watch/slurm-fleet", 0, asked={"at_s": at_s, "since_s": at_s - 2.1}, exit=0, out=out)


def _sights(node: str, at_s: float, state: str, reason: str, *, refused: bool) -> Iterator[Item]:
    times = {"at_s": at_s, "since_s": at_s - 0.6}
    why = f"   Reason={reason} [healthd@2026-11-30T08:00:31]\n" if reason else ""
    boot = f"   BootTime={BOOTED if at_s < BACK else BOOTED_AGAIN}\n"
    shown = f"NodeName={node} Arch=x86_64\n   State={state} ThreadsPerCore=2\n{boot}{why}"
    yield Item("watch/slurm-node", 0, asked=times, exit=0, out=shown.encode())
    said = "allocation failure: Requested node configuration is not available\n"
    if refused:
        yield Item("watch/slurm-canary", 0, "failed", times, 1, err=said, why="srun ended with 1")
    else:
        told = f"srun: Job 9 to start at 2026-11-30T08:20:00 using 1 processors on nodes {node}\n"
        yield Item("watch/slurm-canary", 0, asked=times, exit=0, err=told)
