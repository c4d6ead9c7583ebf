"""A real control plane of Kubernetes on loopback: etcd, API server, controller-manager and scheduler."""

from __future__ import annotations

import json
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pathlib import Path

ADMIN, BOB = "admin-token", "bob-token"
_PATIENCE_S = 60.0
# Below 32768: a higher port may be some connection's own at that moment.
_API, _ETCD, _PEER = 26443, 26444, 26445


class ControlPlane(AbstractContextManager["ControlPlane"]):
    """Started in a folder of its own, and stopped with all that it started."""

    url = f"https://127.0.0.1:{_API}"

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._context = ssl.create_default_context()
        self._context.check_hostname = False  # it is our own server, on loopback
        self._context.verify_mode = ssl.CERT_NONE

    def __enter__(self) -> Self:
        """Start all of it, and wait until it is ready."""
        try:
            self._keys()
            self._start_etcd()
            self._start_api()
            self._until(lambda: self.ask("GET", "/readyz")[0] == 200)
            admin = self.kubeconfig(ADMIN)
            for name in ("kube-controller-manager", "kube-scheduler"):
                self._start_controller(name, admin)
            self._until(lambda: self.ask("GET", "/api/v1/namespaces/default")[0] == 200)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Stop all of it, the last one first."""
        for process in reversed(self._processes):
            process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()

    def kubeconfig(self, token: str) -> Path:
        """Write a kubeconfig for a user."""
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": self.url, "insecure-skip-tls-verify": True}}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }
        path = self._folder / f"{token}.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        return path

    def open(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        """Send a request as the administrator. Raises OSError."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {ADMIN}", "Content-Type": kind}
        request = urllib.request.Request(self.url + path, data, headers, method=method)  # noqa: S310
        return urllib.request.urlopen(request, context=self._context)  # noqa: S310 - our own server

    def ask(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> tuple[int, Any]:
        """Send a request as the administrator, and give its status and document."""
        try:
            with self.open(method, path, body, kind) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text.startswith(b"{") else text
        except urllib.error.HTTPError as error:
            return error.code, error.read()
        except OSError as error:
            return 0, error

    def make(self, path: str, item: Any) -> Any:
        """Make an object."""
        code, answer = self.ask("POST", path, item)
        assert code == 201, answer
        return answer

    def _start(self, *argv: str) -> None:
        log = (self._folder / f"{argv[0].rpartition('/')[2]}.log").open("wb")
        self._processes.append(subprocess.Popen(argv, stdout=log, stderr=log))

    def _until(self, ready: Any) -> None:
        end = time.monotonic() + _PATIENCE_S
        while not ready():
            for process in self._processes:
                assert process.poll() is None, f"{process.args} ended: see its log in {self._folder}"
            assert time.monotonic() < end, f"not ready within {_PATIENCE_S} s: see the logs in {self._folder}"
            time.sleep(0.2)

    def _keys(self) -> None:
        (self._folder / "tokens.csv").write_text(
            f"{ADMIN},admin,1,system:masters\n{BOB},bob,2\n", encoding="utf-8"
        )
        for argv in (
            ["genrsa", "-out", "sa.key", "2048"],
            ["rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub"],
        ):
            subprocess.run(["openssl", *argv], cwd=self._folder, check=True, capture_output=True)

    def _start_etcd(self) -> None:
        client, peer = f"http://127.0.0.1:{_ETCD}", f"http://127.0.0.1:{_PEER}"
        self._start(
            "etcd",
            f"--data-dir={self._folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
        )

    def _start_api(self) -> None:
        folder = self._folder
        self._start(
            str(self._programs / "kube-apiserver"),
            f"--etcd-servers=http://127.0.0.1:{_ETCD}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={_API}",
            "--insecure-port=0",
            f"--cert-dir={folder / 'pki'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={folder / 'sa.key'}",
            f"--service-account-key-file={folder / 'sa.pub'}",
            f"--token-auth-file={folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--disable-admission-plugins=ServiceAccount",
            "--allow-privileged",
            "--endpoint-reconciler-type=none",
            "--kubelet-preferred-address-types=InternalIP",
        )

    def _start_controller(self, name: str, kubeconfig: Path) -> None:
        argv = [f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--port=0", "--secure-port=0"]
        if name == "kube-controller-manager":
            argv += ["--node-monitor-period=1s", "--node-monitor-grace-period=12s"]
            argv += [f"--service-account-private-key-file={self._folder / 'sa.key'}"]
        self._start(str(self._programs / name), *argv)
