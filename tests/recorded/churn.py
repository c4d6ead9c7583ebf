"""What churn shows on a healthy cluster: quick pods, volumes that go, jobs that are all accounted for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuassay.evidence.item import Item
from gpuassay.measure import SURVEYS
from recorded.items import SECONDS, encode

if TYPE_CHECKING:
    from collections.abc import Sequence

PODS, CLAIMS, JOBS, STEPS = 100, 20, 1000, 50
_BEGAN = 1796025600
_CYCLE = "Main schedule statistics (microseconds):\n\tLast cycle:   1731\n\tMax cycle:    84127\n"


def on_kubernetes(names: Sequence[str]) -> list[Item]:
    """Return what came of pods and claims, each a little slower than the one before."""
    args = {"pods": PODS, "claims": CLAIMS, "at_once": 10, "size": "1Gi", "seconds": 120}
    asked = {"survey": "kube_churn", "method": SURVEYS["kube_churn"].method, "args": args}
    pods = [
        {
            "node": names[at % len(names)],
            "create_s": 0.02,
            "scheduled_s": 0.3,
            "ready_s": _slower(1.4, at),
            "gone_s": 0.9,
        }
        for at in range(PODS)
    ]
    claims: list[dict[str, Any]] = [
        {
            "node": names[at % len(names)],
            "create_s": 0.02,
            "scheduled_s": 3.1,
            "bound_s": _slower(2.6, at),
            "ready_s": _slower(8.2, at),
            "volume": f"pvc-{at}",
            "pod_gone_s": 2.1,
            "gone_s": 3.4,
        }
        for at in range(CLAIMS)
    ]
    told = {
        "pods": {"cycles": pods},
        "claims": {"class": "block", "cycles": claims},
        "volumes": {"made": CLAIMS, "left": []},
        "attachments": {"made": CLAIMS, "left": []},
        "removed": {},
    }
    return [
        Item(f"survey/kube_churn/{name}", 0, asked=asked, seconds=SECONDS, out=encode(document))
        for name, document in told.items()
    ]


def on_slurm() -> list[Item]:
    """Return what came of an array of jobs and of steps."""
    asked = {
        "survey": "slurm_churn",
        "method": SURVEYS["slurm_churn"].method,
        "args": {"jobs": JOBS, "steps": STEPS},
    }
    tasks = "".join(f"41_{at}|COMPLETED|{_BEGAN}|{_BEGAN + 1 + at // 20}\n" for at in range(JOBS))
    steps = "".join(f"{_BEGAN + at}.10 {_BEGAN + at}.{25 + at % 9} 0\n" for at in range(STEPS))
    told = {"array": "41\n", "queue": tasks, "accounts": tasks, "scheduler": _CYCLE, "steps": steps}
    return [
        Item(
            f"survey/slurm_churn/{name}",
            0,
            asked={**asked, **({"jobs": JOBS} if name == "array" else {})},
            exit=0,
            seconds=SECONDS,
            out=out.encode(),
        )
        for name, out in told.items()
    ]


def _slower(seconds: float, number: int) -> float:
    return round(seconds + number % 10 * 0.1, 3)
