"""The nodes on which targets are tried: what each has of its own, and that nothing of them stays."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nodes import Rack, needs

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = needs()


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rack]:
    """Boot two nodes for all tests here; none of them breaks one."""
    with Rack(tmp_path_factory.mktemp("nodes"), "n1", "n2") as rack:
        yield rack


def test_a_node_is_a_machine_of_its_own(rack: Rack) -> None:
    """Name, boot id, time since boot, processes and addresses are not this machine's, nor the other's."""
    n1, n2 = rack
    assert n1.run("hostname").stdout == "n1\n"
    assert n1.run("cat", "/proc/sys/kernel/random/boot_id").stdout.strip() == n1.boot_id != n2.boot_id
    assert float(n1.run("cat", "/proc/uptime").stdout.split()[0]) < 600
    assert n1.processes() == {}
    assert f"{n1.address}/24" in n1.run("ip", "-o", "addr").stdout
    assert n1.address not in subprocess.run(["ip", "addr"], capture_output=True, text=True, check=True).stdout


def test_a_node_has_its_own_view_of_files(rack: Rack, tmp_path: Path) -> None:
    """A tool that is installed on one node, and a file that is covered there, are so nowhere else."""
    n1, n2 = rack
    (tmp_path / "os-release").write_text("ID=mine\n")
    n1.install("gpuassay-tool", "#!/bin/sh\necho from n1\n")
    n1.cover("/etc/os-release", tmp_path / "os-release")

    assert n1.run("gpuassay-tool").stdout == "from n1\n"
    assert n1.run("cat", "/etc/os-release").stdout == "ID=mine\n"
    assert n2.run("sh", "-c", "command -v gpuassay-tool", check=False).returncode == 127
    assert "ID=mine" not in Path("/etc/os-release").read_text()
    assert not Path("/usr/local/bin/gpuassay-tool").exists()


def reaches(rack: Rack, name: str) -> bool:
    """Tell whether n1 can connect to a port of another node; refused is reached."""
    code = (
        "import socket, sys\n"
        "try: socket.create_connection((sys.argv[1], 9), 1)\n"
        "except ConnectionRefusedError: print('reached')\n"
        "except OSError as error: print(error)\n"
    )
    return rack["n1"].run(sys.executable, "-c", code, name).stdout == "reached\n"


def test_power_and_cable(tmp_path: Path) -> None:
    """A node without its cable runs on unreached; one without power is gone, and boots anew."""
    with Rack(tmp_path, "n1", "n2") as rack:
        assert reaches(rack, "n2")
        rack["n2"].pull_cable()
        assert not reaches(rack, "n2")
        assert rack["n2"].run("hostname").stdout == "n2\n"
        rack["n2"].plug_cable()
        assert reaches(rack, "n2")
        before = rack["n2"].boot_id
        rack["n2"].power_off()
        assert not reaches(rack, "n2")
        assert rack.boot("n2").boot_id != before
        assert reaches(rack, "n2")


def test_nothing_of_a_rack_stays(tmp_path: Path) -> None:
    """What was started on a node ends with the rack, also where a test fails in it."""
    with pytest.raises(RuntimeError, match="on purpose"), Rack(tmp_path, "n1") as rack:  # noqa: PT012
        sleeping = rack["n1"].start("sleep", "infinity")
        raise RuntimeError("on purpose")
    assert sleeping.wait(10) != 0
    assert not Path(f"/proc/{rack['n1'].pid}").exists()


def test_a_rack_ends_with_the_test_that_is_killed(tmp_path: Path) -> None:
    """Not even SIGKILL leaves a node behind."""
    code = (
        "import sys, pathlib, nodes\n"
        "with nodes.Rack(pathlib.Path(sys.argv[1]), 'n1') as rack:\n"
        "    print(rack['n1'].pid, flush=True); sys.stdin.read()\n"
    )
    path = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])}
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        env={**os.environ, **path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout
        node = os.pidfd_open(int(holder.stdout.readline()))
        holder.kill()
    assert select.select([node], [], [], 10)[0] == [node]
    os.close(node)
