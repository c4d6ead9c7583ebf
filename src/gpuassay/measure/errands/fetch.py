"""Fetch from mirrors, registries and model hubs what is declared, count it, and keep nothing."""

from __future__ import annotations

import http.client
import json
import platform
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

_PIECE = 1 << 20
_LONGEST_LIST = 16 << 20  # of a manifest, or of an index of files
_MANIFESTS = (
    "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json, "
    "application/vnd.docker.distribution.manifest.v2+json"
)
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_TROUBLE = (
    OSError,
    http.client.HTTPException,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    StopIteration,
)


def main(order: dict[str, Any]) -> int:
    """Fetch from each of ``order["mirrors"]`` for ``order["seconds"]`` at most; print what came."""
    proxies = {scheme: order["proxy"] for scheme in ("http", "https") if order["proxy"]}
    opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies))
    rows = [Fetching(opener, mirror, order["seconds"]).row() for mirror in order["mirrors"]]
    sys.stdout.write(json.dumps({"rows": rows}) + "\n")
    sys.stdout.flush()
    return 0


class OverError(Exception):
    """Time, or what may be fetched, is used up."""


class Fetching:
    """One mirror: what has come from it so far."""

    def __init__(self, opener: Any, mirror: dict[str, Any], seconds: float) -> None:
        """Only hold."""
        self._opener = opener
        self._mirror = mirror
        self._begin = time.monotonic()
        self._until = self._begin + seconds
        self._token = ""
        self._came = 0
        self._first_s = 0.0
        self._streaming = 0.0

    def row(self) -> dict[str, Any]:
        """Fetch, and say what came, in what time, and why no more."""
        told: dict[str, Any] = {"url": self._mirror["url"], "kind": self._mirror["kind"]}
        try:
            for url in self._parts():
                self._take(url)
            told["end"] = "whole"
        except OverError as over:
            told["end"] = str(over)
        except urllib.error.HTTPError as error:
            told |= {"end": "failed", "status": error.code, "why": f"HTTP {error.code} {error.reason}"[:300]}
        except _TROUBLE as error:
            told |= {"end": "failed", "why": _words(error)}
        return {
            **told,
            "bytes": self._came,
            "first_s": round(self._first_s, 3),
            "stream_s": round(self._streaming, 3),
            "seconds": round(time.monotonic() - self._begin, 3),
        }

    def _parts(self) -> list[str]:
        """Name all that has to be fetched, in its order."""
        url, kind = self._mirror["url"], self._mirror["kind"]
        if kind == "image":
            name, _, _ = url.partition("/manifests/")
            manifest = self._manifest(url)
            blobs = [manifest["config"], *manifest["layers"]]
            return [f"{name}/blobs/{blob['digest']}" for blob in blobs]
        if kind == "model" and url.endswith(".json"):
            files = sorted(set(self._list(url)["weight_map"].values()))
            return [urllib.parse.urljoin(url, urllib.parse.quote(file)) for file in files]
        return [url]

    def _manifest(self, url: str) -> Any:
        found = self._list(url, _MANIFESTS)
        if "manifests" not in found:
            return found
        wanted = _ARCHITECTURES.get(platform.machine(), platform.machine())
        digest = next(
            one["digest"] for one in found["manifests"] if one["platform"]["architecture"] == wanted
        )
        return self._list(f"{url.partition('/manifests/')[0]}/manifests/{digest}", _MANIFESTS)

    def _list(self, url: str, accept: str = "application/json") -> Any:
        with self._open(url, accept) as reply:
            text = reply.read(_LONGEST_LIST)
        self._came += len(text)
        return json.loads(text)

    def _take(self, url: str) -> None:
        """Read one file to its end, or as much as may be fetched."""
        with self._open(url) as reply:
            length = reply.headers.get("Content-Length")
            begin, came = time.monotonic(), 0
            self._first_s = self._first_s or begin - self._begin
            try:
                while True:
                    left = self._mirror["bytes"] - self._came
                    if left <= 0:
                        raise OverError("limit")
                    if time.monotonic() > self._until:
                        raise OverError("time")
                    piece = reply.read(min(_PIECE, left))
                    if not piece:
                        break
                    came += len(piece)
                    self._came += len(piece)
            finally:
                self._streaming += time.monotonic() - begin
        if length and came < int(length):
            raise ConnectionError(f"it ended after {came} of {length} bytes")

    def _open(self, url: str, accept: str = "*/*") -> Any:
        """Ask for a file; where a registry wants a token, for one that it gives to everybody."""
        left = max(1, self._mirror["bytes"] - self._came)
        headers = {"Accept": accept, "User-Agent": "gpuassay"}
        if accept == "*/*":
            headers["Range"] = f"bytes=0-{left - 1}"
        request = urllib.request.Request(url, headers=headers)  # noqa: S310 - the site file has only http and https
        if self._token:
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        patience = max(0.1, self._until - time.monotonic())
        try:
            return self._opener.open(request, timeout=patience)
        except urllib.error.HTTPError as error:
            asked = error.headers.get("WWW-Authenticate", "")
            if error.code != http.client.UNAUTHORIZED or self._token or not asked.startswith("Bearer "):
                raise
            self._token = self._anonymous(asked, patience)
        return self._open(url, accept)

    def _anonymous(self, asked: str, patience: float) -> str:
        words = dict(re.findall(r'(\w+)="([^"]*)"', asked))
        query = urllib.parse.urlencode({key: words[key] for key in ("service", "scope") if key in words})
        realm = words["realm"]
        if not realm.startswith(("http://", "https://")):
            raise ValueError("the registry names no place for tokens")
        with self._opener.open(f"{realm}?{query}", timeout=patience) as reply:
            told = json.loads(reply.read(_LONGEST_LIST))
        return str(told.get("token") or told["access_token"])


def _words(error: BaseException) -> str:
    reason = getattr(error, "reason", None) or error
    return f"{type(reason).__name__}: {getattr(reason, 'strerror', None) or reason}"[:300]
