"""A run that breaks something on a node of the Kubernetes of tests, and what a controller does there."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from breaking import compared
from gpuassay.evidence.recording import read_survey
from gpuassay.facts.fault_trial import FaultTrial, trials
from kubeapi import cluster
from kubeapi.rig import IMAGE, clusters, target
from kubeapi.store import Key, now
from nodes import Rack

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpuassay.target.kubernetes import Kubernetes
    from kubeapi.server import ApiServer
    from kubeapi.store import Object
    from nodes import Node

ROOT = Path(__file__).parents[1]
NODE, OTHER = "gpu1", "gpu2"
_KEY = Key("nodes", "", NODE)
_KUBELET = "#!/bin/sh\nwhile :; do sleep 3600; done\n"


@dataclass
class Place:
    """A cluster of two nodes. One is a namespace with a process called kubelet, which can be frozen."""

    server: ApiServer
    rack: Rack
    folder: Path
    changed_at: float = 0.0  # when cordon or taints were, by the wall clock

    @property
    def node(self) -> Node:
        """The machine, or the one that came in its place."""
        return self.rack[NODE]

    def reached(self) -> Kubernetes:
        """Make a target that leads to the node."""
        return target(self.server, self.folder, NODE, wait_s=2, host_view=True)

    def argv(self, *argv: str) -> list[str]:
        """Give the command that runs ``argv`` on the machine that is there now."""
        return self.node.argv(*argv)

    def frozen(self) -> bool:
        """Tell whether the node's kubelet is stopped."""
        return "T" in self.node.run("ps", "-C", "kubelet", "-o", "stat=", check=False).stdout

    def cordon(self, manager: str = "health-controller") -> None:
        """Take the node out of service, as a controller does."""
        taint = {"key": "example.com/sick", "effect": "NoSchedule"}
        self._change({"unschedulable": True, "taints": [taint]}, manager)

    def uncordon(self, manager: str = "health-controller") -> None:
        """Let work in there again."""
        self._change({"unschedulable": False, "taints": []}, manager)

    def _change(self, spec: Mapping[str, Any], manager: str) -> None:
        with self.server.store.changed:
            found = self.server.store.get(_KEY)
            assert found is not None
            found["spec"] |= spec
            wrote: dict[str, Any] = {"f:spec": {"f:unschedulable": {}, "f:taints": {}}}
            found["metadata"]["managedFields"] = [{"manager": manager, "time": now(), "fieldsV1": wrote}]
            self.server.store.put("nodes", found)
            self.changed_at = time.time()

    @property
    def standing(self) -> Mapping[str, Any]:
        """What the node's object says of cordon and taints."""
        found = self.server.store.get(_KEY)
        assert found is not None
        standing: Mapping[str, Any] = found["spec"]
        return standing

    def pods(self) -> list[Object]:
        """Give the pods that are there."""
        return self.server.store.select("pods")

    def replace(self) -> None:
        """Delete the node and its pods, and have another machine join under its name, its GPUs last."""
        self.server.store.remove(_KEY)
        for pod in self.pods():
            key = Key("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
            if pod["spec"].get("nodeName") == NODE:
                self.server.kubelet.stop(key)
                self.server.store.remove(key)
        self.node.power_off()
        self.rack.boot(NODE)
        start_kubelet(self.node)
        bare, whole = (_machine("b", gpus) for gpus in (0, 8))
        self.server.store.put("nodes", bare)
        self.server.store.put("nodes", whole)

    def whole(self) -> bool:
        """Tell whether nothing of ours is left, neither on the node nor in the cluster."""
        return not self.frozen() and not self.has_dead_man() and not self.server.store.ours()

    def has_dead_man(self) -> bool:
        """Tell whether a dead-man waits on the node, or has left his folder."""
        return "gpuassay-fault" in self.node.run("sh", "-c", "ls /run; ps -eo args=").stdout

    def start(
        self, check: str, watch_s: int, mend_s: int, *options: str, replace_s: int = 1
    ) -> subprocess.Popen[bytes]:
        """Start a run of a check (``FILE::FUNCTION``, or more of a file by ``-k``) on this machine."""
        self._write(watch_s, mend_s, replace_s)
        hour, moment = timedelta(hours=1), datetime.now(UTC)
        words = {
            "target": "kubernetes",
            "site": self.folder / "site.toml",
            "thresholds": self.folder / "thresholds.toml",
            "allow": "break",
            "break-nodes": NODE,
            "ticket": "CHG-1",
            "window": f"{moment - hour:%Y-%m-%dT%H:%MZ}/{moment + 3 * hour:%Y-%m-%dT%H:%MZ}",
            "run-dir": self.folder / "run",
            "deadline": "20s",
        }
        argv = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT)]
        argv += [str(ROOT / "tests_reliability" / check), "-p", "no:cacheprovider", "-q"]
        log = (self.folder / "out").open("wb")
        with log:
            return subprocess.Popen(
                [*argv, *(f"--{key}={value}" for key, value in words.items()), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    @property
    def said(self) -> str:
        """What the run printed."""
        return (self.folder / "out").read_text(errors="replace")

    def verdict(self, check: str) -> str:
        """Give the verdict of a check."""
        checks = json.loads((self.folder / "run" / "results.json").read_text(encoding="utf-8"))["checks"]
        return str(checks[check]["verdict"])

    @property
    def broken_at(self) -> float:
        """When the fault had taken hold, by the wall clock of this machine."""
        (trial,) = self.trials()
        (told,) = (item for item, _ in trial.items if item.id == "inject")
        return float(json.loads(told.out)["clock"])

    def trials(self) -> list[FaultTrial]:
        """Read what was kept so far."""
        recording = self.folder / "run" / "recording"
        name = next(iter((recording / "measure").glob("*.jsonl")), None)
        if name is None:
            return []
        found = read_survey(recording, name.stem)
        return compared(trials([(item, found.ref(item)) for item in found.items]), self.folder)

    def _write(self, watch_s: int, mend_s: int, replace_s: int) -> None:
        tables = (ROOT / "thresholds.toml").read_text(encoding="utf-8")
        frozen = 'service = "kubelet", how = "freeze", '
        told = tables.replace(
            f"{frozen}watch_s = 600, mend_s = 240, replace_s = 3600",
            f"{frozen}watch_s = {watch_s}, mend_s = {mend_s}, replace_s = {replace_s}",
        )
        told = told.replace("watch_s = 600, mend_s = 240 }", f"watch_s = {watch_s}, mend_s = {mend_s} }}")
        assert told != tables
        (self.folder / "thresholds.toml").write_text(told, encoding="utf-8")
        config = self.server.kubeconfig(self.folder / "kubeconfig")
        reach = f'[kubernetes]\nkubeconfig = "{config}"\nimage = "{IMAGE}"\nwait = "2s"\n'
        reach += f'python = "{sys.executable}"\n'
        pool = f'[[pool]]\nnodes = "{NODE}"\nhas = ["kubernetes", "hgx"]\n'
        site = f'[cluster]\nname = "t"\n{pool}{reach}[[mount]]\npath = "/mnt"\nrole = "local"\n'
        (self.folder / "site.toml").write_text(site, encoding="utf-8")


@contextmanager
def frozen_place(folder: Path) -> Iterator[Place]:
    """Start such a cluster."""
    with Rack(folder, NODE) as rack, clusters(folder) as start:
        server = start(_machine("a", 8), cluster.node(OTHER, 8))
        place = Place(server, rack, folder)
        start_kubelet(place.node)
        server.kubelet.within[NODE] = place.argv
        server.kubelet.frozen = lambda name: name == NODE and place.frozen()
        yield place


def start_kubelet(node: Node) -> None:
    """Start what stands for the kubelet on a machine."""
    node.install("kubelet", _KUBELET)
    node.run("sh", "-c", "setsid kubelet >/dev/null 2>&1 &")


def _machine(name: str, gpus: int) -> Object:
    """Make the node as one machine or another registers it; its object is new each time."""
    made = cluster.node(NODE, gpus)
    made["spec"]["providerID"] = f"fake://{name}"
    made["status"]["nodeInfo"] |= {key: f"{key} of {name}" for key in ("machineID", "systemUUID", "bootID")}
    return made
