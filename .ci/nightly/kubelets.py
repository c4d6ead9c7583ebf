"""Kubelets for a real API server: nodes that report, pods that really run here, and their logs."""

from __future__ import annotations

import http.server
import json
import ssl
import subprocess
import threading
import time
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from kubeapi import cluster
from kubeapi.kubelet import Kubelet
from kubeapi.store import Key

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from controlplane import ControlPlane

_LOGS = 26450
_STRATEGIC = "application/strategic-merge-patch+json"
_BEAT_S = 3.0


class Remote:
    """The part of a store that a kubelet needs, at the API server."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    def get(self, key: Key) -> Any:
        """Give an object."""
        code, item = self._plane.ask("GET", _path(key))
        return item if code == 200 else None

    def put(self, _plural: str, _item: Any) -> None:
        """Leave events out: no test here reads them."""

    def edit(self, key: Key, **status: Any) -> None:
        """Change the status of an object, if it is still there."""
        for container in status.get("containerStatuses", ()):
            container |= {"image": "i", "imageID": "i", "ready": False, "restartCount": 0}
        self._plane.ask("PATCH", f"{_path(key)}/status", {"status": status}, _STRATEGIC)


class Kubelets(AbstractContextManager["Kubelets"]):
    """The kubelets of some nodes."""

    def __init__(self, plane: ControlPlane, folder: Path, environment: Mapping[str, str]) -> None:
        self._plane = plane
        self._folder = folder
        self.kubelet = Kubelet(Remote(plane), folder, environment)  # type: ignore[arg-type]
        self.silent: set[str] = set()
        self._nodes: dict[str, Any] = {}
        self._started: set[str] = set()
        self._over = threading.Event()

    def add(self, node: Any) -> None:
        """Register a node."""
        name, status = node["metadata"]["name"], node.pop("status")
        self._plane.make("/api/v1/nodes", {"kind": "Node", "apiVersion": "v1", **node})
        status["addresses"] = [{"type": "InternalIP", "address": "127.0.0.1"}]
        status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": _LOGS}}
        self._nodes[name] = status
        self._report(name, status)

    def __enter__(self) -> Self:
        """Begin to report, to run and to serve logs."""
        certificate = self._folder / "kubelet.pem"
        words = f"req -x509 -newkey rsa:2048 -nodes -subj /CN=l -keyout {certificate} -out {certificate}.crt"
        subprocess.run(["openssl", *words.split()], check=True, capture_output=True)
        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", _LOGS), _handler(self.kubelet))
        self._http.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{certificate}.crt", certificate)
        self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
        for work in (self._http.serve_forever, self._beat, self._watch):
            threading.Thread(target=work, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self._over.set()
        self._http.shutdown()
        self._http.server_close()
        self.kubelet.stop_all()

    def _report(self, name: str, status: Any) -> None:
        code, answer = self._plane.ask(
            "PATCH", f"/api/v1/nodes/{name}/status", {"status": status}, _STRATEGIC
        )
        assert code in (0, 200), answer

    def _beat(self) -> None:
        while not self._over.wait(_BEAT_S):
            frozen = {name for name in self._nodes if self.kubelet.frozen(name)}
            for name in self._nodes.keys() - self.silent - frozen:
                beat = cluster.ready("True", "KubeletReady", "kubelet is posting ready status")
                self._report(name, {"conditions": [beat]})

    def _watch(self) -> None:
        while not self._over.is_set():
            with suppress(OSError, ValueError):
                listed = self._plane.ask("GET", "/api/v1/pods")[1]
                for pod in listed["items"]:
                    self._step(pod)
                version = listed["metadata"]["resourceVersion"]
                path = f"/api/v1/pods?watch=1&timeoutSeconds=20&resourceVersion={version}"
                with self._plane.open("GET", path) as events:
                    for line in events:
                        event = json.loads(line)
                        if event["type"] in ("ADDED", "MODIFIED"):
                            self._step(event["object"])

    def _step(self, pod: Any) -> None:
        metadata, node = pod["metadata"], pod["spec"].get("nodeName")
        key = Key("pods", metadata["namespace"], metadata["name"])
        if node not in self._nodes:
            return
        if metadata.get("deletionTimestamp"):
            threading.Thread(target=self._end, args=(key, metadata["uid"], node), daemon=True).start()
        elif metadata["uid"] not in self._started and "foreign" not in metadata.get("labels", {}):
            self._started.add(metadata["uid"])
            self.kubelet.start(key, pod)

    def _end(self, key: Key, uid: str, node: str) -> None:
        while self.kubelet.frozen(node):
            time.sleep(0.2)
        self.kubelet.stop(key)
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        self._plane.ask("DELETE", _path(key), body)


def _path(key: Key) -> str:
    return f"/api/v1/namespaces/{key.namespace}/{key.plural}/{key.name}"


def _handler(kubelet: Kubelet) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            """Give a log from its beginning, and follow it: /containerLogs/NAMESPACE/POD/CONTAINER."""
            words = self.path.partition("?")[0].split("/")
            log = kubelet.logs.get(Key("pods", *words[2:4])) if words[1] == "containerLogs" else None
            self.send_response(200 if log else 404)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            at = 0
            with suppress(OSError):
                while log:
                    with log.grown:
                        log.grown.wait_for(partial(log.is_past, at))
                        data = bytes(log.data[at:])
                    if not data:
                        break
                    at += len(data)
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                    self.wfile.flush()
                self.wfile.write(b"0\r\n\r\n")

    return Handler
