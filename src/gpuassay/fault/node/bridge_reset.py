"""The bridge above a GPU resets the bus below it, behind the driver's back: a real Xid 79.

The kernel's own ways to reset a device save and restore its registers, and the driver sees nothing. Here the
bit in the bridge's control register is held by hand while something reads the GPU, so that the driver finds
it gone. Nothing that we could do brings it back: it takes a restart of the node, or another node.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuassay.fault.node import kmsg, pci
from gpuassay.fault.node.words import Blocked, NotRestored, Plan, Refused, boot_id, need_root, run

if TYPE_CHECKING:
    from collections.abc import Mapping

_CONTROL, _RESET = 0x3E, 0x40  # Bridge Control, Secondary Bus Reset: PCI-to-PCI Bridge Architecture, 3.2.5.18
_HOLD_S = 20.0
_SETTLE_S = 1.0  # before registers below may be read again: PCI Express, 6.6.1
_MAKERS = ("QEMU", "KVM", "Xen", "VMware", "Microsoft", "innotek", "Google", "Amazon EC2", "OpenStack")


class BridgeReset:
    """``address`` or ``gpu`` chooses the GPU; ``grace = true`` allows it on Arm, as with Grace."""

    def __init__(self, args: Mapping[str, Any], root: str = "/") -> None:
        """Only hold."""
        self._args = args
        self._root = Path(root)
        self._found: list[kmsg.Record] = []

    def plan(self) -> Plan:
        """Find the bridge that has this GPU and nothing else below it. Raises Refused."""
        need_root()
        self._refuse_machine()
        gpu = pci.chosen(self._root, self._args)
        bridge = self._bridge(gpu)
        control = self._control(bridge.name)
        if control & _RESET:
            raise Refused(f"bridge {bridge.name} holds its bus in reset already")
        state = {"gpu": gpu, "bridge": bridge.name, "boot": boot_id()}
        write = f"setpci -s {bridge.name} BRIDGE_CONTROL"
        return Plan(
            does=(
                f"{write}=40:40, while nvidia-smi reads, until Xid 79 of {gpu} or for {_HOLD_S:.0f} s",
                f"{write}=00:40",
            ),
            undoes=(),
            expects=f"the driver says that GPU {gpu} has fallen off the bus (Xid 79), and loses it",
            state=state,
            warns=(
                "there is no undo: the GPU comes back with a restart of the node, if at all",
                "other GPUs joined to it by NVLink will tell of link errors (Xid 74, 149)",
                "where firmware handles PCIe errors first the node may crash, which is a fault too",
            ),
        )

    def inject(self, state: Mapping[str, Any]) -> None:
        """Hold the bus in reset until the driver has noticed, or for long enough. Raises Blocked."""
        try:
            reader = kmsg.Reader(self._root)
            self._set(state["bridge"], reset=True)
        except OSError as error:
            raise Blocked(f"the bridge cannot be told, or the kernel log not be read: {error}") from error
        try:
            until = time.monotonic() + _HOLD_S
            while not self._fallen(state) and time.monotonic() < until:
                run("nvidia-smi", "--list-gpus", patience_s=5.0)
                self._found = reader.until((self._sign(state),), 0.5)
        finally:
            self._set(state["bridge"], reset=False)
            reader.close()
        time.sleep(_SETTLE_S)

    def verify_injected(self, state: Mapping[str, Any]) -> str:
        """Find what the driver itself wrote. Raises Blocked, with what came instead."""
        fallen = self._fallen(state)
        if fallen:
            return f"the kernel wrote: {fallen}"
        others = [record.text for record in self._found if record.by_kernel and "NVRM" in record.text]
        raise Blocked(f"no Xid 79 came of it: {others[0] if others else 'the driver said nothing'}")

    def undo(self, state: Mapping[str, Any]) -> None:
        """Let go of the bus, should whoever held it have been killed. The GPU does not come back by that."""
        if state["boot"] == boot_id() and self._control(state["bridge"]) & _RESET:
            self._set(state["bridge"], reset=False)

    def verify_undone(self, state: Mapping[str, Any]) -> str:
        """Ask the driver for the GPU. Raises NotRestored while it is lost."""
        status, said = run("nvidia-smi", f"--id={state['gpu']}", "--query-gpu=uuid", "--format=csv,noheader")
        if status != 0:
            raise NotRestored(f"GPU {state['gpu']} is lost until the node is restarted: {said[:200]}")
        return f"GPU {state['gpu']} answers: {said}"

    def _refuse_machine(self) -> None:
        cpu = (self._root / "proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        maker = self._root / "sys/class/dmi/id/sys_vendor"
        name = maker.read_text(encoding="utf-8").strip() if maker.exists() else ""
        product = self._root / "sys/class/dmi/id/product_name"
        metal = product.exists() and ".metal" in product.read_text(encoding="utf-8")
        if " hypervisor" in cpu or (name.startswith(_MAKERS) and not metal):
            raise Refused(f"it is a virtual machine ({name or 'by its processor'}): the host owns the bridge")
        if "CPU implementer" in cpu and self._args.get("grace") is not True:
            raise Refused(
                "it is an Arm machine, as with Grace, where nobody has tried it: grace = true allows it"
            )

    def _bridge(self, gpu: str) -> Path:
        bridge = pci.device(self._root, gpu).parent
        if pci.kind(bridge) != pci.BRIDGE:
            raise Refused(f"GPU {gpu} hangs on no bridge that could reset it alone")
        below = [place for place in bridge.rglob("*") if pci.ADDRESS.fullmatch(place.name)]
        device = gpu.rpartition(".")[0]
        others = [place for place in below if place.is_dir() and place.name.rpartition(".")[0] != device]
        if others:
            named = ", ".join(sorted(f"{place.name} (class {pci.kind(place)})" for place in others))
            raise Refused(f"bridge {bridge.name} would reset more than GPU {gpu}: {named}")
        return bridge

    def _control(self, bridge: str) -> int:
        with (pci.device(self._root, bridge) / "config").open("rb", buffering=0) as registers:
            registers.seek(_CONTROL)
            return (registers.read(1) or b"\0")[0]

    def _set(self, bridge: str, *, reset: bool) -> None:
        control = self._control(bridge)
        with (pci.device(self._root, bridge) / "config").open("r+b", buffering=0) as registers:
            registers.seek(_CONTROL)
            registers.write(bytes([control | _RESET if reset else control & ~_RESET]))

    def _sign(self, state: Mapping[str, Any]) -> str:
        return f"NVRM: Xid (PCI:{state['gpu'].rpartition('.')[0]}): 79,"

    def _fallen(self, state: Mapping[str, Any]) -> str:
        """Give the driver's own line; one that a program wrote does not count."""
        sign = self._sign(state)
        return next((one.text for one in self._found if one.by_kernel and sign in one.text), "")
