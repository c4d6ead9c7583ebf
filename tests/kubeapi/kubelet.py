"""The kubelets: they really run a pod's command, as a process here, and keep its log."""

from __future__ import annotations

import base64
import hashlib
import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kubeapi.store import Key, now
from kubeapi.volumes import volume_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from kubeapi.store import Object, Store


class Log:
    """What a container has printed so far; ``grown`` is notified of more, and of the end."""

    def __init__(self) -> None:
        self.grown = threading.Condition()
        self.data = bytearray()
        self.begin = 0
        self.ended = False

    def add(self, data: bytes) -> None:
        """Append."""
        with self.grown:
            self.data += data
            self.grown.notify_all()

    def end(self) -> None:
        """Say that no more will come."""
        with self.grown:
            self.ended = True
            self.grown.notify_all()

    def is_past(self, place: int) -> bool:
        """Tell whether there is more than a reader has, or will never be."""
        return len(self.data) > place or self.ended


@dataclass
class Kubelet:
    """All nodes' kubelets. ``environments`` are those of containers that were given GPUs, by node.

    ``missing`` images cannot be pulled; ``leaky`` nodes give GPUs to whoever names them; ``pythons`` take the
    place of a container's ``python3``, by node. ``within`` gives the command that runs one on a node, for
    nodes that are namespaces; ``publish`` is told by which name a pod is to be found. While one is
    ``frozen``, pods wait.
    """

    store: Store
    folder: Path
    environment: Mapping[str, str]
    environments: dict[str, Mapping[str, str]] = field(default_factory=dict)
    pythons: dict[str, str] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)
    leaky: set[str] = field(default_factory=set)
    honours: bool = True  # network policies
    within: dict[str, Callable[..., list[str]]] = field(default_factory=dict)
    publish: Callable[[Object, str], None] = lambda _pod, _name: None
    frozen: Callable[[str], bool] = lambda _node: False
    logs: dict[Key, Log] = field(default_factory=dict)
    _processes: dict[Key, subprocess.Popen[bytes]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, key: Key, pod: Object) -> None:
        """Run a pod that was bound to a node."""
        (container,) = pod["spec"]["containers"]
        if container["image"] in self.missing:
            message = f'Back-off pulling image "{container["image"]}"'
            self._report(key, "Pending", {"waiting": {"reason": "ImagePullBackOff", "message": message}})
            return
        if self.frozen(pod["spec"]["nodeName"]):
            threading.Thread(target=self._start_later, args=(key, pod), daemon=True).start()
            return
        if "subdomain" in pod["spec"]:
            place = pod["spec"]["hostname"], pod["spec"]["subdomain"], key.namespace, "svc"
            self.publish(pod, ".".join(place))
        log = self.logs[key] = Log()
        with self._lock:
            process = self._processes[key] = subprocess.Popen(
                self._argv(key, pod, container),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=self._environment(pod, container),
                start_new_session=True,
                bufsize=0,
            )
        placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": now()}
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": now()}
        self.store.edit(key, podIP=self._address(pod), conditions=[placed, ready])
        self._tell(key, "Pulled", f'Container image "{container["image"]}" already present on machine')
        self._report(key, "Running", {"running": {"startedAt": now()}})
        threading.Thread(target=self._watch, args=(key, process, log), daemon=True).start()

    def _start_later(self, key: Key, pod: Object) -> None:
        """Start a pod once the kubelet of its node goes on, if it is still wanted then."""
        while self.frozen(pod["spec"]["nodeName"]):
            time.sleep(0.1)
        wanted = self.store.get(key)
        if wanted and "deletionTimestamp" not in wanted["metadata"]:
            self.start(key, pod)

    def stop(self, key: Key) -> None:
        """End what a pod runs: told to stop, then killed when its grace is over."""
        with self._lock:
            process = self._processes.pop(key, None)
        if process is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(1)
                break
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    def stop_all(self) -> None:
        """End everything."""
        for key in list(self._processes):
            self.stop(key)

    @property
    def running(self) -> list[Key]:
        """Which pods have a process."""
        with self._lock:
            return [key for key, process in self._processes.items() if process.poll() is None]

    def _argv(self, key: Key, pod: Object, container: dict[str, Any]) -> list[str]:
        """Mount the ConfigMap, and the host's root, where the container's command looks for them."""
        words = list(container["command"])
        for volume in pod["spec"].get("volumes", ()):
            if "configMap" in volume:
                feed = self._fed(key, volume["configMap"]["name"])
                words = [word.replace("/gpuassay/probe", str(feed)) for word in words]
            if "persistentVolumeClaim" in volume:
                data = self._mounted(pod, volume["persistentVolumeClaim"]["claimName"])
                words = [word.replace("/data", str(data)) for word in words]
        words = [str(self._devices(key, pod, container)) if word == "/dev" else word for word in words]
        if any(v.get("hostPath") for v in pod["spec"].get("volumes", ())):
            words = [word.replace("os.chroot('/host')", "os.chroot('/')") for word in words]
        node = pod["spec"]["nodeName"]
        python = self.pythons.get(node, "python3")
        argv = [python if word == "python3" else word for word in words]
        return self.within[node](*argv) if node in self.within else argv

    def _devices(self, key: Key, pod: Object, container: dict[str, Any]) -> Path:
        """Make the device files of a container; on a leaky node its environment is enough."""
        node, given = pod["spec"]["nodeName"], container["resources"]["requests"]
        asks = any(one.get("value") == "all" for one in container.get("env", ()))
        count = 8 if asks and node in self.leaky else int(given.get("nvidia.com/gpu", 0))
        folder = self.folder / f"{key.name}.dev"
        folder.mkdir()
        for name in ("null", "nvidiactl", *(f"nvidia{index}" for index in range(count))):
            (folder / name).touch()
        return folder

    def _fed(self, key: Key, name: str) -> Path:
        found = self.store.get(Key("configmaps", key.namespace, name))
        assert found is not None
        feed = self.folder / f"{key.name}.probe"
        feed.write_bytes(base64.b64decode(found["binaryData"]["probe"]))
        return feed

    def _mounted(self, pod: Object, claim: str) -> Path:
        """Give the folder that is a volume: one for all nodes, or of a local one, one for each."""
        volume = volume_of(self.store, pod, claim)
        assert volume is not None
        local = "hostPath" in volume["spec"]
        name, node = str(volume["metadata"]["name"]), str(pod["spec"]["nodeName"])
        folder = self.folder / name / (node if local else "all")
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _environment(self, pod: Object, container: dict[str, Any]) -> Mapping[str, str]:
        resources = container["resources"]
        given = resources.get("claims") or {"nvidia.com/gpu", "amd.com/gpu"} & resources["requests"].keys()
        seen = given or container["securityContext"].get("privileged")
        extra = self.environments.get(pod["spec"]["nodeName"], {}) if seen else {}
        if any("valueFrom" in one for one in container.get("env", ())):
            extra = {**extra, "POD_IP": self._address(pod, shut=self._is_shut(pod))}
        return {**self.environment, **extra}

    def _address(self, pod: Object, *, shut: bool = False) -> str:
        """Give a pod an address; one that is shut listens where nobody looks for it."""
        digest = hashlib.sha256(f"{pod['metadata']['uid']}{shut}".encode()).digest()
        return f"127.{digest[0]}.{digest[1]}.{digest[2] % 254 + 1}"

    def _is_shut(self, pod: Object) -> bool:
        """Tell whether a policy selects a pod, if policies are honoured here."""
        labels = pod["metadata"].get("labels", {}).items()
        policies = self.store.select("networkpolicies", pod["metadata"]["namespace"])
        wanted = [one["spec"]["podSelector"].get("matchLabels", {}) for one in policies]
        return self.honours and any(one.items() <= labels for one in wanted)

    def _watch(self, key: Key, process: subprocess.Popen[bytes], log: Log) -> None:
        assert process.stdout is not None
        while data := process.stdout.read(1 << 16):
            log.add(data)
        code = process.wait()
        done = {"exitCode": code % 256, "reason": "Error" if code else "Completed", "finishedAt": now()}
        done["startedAt"] = done["finishedAt"]
        self._report(key, "Failed" if code else "Succeeded", {"terminated": done})
        log.end()

    def _tell(self, key: Key, reason: str, message: str) -> None:
        metadata = {"name": f"{key.name}.{reason.lower()}", "namespace": key.namespace}
        self.store.put("events", {"metadata": metadata, "reason": reason, "message": message})

    def _report(self, key: Key, phase: str, state: dict[str, Any]) -> None:
        self.store.edit(key, phase=phase, containerStatuses=[{"name": "probe", "state": state}])
