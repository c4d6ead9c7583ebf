r"""Nodes that are namespaces: each has its own name, boot, network, processes and view of files.

They hang on the bridge of a switch that is a network namespace too, so that nothing of the machine's own
network is touched. Needs root. A rack is a context: whatever happens in it, its nodes are powered off.

    with Rack(tmp_path, "login", "n1", "n2") as rack:
        rack["n1"].install("nvidia-smi", "#!/bin/sh\necho none")
        done = rack["login"].run("ping", "-c1", "n1")
        rack["n2"].power_off()
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import uuid
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

# Both die with the test, also by SIGKILL: the kernel kills unshare, and unshare its child.
_MORTAL = ("setpriv", "--pdeathsig", "KILL")
_STAY = "exec env --ignore-signal=CHLD sleep infinity"  # so the kernel itself buries orphans: no zombie stays

_BOOT = f"""
set -e
hostname "$1"
mount --bind "$2/boot_id" /proc/sys/kernel/random/boot_id
mount --bind "$2/../hosts" /etc/hosts
mount -t tmpfs run /run
mkdir -p /run/sshd /run/tools /run/work
mount -t overlay tools -o lowerdir=/usr/local/bin,upperdir=/run/tools,workdir=/run/work /usr/local/bin
echo up
{_STAY}
"""


def needs(*tools: str) -> pytest.MarkDecorator:
    """Mark tests that use a rack, and these tools on it: they are skipped where it cannot be had."""
    missing = [tool for tool in ("ip", "ps", "nsenter", "setpriv", *tools) if not shutil.which(tool)]
    reason = f"not here: {', '.join(missing)} (apt-get install what .ci/run does)" if missing else ""
    if os.geteuid() != 0:
        reason = "needs root, for namespaces: run pytest as root"
    return pytest.mark.skipif(bool(reason), reason=reason)


@dataclass(frozen=True, slots=True)
class Node:
    """A running node. ``pid`` is its first process, as the machine sees it; ``switch`` that of the switch.

    ``handle`` is a descriptor of the first process, by which none other can be met.
    """

    name: str
    address: str
    boot_id: str
    pid: int
    handle: int
    switch: int

    def argv(self, *argv: str) -> list[str]:
        """Give the command that runs ``argv`` inside; it stays where it is in the tree of files."""
        inside = ["nsenter", "-t", str(self.pid), "-n", "-u", "-p", "-m", "-T", "-i"]
        return [*inside, f"--wdns={Path.cwd()}", "--", *argv]

    def run(self, *argv: str, check: bool = True, **how: Any) -> subprocess.CompletedProcess[str]:
        """Run a command inside to its end; ``how`` is that of ``subprocess.run``."""
        how = {"capture_output": True, "text": True, **how}
        return subprocess.run(self.argv(*argv), check=check, **how)

    def start(self, *argv: str, **how: Any) -> subprocess.Popen[bytes]:
        """Start a command inside; ``how`` is that of ``subprocess.Popen``."""
        return subprocess.Popen(self.argv(*argv), **how)

    def install(self, tool: str, text: str) -> None:
        """Put a program into this node's own /usr/local/bin, which comes first in every usual PATH."""
        place = f"/usr/local/bin/{tool}"
        self.run("sh", "-c", f"cat > {place} && chmod 755 {place}", input=text)

    def cover(self, path: str, by: Path) -> None:
        """Show this node another file, or folder, where the machine has ``path``."""
        self.run("mount", "--bind", str(by), path)

    def processes(self) -> dict[int, str]:
        """Give the command lines of all that runs inside, by number, without its first one."""
        look = "ps -eo pid=,args= ww"
        fields = [line.split(None, 1) for line in self.run(*look.split()).stdout.splitlines()]
        return {int(pid): args for pid, args in fields if pid != "1" and args != look}

    def power_off(self) -> None:
        """Cut its power: when this returns, all its processes are gone, and nobody has its address."""
        _end(self.handle)
        _ip(self.switch, f"link del {_port(self.address)}", check=False)  # it may have gone with the node

    def pull_cable(self) -> None:
        """Take its cable out of the switch: it runs on, and nobody reaches it."""
        self._cable("down")

    def plug_cable(self) -> None:
        """Put its cable back."""
        self._cable("up")

    def _cable(self, state: str) -> None:
        _ip(self.switch, f"link set {_port(self.address)} {state}")


class Rack:
    """A switch and its nodes, which know each other by name; the folder is theirs alone."""

    def __init__(self, folder: Path, *names: str) -> None:
        """Only hold; entering the context boots the nodes."""
        self._folder = folder / "rack"
        self._names = names
        self._nodes: dict[str, Node] = {}
        self._stack = ExitStack()
        self._switch = 0  # its first process

    def __enter__(self) -> Self:
        """Start the switch, and boot all nodes."""
        self._folder.mkdir()
        self._hosts.write_text("127.0.0.1 localhost\n")
        try:
            self._switch, _ = self._unshare("switch", f"echo up; {_STAY}", "--net")
            _ip(self._switch, "link add br0 type bridge", "link set br0 up")
            for name in self._names:
                self.boot(name)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Power everything off and wait until it is."""
        self._stack.close()

    def __getitem__(self, name: str) -> Node:
        """Give a node by its name."""
        return self._nodes[name]

    def __iter__(self) -> Iterator[Node]:
        """Go through the nodes in the order in which they first booted."""
        return iter(self._nodes.values())

    @property
    def _hosts(self) -> Path:
        return self._folder / "hosts"

    def alias(self, node: Node, name: str) -> None:
        """Have all nodes know one by another name as well."""
        self._publish(node.address, name)

    def _publish(self, address: str, name: str) -> None:
        with self._hosts.open("a") as hosts:  # in place: it is mounted in the nodes that run
            hosts.write(f"{address} {name}\n")

    def boot(self, name: str) -> Node:
        """Boot a node, or boot one again that was powered off: with a new boot id, at its old address."""
        known = self._nodes.get(name)
        address = known.address if known else f"10.77.0.{len(self._nodes) + 1}"
        boot_id = str(uuid.uuid4())
        own = self._folder / name
        own.mkdir(exist_ok=True)
        (own / "boot_id").write_text(f"{boot_id}\n")
        if not known:
            self._publish(address, name)
        pid, handle = self._unshare(name, _BOOT, *_own_everything(), own=own)
        node = self._nodes[name] = Node(name, address, boot_id, pid, handle, self._switch)
        self._wire(node)
        return node

    def _wire(self, node: Node) -> None:
        port, number = _port(node.address), int(node.address.rpartition(".")[2])
        card = f"address 02:00:00:00:00:{number:02x}"  # the same after a boot: others remember it
        _ip(
            self._switch,
            f"link add {port} type veth peer name eth0 {card} netns {node.pid}",
            f"link set {port} master br0",
            f"link set {port} up",
        )
        _ip(node.pid, "link set lo up", f"addr add {node.address}/24 dev eth0", "link set eth0 up")

    def _unshare(self, name: str, script: str, *namespaces: str, own: Path | None = None) -> tuple[int, int]:
        """Start a first process, wait until its script says that it is up; give its number and handle."""
        unshare = (*_MORTAL, "unshare", "--fork", "--kill-child", *namespaces)
        process = self._stack.enter_context(
            subprocess.Popen(
                [*unshare, "sh", "-c", script, "sh", name, str(own or "")],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
            )
        )
        self._stack.callback(process.kill)
        if not process.stdout or process.stdout.readline() != b"up\n":
            raise RuntimeError(f"node {name} did not boot: exit {process.wait()}")
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        pid = int(children.read_text())
        handle = os.pidfd_open(pid)
        self._stack.callback(os.close, handle)
        self._stack.callback(_end, handle)
        return pid, handle


def _end(handle: int) -> None:
    """Kill a first process, and wait: it ends after all others of its node."""
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    select.select([handle], [], [])


def _own_everything() -> tuple[str, ...]:
    """Give the namespaces of a node; by the clock of its boot, it was booted now."""
    up = Path("/proc/uptime").read_text(encoding="ascii").partition(".")[0]
    clocks = ("--time", "--boottime", f"-{up}", "--monotonic", f"-{up}")
    return ("--net", "--uts", "--ipc", "--mount", "--pid", "--mount-proc", *clocks)


def _port(address: str) -> str:
    return f"port{address.rpartition('.')[2]}"


def _ip(pid: int, *commands: str, check: bool = True) -> None:
    """Run commands of ``ip`` in the network of a process."""
    inside = ["nsenter", "-t", str(pid), "-n", "ip", "-batch", "-"]
    subprocess.run(inside, input="\n".join(commands), text=True, check=check, capture_output=True)
