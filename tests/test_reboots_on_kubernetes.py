"""A node of Kubernetes that restarts itself, by a stand-in for systemctl, on the API of tests."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

import rebooting
from gpuassay.evidence.recording import read_measurement
from kubeapi import cluster
from kubeapi.rig import IMAGE, clusters
from kubeapi.store import Key
from nodes import Rack, needs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kubeapi.server import ApiServer

pytestmark = needs()
NODE = "gpu1"
_OFF_S = 2.0


@dataclass
class Machine:
    """The node: it goes off when its systemctl is told to restart it, and comes up with other ``labels``.

    With ``wipes`` its volumes are empty then.
    """

    server: ApiServer
    rack: Rack
    folder: Path
    labels: dict[str, str | None] = field(default_factory=dict)
    wipes: bool = False
    _off: float = 0.0

    def install(self) -> None:
        """Give it the stand-in for systemctl, which it has on its disk, and a way for pods to run there."""
        node = self.rack[NODE]
        node.install("systemctl", f'#!/bin/sh\ntest "$1" = reboot && : > "{self.folder}/asked"\n')
        self.server.kubelet.within[NODE] = node.argv

    def serve(self) -> None:
        """Cut its power if it asked for that, or boot it if it has been off for long enough."""
        asked = self.folder / "asked"
        if asked.exists():
            asked.unlink()
            self._set(cluster.not_ready(NODE))
            self.rack[NODE].power_off()
            self._off = time.monotonic()
        if self._off and time.monotonic() > self._off + _OFF_S:
            self._off = 0.0
            for file in self.folder.rglob("gpuassay-kept") if self.wipes else ():
                file.unlink()
            booted = cluster.node(NODE, 8)
            booted["status"]["nodeInfo"]["bootID"] = self.rack.boot(NODE).boot_id
            self.install()
            self._set(booted)

    def _set(self, made: dict[str, Any]) -> None:
        with self.server.store.changed:
            found = self.server.store.get(Key("nodes", "", NODE))
            assert found is not None
            labels = {**found["metadata"]["labels"], **self.labels}
            found["metadata"]["labels"] = {key: value for key, value in labels.items() if value is not None}
            found["spec"], found["status"] = made["spec"], made["status"]
            self.server.store.put("nodes", found)

    def reboot(self, return_s: int, *options: str) -> int:
        """Run the checks, and give how that ended."""
        words = {"target": "kubernetes", "break-nodes": NODE}
        command = rebooting.argv(self.folder, return_s, *options, **words)
        with (self.folder / "out").open("wb") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until = time.monotonic() + 180
        while process.poll() is None:
            assert time.monotonic() < until
            self.serve()
            time.sleep(0.1)
        return process.returncode

    def verdicts(self) -> dict[str, str]:
        """Give the verdicts of the checks."""
        return {name: found["verdict"] for name, found in rebooting.results(self.folder).items()}


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Start a cluster with that node, which has a label."""
    with Rack(tmp_path, NODE) as rack, clusters(tmp_path) as start:
        node = cluster.node(NODE, 8)
        node["metadata"]["labels"]["example.com/rack"] = "r7"
        server = start(node)
        found = server.store.get(Key("storageclasses", "", "fast"))
        assert found is not None
        server.store.put("storageclasses", {**found, "parameters": {"kind": "csi"}})
        config = server.kubeconfig(tmp_path / "kubeconfig")
        reach = f'[kubernetes]\nkubeconfig = "{config}"\nimage = "{IMAGE}"\nwait = "2s"\n'
        pool = f'[[pool]]\nnodes = "{NODE}"\nhas = ["kubernetes"]\n'
        (tmp_path / "site.toml").write_text(f'[cluster]\nname = "t"\n{pool}{reach}', encoding="utf-8")
        machine = Machine(server, rack, tmp_path)
        machine.install()
        yield machine
        assert not server.store.ours()


def test_node_that_restarts_itself_returns(machine: Machine) -> None:
    """It is held until it is back, with another boot and all that it had; nothing of ours is left."""
    assert machine.reboot(60, "--host-view") == 0, (machine.folder / "out").read_text()
    good = dict.fromkeys(("return_time", "same_machine", "scheduler", "claims"), "pass")
    assert machine.verdicts() == {**good, "mounts_and_data": "skip"}
    story = read_measurement(machine.folder / "run" / "recording", "reboot", [NODE])[NODE]
    assert [item.asked["state"] for item in story.items if item.id == "end"] == ["returned"]


def test_what_is_lost_is_named(machine: Machine) -> None:
    """A node registers anew without a label that was set by hand, and a boot has emptied its volume."""
    machine.labels, machine.wipes = {"example.com/rack": None}, True
    assert machine.reboot(60, "--host-view") == 1
    found = rebooting.results(machine.folder)
    assert found["scheduler"]["verdict"] == found["claims"]["verdict"] == "fail"
    assert "label example.com/rack is gone" in found["scheduler"]["reason"]
    assert "No such file or directory" in found["claims"]["reason"]


def test_without_the_hosts_view_nothing_is_rebooted(machine: Machine) -> None:
    """Only root on the node can restart it, and that is said."""
    assert machine.reboot(60) == 0
    assert set(machine.verdicts().values()) == {"not_run", "skip"}
    assert "--host-view" in (machine.folder / "run" / "junit.xml").read_text(encoding="utf-8")
