"""A node that is a folder, for faults to act on: its buses, its kernel log, and the tools on its PATH."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from gpuassay.fault.node.words import Fault

MARK = "1a2b3c4d"
GPU, OTHER, SWITCH = "0000:18:00.0", "0000:3e:00.0", "0000:c1:00.0"
_CLASSES = {
    "gpu": "0x030200",
    "switch": "0x068000",
    "nic": "0x020000",
    "bridge": "0x060400",
    "audio": "0x040300",
}

# A host engine: a file for each field, a log of what was put there, and metadata as its cache has them.
DCGMI = """
case "$1 $2" in
"discovery --list") printf '| GPU ID | Device |\\n| 0      | Name: B200 |\\n| 1      | Name: B200 |\\n' ;;
"test --inject") [ -e "$ROOT/deaf" ] || echo "$8" > "$ROOT/field-$6"; echo "$4 $6 $8" >> "$ROOT/put" ;;
"test --introspect") echo "Samples: 3  Watchers: 1" ;;
dmon*) [ -e "$ROOT/field-$3" ] && shown=$(cat "$ROOT/field-$3")
    printf '#Entity  VALUE\\nID\\nGPU %s   %s\\n' "${5#gpu:}" "${shown:-N/A}" ;;
*) exit 2 ;;
esac
"""


class Tree:
    """A folder that looks as a node does from its root."""

    def __init__(self, root: Path) -> None:
        """Make one with a kernel log and no devices."""
        self.root = root
        self.write("dev/kmsg", "6,1,1000,-;Linux version 6.8.0\n")
        self.write("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vme\n")
        (self.root / "sys/bus/pci/devices").mkdir(parents=True)

    def write(self, path: str, text: str | bytes) -> Path:
        """Write a file of the node."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode() if isinstance(text, str) else text)
        return place

    def read(self, path: str) -> str:
        """Read a file of the node."""
        return (self.root / path).read_text(encoding="utf-8")

    def device(self, path: str, kind: str, vendor: str = "0x10de") -> Path:
        """Put a device below the devices that ``path`` names, the last of which it is."""
        place = self.root / "sys/devices/pci0000:15" / path
        place.mkdir(parents=True, exist_ok=True)
        (place / "class").write_text(f"{_CLASSES[kind]}\n", encoding="ascii")
        (place / "vendor").write_text(f"{vendor}\n", encoding="ascii")
        (place / "config").write_bytes(bytes(64))
        link = self.root / "sys/bus/pci/devices" / place.name
        link.symlink_to(place)
        return place

    def with_gpus(self) -> Self:
        """Put two GPUs behind a bridge each, and an NVSwitch."""
        self.device("0000:15:01.0", "bridge", "0x1000")
        self.device(f"0000:15:01.0/{GPU}", "gpu")
        self.device("0000:15:02.0", "bridge", "0x1000")
        self.device(f"0000:15:02.0/{OTHER}", "gpu")
        self.device(SWITCH, "switch")
        return self


class FakeNode(Tree):
    """One on which tests run as if by root, with tools on its PATH."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        """Make it, and lead this process there."""
        super().__init__(root / "node")
        self._tools = root / "tools"
        self._tools.mkdir()
        patch.setenv("PATH", f"{self._tools}:/usr/sbin:/usr/bin:/sbin:/bin")
        patch.setattr("os.geteuid", lambda: 0)

    def tool(self, name: str, script: str) -> None:
        """Put a tool on its PATH: a shell script, which finds the node's root in $ROOT."""
        place = self._tools / name
        place.write_text(f'#!/bin/sh\nROOT="{self.root}"\n{script}\n', encoding="utf-8")
        place.chmod(0o755)


def broken(fault: Fault) -> dict[str, Any]:
    """Plan and inject a fault, with proof; give the state that its undo needs."""
    state = fault.plan().state
    fault.inject(state)
    assert fault.verify_injected(state)
    return state
