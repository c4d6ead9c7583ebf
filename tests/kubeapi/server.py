"""The API server: the requests that ours makes, answered in the words of a real one."""

from __future__ import annotations

import base64
import json
import re
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qs, urlsplit

from kubeapi import answers
from kubeapi.scheduler import place
from kubeapi.store import KINDS, Key, Kind, Store, now
from kubeapi.volumes import provision, release

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kubeapi.kubelet import Kubelet
    from kubeapi.store import Object

TOKEN = "let-me-in"  # noqa: S105 - of a server that is gone when the test is
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_VERBS = {"POST": "create", "DELETE": "delete"}


class ApiServer:
    """One cluster. ``allows`` tells whether the user may do a verb on group/resource in a namespace.

    ``admits`` gives the reason why a pod is not admitted. ``faults`` are asked before each request: bytes
    are sent in place of an answer, and a refusal as a status. ``requests`` are all that came.
    """

    def __init__(self, store: Store, kubelet: Kubelet, minor: int = 36, dra: str = "") -> None:
        self.store = store
        self.kubelet = kubelet
        self.minor = minor
        self.dra = dra
        self.allows: Callable[[str, str, str], bool] = lambda _verb, _resource, _namespace: True
        self.admits: Callable[[Object], str] = lambda _pod: ""
        self.changes: Callable[[Object], Object] = lambda item: item  # of policies, before an object is made
        self.knows_dry_runs = True
        self.config = {"cpuManagerPolicy": "none"}  # of every kubelet
        self.faults: list[Callable[[str, str], bytes | answers.Refusal | None]] = []
        self.stalls = 0  # how many of the next log connections fall silent and stay open
        self.over = threading.Event()
        self.rotates = 0  # how much of a log no one can read any more when its connection is lost
        self.drops: set[str] = set()  # of which methods the first answer to each path is lost
        self.cuts: list[int] = []  # after how many bytes the next log connections are lost
        self.dropped: set[tuple[str, str]] = set()
        self.requests: list[tuple[str, str, str]] = []
        self._http = _Server(("127.0.0.1", 0), _handler(self))

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._http.server_port}"

    def kubeconfig(self, path: Path, user: dict[str, Any] | None = None) -> Path:
        """Write a kubeconfig that leads here."""
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": user or {"token": TOKEN}}],
            "contexts": [{"name": "test", "context": {"cluster": "c", "user": "u"}}],
        }
        path.write_text(json.dumps(document), encoding="utf-8")
        return path

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._http.shutdown()
        self._http.server_close()
        self.kubelet.stop_all()

    # --- what is asked ---------------------------------------------------------------------------

    def find(self, path: str) -> tuple[Kind, str, str, str, str]:
        """Read a path: its kind, version, namespace, name and subresource. Raises Refusal."""
        top, *parts = [part for part in path.split("/") if part]
        group = parts.pop(0) if top == "apis" else ""
        version, *rest = parts or [""]
        namespace = ""
        if rest[:1] == ["namespaces"] and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        plural, name, sub = [*rest, "", "", ""][:3]
        for kind in KINDS:
            if (kind.group, kind.plural) == (group, plural) and version in self._versions(group):
                return kind, version, namespace, name, sub
        raise answers.Refusal(404, "", "404 page not found")

    def groups(self) -> list[str]:
        """Name the groups that are served."""
        return [group for group in sorted({kind.group for kind in KINDS}) if self._versions(group)]

    def _versions(self, group: str) -> tuple[str, ...]:
        if group == "resource.k8s.io":
            return (self.dra,) if self.dra else ()
        return ("v1beta1",) if group == "metrics.k8s.io" else ("v1",)

    def document(self, path: str) -> Object | None:
        """Answer a question about the server itself; None for one about objects."""
        if path == "/version":
            return answers.version(self.minor)
        if path == "/apis":
            groups = [answers.group(name, self._versions(name)) for name in self.groups() if name]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        name = path.removeprefix("/apis/")
        if name in self.groups():
            return {"kind": "APIGroup", "apiVersion": "v1", **answers.group(name, self._versions(name))}
        return None

    def review(self, body: bytes) -> Object:
        """Tell whether the user may do what a review asks for."""
        question = json.loads(body)
        act = question["spec"]["resourceAttributes"]
        resource = "/".join(filter(None, [act["group"], act["resource"], act["subresource"]]))
        allowed = self.allows(act["verb"], resource, act["namespace"])
        return {**question, "metadata": {}, "status": {"allowed": allowed}}

    def listed(self, kind: Kind, version: str, namespace: str, query: dict[str, str]) -> Object:
        """Give a page of a list. Raises Refusal for a place in one that has expired."""
        items = self.store.select(kind.plural, namespace, query.get("labelSelector", ""))
        if kind.kind == "NodeMetrics":  # of each node there is one
            items = [{"metadata": {"name": one["metadata"]["name"]}, "usage": {}} for one in items]
        begin, metadata = 0, {"resourceVersion": str(self.store.version)}
        if query.get("continue"):
            token = json.loads(base64.b64decode(query["continue"]))
            begin, metadata["resourceVersion"] = token["start"], str(token["rv"])
        end = begin + int(query.get("limit") or len(items))
        if end < len(items):
            token = {"v": "meta.k8s.io/v1", "rv": self.store.version, "start": end}
            metadata["continue"] = base64.b64encode(json.dumps(token).encode()).decode()
            metadata["remainingItemCount"] = len(items) - end  # type: ignore[assignment]
        prefix = f"{kind.group}/" if kind.group else ""
        return {
            "kind": f"{kind.kind}List",
            "apiVersion": f"{prefix}{version}",
            "metadata": metadata,
            "items": items[begin:end],
        }

    def create(
        self, kind: Kind, version: str, namespace: str, item: Object, *, is_dry: bool = False
    ) -> Object:
        """Make an object, and let the rest of the cluster act on it, unless as a dry run. Raises Refusal."""
        name = item["metadata"]["name"]
        if not _NAME.fullmatch(name):
            raise answers.invalid(kind.kind, name)
        if self.store.get(Key(kind.plural, namespace, name)):
            raise answers.exists(kind.plural, name)
        if kind.namespaced and self.store.get(Key("namespaces", "", namespace)) is None:
            raise answers.missing("namespaces", namespace)
        if kind.kind == "Pod" and (why := self.admits(item)):
            raise answers.forbidden(f'pods "{name}" is forbidden: {why}', "pods", name)
        item["kind"] = kind.kind
        item["apiVersion"] = f"{kind.group}/{version}" if kind.group else version
        if kind.namespaced:
            item["metadata"]["namespace"] = namespace
        if is_dry and self.knows_dry_runs:
            return self.changes(item)
        if kind.kind == "Namespace":
            item["status"] = {"phase": "Active"}
        if kind.kind == "PersistentVolumeClaim":
            provision(self.store, item)
        made = self.store.put(kind.plural, item)
        if kind.kind == "Pod":
            self._schedule(made)
        return made

    def _schedule(self, pod: Object) -> None:
        key = Key("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
        pod["status"] = {"phase": "Pending", "qosClass": "Burstable"}
        why = place(self.store, pod)
        if why:
            unplaced = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}
            self.store.edit(key, conditions=[{**unplaced, "lastTransitionTime": now()}])
        else:
            self.store.put("pods", pod)
            self.kubelet.start(key, pod)

    def delete(self, kind: Kind, namespace: str, name: str) -> Object:
        """Remove an object, and all that goes with it. Raises Refusal."""
        key = Key(kind.plural, namespace, name)
        item = self.store.get(key)
        if item is None:
            raise answers.missing(kind.plural, name)
        if kind.kind == "Namespace":
            for inner in (inner for inner in KINDS if inner.namespaced):
                for one in self.store.select(inner.plural, name):
                    self.delete(inner, name, one["metadata"]["name"])
        if kind.kind == "Pod":
            self.kubelet.stop(key)
        if kind.kind == "PersistentVolumeClaim":
            release(self.store, item)
        self.store.remove(key)
        return item


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


def _handler(server: ApiServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            """Answer, or refuse."""
            try:
                self._answer()
            except answers.Refusal as refusal:
                self._send(refusal.code, refusal.body, refusal.headers)
            except ConnectionError:
                self.close_connection = True

        do_POST = do_DELETE = do_GET  # noqa: N815 - so they are called

        def _answer(self) -> None:
            url = urlsplit(self.path)
            query = {key: values[-1] for key, values in parse_qs(url.query).items()}
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            server.requests.append((self.command, url.path, url.query))
            for fault in server.faults:
                refused = fault(self.command, self.path)
                if isinstance(refused, answers.Refusal):
                    raise refused
                if refused is not None:
                    return self._send(200, refused)
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                raise answers.unauthorized()
            if url.path == _REVIEWS:
                return self._send(201, server.review(body))
            document = server.document(url.path)
            return self._send(200, document) if document else self._object(url.path, query, body)

        def _object(self, path: str, query: dict[str, str], body: bytes) -> None:
            kind, version, namespace, name, sub = server.find(path)
            verb = _VERBS.get(self.command, "get" if name else "list")
            resource = "/".join(filter(None, [kind.plural, sub]))
            if not server.allows(verb, "/".join(filter(None, [kind.group, resource])), namespace):
                raise answers.not_allowed(verb, resource, kind.group, namespace)
            if sub == "proxy":
                return self._send(200, {"kubeletconfig": {**server.config, "clusterDNS": ["SECRET"]}})
            if sub == "log":
                return self._log(Key("pods", namespace, name))
            if verb == "list":
                return self._send(200, server.listed(kind, version, namespace, query))
            if verb == "create":
                is_dry = query.get("dryRun") == "All"
                made = server.create(kind, version, namespace, json.loads(body), is_dry=is_dry)
                return self._send(201, made)
            if verb == "delete":
                return self._send(200, server.delete(kind, namespace, name))
            item = server.store.get(Key(kind.plural, namespace, name))
            if item is None:
                raise answers.missing(kind.plural, name)
            return self._send(200, item)

        def _log(self, key: Key) -> None:
            log = server.kubelet.logs.get(key)
            if log is None:
                raise answers.missing("pods", key.name)
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            if server.stalls:
                server.stalls -= 1
                server.over.wait()
            left = server.cuts.pop(0) if server.cuts else None
            at = log.begin
            while True:
                with log.grown:
                    log.grown.wait_for(partial(log.is_past, at))
                    data = bytes(log.data[at:])
                if left is not None and len(data) >= left:
                    self._chunk(data[:left])
                    log.begin = at + left + server.rotates if server.rotates else log.begin
                    self.close_connection = True
                    return None
                if not data:
                    return self._chunk(b"")
                self._chunk(data)
                at += len(data)
                left = None if left is None else left - len(data)

        def _chunk(self, data: bytes) -> None:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()

        def _drop(self) -> None:
            """Lose the connection instead of answering, once for each path."""
            path = urlsplit(self.path).path
            if self.command in server.drops and (self.command, path) not in server.dropped:
                server.dropped.add((self.command, path))
                raise ConnectionAbortedError

        def _send(self, code: int, body: Object | bytes, headers: dict[str, str] | None = None) -> None:
            self._drop()
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            for key, value in (headers or {}).items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(data)

    return Handler
