"""A GPU is reset, as an operator would who clears an error: it is away for seconds, and comes back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuassay.fault.node import pci
from gpuassay.fault.node.words import Blocked, NotRestored, Plan, Refused, need_root, run

if TYPE_CHECKING:
    from collections.abc import Mapping

_RESET_S = 90.0


class GpuReset:
    """``address`` or ``gpu`` chooses the GPU."""

    def __init__(self, args: Mapping[str, Any], root: str = "/") -> None:
        """Only hold."""
        self._args = args
        self._root = Path(root)

    def plan(self) -> Plan:
        """Look that nobody uses it. Raises Refused."""
        need_root()
        gpu = pci.chosen(self._root, self._args)
        busy = self._ask(gpu, "--query-compute-apps=pid")
        if busy is None:
            raise Refused(f"nvidia-smi does not tell of GPU {gpu}")
        if busy:
            raise Refused(f"GPU {gpu} is in use, by process {', '.join(busy.split())}")
        kept = self._ask(gpu, "--query-gpu=persistence_mode")
        return Plan(
            does=(f"nvidia-smi --gpu-reset --id={gpu}",),
            undoes=(f"nvidia-smi --persistence-mode=1 --id={gpu}, if it was on",),
            expects=f"GPU {gpu} is away for some seconds and comes back, so the node can stay in service",
            state={"gpu": gpu, "persistence": kept},
            warns=("GPUs that NVLink joins may have to be reset together: then the driver refuses this one",),
        )

    def inject(self, state: Mapping[str, Any]) -> None:
        """Reset it. Raises Blocked."""
        status, said = run("nvidia-smi", "--gpu-reset", f"--id={state['gpu']}", patience_s=_RESET_S)
        if status != 0:
            raise Blocked(f"the driver does not reset GPU {state['gpu']}: {said[:300]}")
        self._said = said

    def verify_injected(self, state: Mapping[str, Any]) -> str:
        """Find it back with the driver. Raises Blocked."""
        if self._ask(state["gpu"], "--query-gpu=uuid") is None:
            raise Blocked(f"GPU {state['gpu']} does not answer after its reset")
        return f"{self._said}; it answers again"

    def undo(self, state: Mapping[str, Any]) -> None:
        """Have the driver stay loaded on it, if it was so."""
        if state["persistence"] == "Enabled":
            run("nvidia-smi", "--persistence-mode=1", f"--id={state['gpu']}")

    def verify_undone(self, state: Mapping[str, Any]) -> str:
        """Find it as it was. Raises NotRestored."""
        kept = self._ask(state["gpu"], "--query-gpu=persistence_mode")
        if kept is None or kept != state["persistence"]:
            raise NotRestored(
                f"GPU {state['gpu']}: persistence mode is {kept}, and was {state['persistence']}"
            )
        return f"GPU {state['gpu']} answers, with persistence mode {kept}"

    def _ask(self, gpu: str, what: str) -> str | None:
        status, said = run("nvidia-smi", f"--id={gpu}", what, "--format=csv,noheader")
        return said if status == 0 else None
