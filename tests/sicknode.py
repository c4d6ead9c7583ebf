"""A node of a real Slurm on which every fault can be injected, and a provider's tooling that looks after it.

Real on it: its kernel's processes, links, file systems and Slurm. Its GPUs, their tools and drivers, its
kernel log and the address book of its buses are stand-ins, as no machine that runs these tests has them.
"""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from breaking import NODE, Breaking, start_gpud
from gpuassay.fault.rank import NAME
from nodefault import DCGMI, GPU, Tree
from nodes import Rack
from slurmd import LOGIN, Slurm
from waiting import wait_until

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator, Sequence

BRIDGE = "0000:15:01.0"
_ERRORS = "sys/class/drm/card0/device/ras/gfx_err_count"
_RAS_CTRL = "sys/kernel/debug/dri/0/ras/ras_ctrl"
MANAGER, SHARED, SCRATCH = "nv-fabricmanager", "/run/shared", "/run/scratch"
REASON = "tooling has seen it"
_MOUNTED = (
    f"mkdir /run/sysfs {SHARED} {SCRATCH}",
    "mount -t sysfs sysfs /run/sysfs",
    f"mount -t tmpfs -o size=8m scratch {SCRATCH}",
    "ip link add rail0 type veth peer name switch0",
    "ip link set switch0 up",
    "ip link set rail0 up",
)
_PLAINFS = Path(__file__).parent / "plainfs.py"

# The driver: it says so when it reads a GPU whose bus is held in reset, and knows that GPU no more.
_SMI = f"""
registers="$ROOT/sys/bus/pci/devices/{BRIDGE}/config"
if [ $(($(od -An -tu1 -j62 -N1 "$registers") & 64)) != 0 ]; then
    echo "4,9,1,-;NVRM: Xid (PCI:{GPU[:-2]}): 79, GPU has fallen off the bus." >> /dev/kmsg
    touch "$ROOT/lost"
fi
[ ! -e "$ROOT/lost" ] || exit 6
case "$*" in
*gpu-reset*) echo Disabled > "$ROOT/kept"; echo "GPU was successfully reset." ;;
*persistence-mode=1*) echo Enabled > "$ROOT/kept" ;;
*persistence_mode*) cat "$ROOT/kept" ;;
*compute-apps*) ;;
*uuid*) echo GPU-1 ;;
esac
"""


@dataclass(frozen=True)
class Told:
    """One fault by its check: what tooling can see of it (a shell's condition), and what is right.

    ``serious``: the node may be taken for it. ``wrong`` is the verdict where a provider gets it wrong;
    ``timed``: also where he is late. ``stays``: it is there until somebody mends it.
    """

    check: str
    sign: str
    serious: bool = True
    wrong: str = "fail"
    timed: bool = True
    stays: bool = True

    @property
    def name(self) -> str:
        """The last part of its id."""
        return self.check.rpartition("test_")[2]


_REAL, _LINES = "test_real_faults.py::test_", "test_synthetic_faults.py::test_"


def _line(name: str, sign: str, *, serious: bool = True) -> Told:
    return Told(f"{_LINES}{name}", f"grep -q '{sign}' /dev/kmsg", serious, stays=False)


def _mild(name: str, sign: str) -> Told:
    return Told(f"{_REAL}{name}", sign, wrong="warn", timed=False)


_RANK_GONE = (
    f"if ps -C {NAME} >/dev/null; then touch $ROOT/ranked; fi; "
    f"test -e $ROOT/ranked && ! ps -C {NAME} >/dev/null"
)

FAULTS = (
    Told("test_failure_injection.py::test_frozen_scheduler_daemon", "ps -C gpud -o stat= | grep -q T"),
    _line("fallen_gpu_line", "Xid (PCI:0000:18:00): 79"),
    _line("memory_error_lines", "Xid (PCI:0000:18:00): 95"),
    _line("fatal_switch_line", "SXid .* Fatal"),
    _line("application_error_lines", "Xid (PCI:0000:18:00): 13", serious=False),
    _line("corrected_switch_line", "SXid .* Non-fatal", serious=False),
    Told(f"{_LINES}fallen_gpu_in_dcgm", "grep -qx 79 $ROOT/field-230"),
    Told(f"{_LINES}double_bit_errors_in_dcgm", "grep -qx 1 $ROOT/field-319"),
    Told(f"{_REAL}lost_fabric_port", "grep -q down /sys/class/net/rail0/operstate"),
    Told(f"{_REAL}reset_gpu", "grep -q Disabled $ROOT/kept", serious=False, wrong="warn"),
    Told(f"{_REAL}killed_rank", _RANK_GONE, serious=False, stays=False),
    Told(f"{_REAL}frozen_rank", f"ps -C {NAME} -o stat= | grep -q T", serious=False),
    Told(f"{_REAL}amd_uncorrected_error", f"grep -q 'ue: 1' $ROOT/{_ERRORS}", stays=False),
    _mild("frozen_fabric_manager", "ps -C nv-fabricmanage -o stat= | grep -q T"),
    _mild("full_scratch", f"df --output=pcent {SCRATCH} | grep -q 9[0-9]"),
    _mild("hung_storage", f"! timeout 1 stat -f {SHARED} >/dev/null"),
    Told(f"{_REAL}fallen_gpu", "! nvidia-smi --list-gpus"),
)
"""Every fault that can be injected there. The last one only a boot undoes."""


def some(*names: str) -> list[Told]:
    """Give the faults of these names."""
    return [next(one for one in FAULTS if one.name == name) for name in names]


class SickNode:
    """What is beside Slurm on the node; all of it is new with each boot."""

    def __init__(self, slurm: Slurm, folder: Path) -> None:
        """Only hold."""
        self.slurm = slurm
        self._folder = folder
        self._boots = 0

    @property
    def root(self) -> Path:
        """Where its stand-ins keep what they know, since its last boot."""
        return self._folder / f"boot-{self._boots}"

    def equip(self) -> None:
        """Make the node whole: GPUs on its bus, daemons, a port, scratch and shared storage."""
        self._boots += 1
        tree = Tree(self.root).with_gpus()
        tree.write("kept", "Enabled\n")
        tree.write(_ERRORS, "ue: 0\nce: 5\n")
        tree.write(_RAS_CTRL, "")
        tree.write("sys/class/net/rail0/device/infiniband/mlx5_0/node_type", "1: CA\n")
        for name in ("flags", "operstate"):
            (self.root / "sys/class/net/rail0" / name).symlink_to(f"/run/sysfs/class/net/rail0/{name}")
        node = self.slurm.rack[NODE]
        for command in _MOUNTED:
            node.run(*command.split())
        for path in ("sys/class", "sys/bus/pci/devices", "sys/kernel/debug", "proc/cpuinfo", "dev/kmsg"):
            node.cover(f"/{path}", self.root / path)
        for tool, script in (("nvidia-smi", _SMI), ("dcgmi", DCGMI)):
            node.install(tool, f'#!/bin/sh\nROOT="{self.root}"\n{script}')
        start_gpud(self.slurm)
        start_gpud(self.slurm, MANAGER)
        serve = f"exec setsid -f {sys.executable} {_PLAINFS} {SHARED} </dev/null >/dev/null 2>&1"
        node.run("sh", "-c", serve)
        wait_until(lambda: self.shows("stat -f -c %T /run/shared | grep -q fuse"))

    def shows(self, sign: str) -> bool:
        """Tell whether something can be seen on the node."""
        shell = ("sh", "-c", f"ROOT={self.root}; {sign}")
        return self.slurm.rack[NODE].run(*shell, check=False).returncode == 0

    def boot(self) -> None:
        """Give the node another boot, with all that it had; who has drained it lets it in again."""
        self.slurm.reboot(NODE)
        self.equip()
        # it may be in service
        self.slurm.run("scontrol", "update", f"nodename={NODE}", "state=resume", check=False)

    def renew(self) -> None:
        """Take care that nothing of ours is left, and give the node a boot after all that it had."""
        self.slurm.assert_nothing_runs()
        self.boot()
        self.slurm.revive(NODE)

    def waits(self) -> bool:
        """Tell whether a dead-man waits on the node."""
        return self.shows("ps -eo args= | grep -q '[g]puassay-fault'")

    def drive(self) -> None:
        """Do what AMD's driver does about an error that it is told to inject: count it."""
        told = self.root / _RAS_CTRL
        if told.exists() and told.read_text(encoding="ascii"):
            (self.root / _ERRORS).write_text("ue: 1\nce: 5\n", encoding="ascii")


@contextmanager
def sick_node(folder: Path) -> Iterator[SickNode]:
    """Boot a Slurm of three nodes, of which one can have every fault."""
    with Rack(folder, LOGIN, "n1", NODE, "n3") as rack:
        slurm = Slurm(rack, folder / "slurm", {"main": "Nodes=ALL Default=YES State=UP"})
        slurm.start()
        node = SickNode(slurm, folder)
        node.equip()
        yield node


class Provider:
    """A provider's tooling: drains the node at what it knows, and lets it in again after a boot."""

    def __init__(  # noqa: PLR0913 - what tells good tooling from bad
        self,
        node: SickNode,
        run: Breaking,
        knows: Sequence[Told],
        patience_s: float = 0.0,
        *,
        mends: bool = True,
        lets_in: bool = True,
    ) -> None:
        """Take what it knows, how long it waits, whether it mends the node then, or lets it in at all."""
        self._node, self._run = node, run
        self._signs = " || ".join(f"{{ {fault.sign}; }}" for fault in knows)
        self._patience_s, self._mends, self._lets_in = patience_s, mends, lets_in
        self.drained: list[float] = []  # when, by the wall clock
        self.let_in: list[float] = []

    def __call__(self) -> None:
        """Look once, and act."""
        if (self.drained and not self._lets_in) or not self._node.shows(self._signs):
            return
        time.sleep(self._patience_s)
        ended, watched = self._run.count("end"), self._run.count("over")
        self.drained.append(time.time())
        self._node.slurm.drain(NODE, REASON)
        if not self._lets_in:
            return
        wait_until(lambda: self._run.count("end") > ended)
        wait_until(lambda: not self._node.slurm.jobs())  # without power a job ends for long
        if not self._mends:
            self._node.slurm.run("scontrol", "update", f"nodename={NODE}", "state=resume")
            wait_until(lambda: self._run.count("over") > watched)
        self._node.boot()
        self.let_in.append(time.time())


def attend(
    process: subprocess.Popen[bytes],
    *looks: Callable[[], None],
    until: Callable[[], bool] = lambda: False,
    patience_s: float = 400.0,
) -> int | None:
    """Do what is to be done beside a run, ten times a second, until it ends, or so; give its exit status.

    It is done by this thread: a node lives no longer than the thread that has booted it.
    """
    wait_until(lambda: _beside(process, looks) or until(), patience_s=patience_s)
    return process.poll()


def _beside(process: subprocess.Popen[bytes], looks: Sequence[Callable[[], None]]) -> bool:
    for look in looks:
        look()
    return process.poll() is not None
