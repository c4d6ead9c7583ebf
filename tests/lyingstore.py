"""A small object store on this machine that can be told to lie: it speaks as much of S3 as a trial needs."""

from __future__ import annotations

import hashlib
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

SPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
TIRES_S, TIRED_S = 4.0, 0.1  # when, and how much longer an object takes then
VICTIM = "many/03"  # what a lie is about, where it is about one object


@dataclass
class Store:
    """What it holds, by bucket and key, and what it lies about.

    ``loses`` confirms the victim and forgets it, ``lists late`` leaves it out, ``garbles`` gives its bytes
    otherwise, ``stale`` goes on giving the first content, ``keeps`` confirms deletions and does none,
    ``open`` asks for no key, ``no multipart`` refuses uploads in parts, ``retags`` gives another ETag,
    ``slows`` asks for fewer requests once an object, ``fails with 200`` does so to an upload in parts,
    ``versions`` says that what is overwritten stays,
    ``tires`` takes longer for each object that it gives, once it has run for some seconds.
    """

    lies: frozenset[str] = frozenset()
    buckets: dict[str, dict[str, bytes]] = field(default_factory=dict)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    begun: int = 0
    slowed: set[str] = field(default_factory=set)
    endpoint: str = ""
    began_s: float = field(default_factory=time.monotonic)

    @property
    def things(self) -> list[str]:
        """Name all that it holds."""
        return [f"{bucket}/{key}" for bucket, keys in self.buckets.items() for key in keys] + [*self.uploads]


@contextmanager
def running(*lies: str, buckets: tuple[str, ...] = ("acceptance",)) -> Iterator[Store]:
    """Run a store until the end of the context."""
    store = Store(frozenset(lies), {name: {} for name in buckets})
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"store": store}))
    store.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    """Answers one request after the other."""

    store: Store
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer goes out whole
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def handle_expect_100(self) -> bool:
        """Let a client that asks first send its object."""
        self.send_response_only(100)
        self.end_headers()
        self.wfile.flush()
        return True

    def _asked(self) -> tuple[str, str, dict[str, str]]:
        url = urlsplit(self.path)
        bucket, _, key = url.path.lstrip("/").partition("/")
        query = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        return unquote(bucket), unquote(key), query

    def _lies(self, lie: str, key: str = "") -> bool:
        return lie in self.store.lies and (not key or key.endswith(VICTIM))

    def _refused(self) -> bool:
        """Refuse who has no key, and what is in no bucket."""
        bucket, key, _ = self._asked()
        if "Authorization" not in self.headers and not self._lies("open"):
            self._answer(403, _error("AccessDenied"))
        elif bucket not in self.store.buckets and not (self.command == "PUT" and not key):
            self._answer(404, _error("NoSuchBucket"))
        else:
            return False
        return True

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self) -> None:
        """Make a bucket, or take an object or a part of one."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self._refused():
            return
        bucket, key, query = self._asked()
        if self._lies("slows") and key and key not in self.store.slowed:
            self.store.slowed.add(key)
            self._answer(503, _error("SlowDown"))
            return
        if not key:
            self.store.buckets[bucket] = {}
        elif "uploadId" in query:
            self.store.uploads[query["uploadId"]][int(query["partNumber"])] = body
        elif not self._lies("loses", key) and not (
            self._lies("stale") and self.store.buckets[bucket].get(key)
        ):
            self.store.buckets[bucket][key] = body
        named = {"x_amz_version_id": "one"} if self._lies("versions") and key else {}
        self._answer(200, b"", ETag=_tag(body), **named)

    def do_GET(self) -> None:
        """Give an object, a part of one, or a list."""
        if self._refused():
            return
        bucket, key, query = self._asked()
        if "versions" in query:
            self._answer(501, _error("NotImplemented"))
        elif not key:
            self._answer(200, self._list(bucket, query))
        elif key not in self.store.buckets[bucket]:
            self._answer(404, _error("NoSuchKey"))
        else:
            if self._lies("tires") and time.monotonic() > self.store.began_s + TIRES_S:
                time.sleep(TIRED_S)
            self._give(self.store.buckets[bucket][key], key)

    def _give(self, content: bytes, key: str) -> None:
        tag = _tag(b"other" if self._lies("retags", key) else content)
        if self._lies("garbles", key):
            content = content[::-1]
        asked = self.headers.get("Range")
        if asked:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            told = f"bytes {first}-{last}/{len(content)}"
            self._answer(206, content[int(first) : int(last) + 1], ETag=tag, Content_Range=told)
        else:
            self._answer(200, content, ETag=tag)

    def _list(self, bucket: str, query: dict[str, str]) -> bytes:
        keys = sorted(key for key in self.store.buckets[bucket] if key.startswith(query.get("prefix", "")))
        keys = [key for key in keys if not self._lies("lists late", key)]
        start, most = int(query.get("continuation-token", 0)), int(query.get("max-keys", 1000))
        entries = "".join(
            f"<Contents><Key>{quote(key)}</Key><ETag>{_tag(content)}</ETag><Size>{len(content)}</Size></Contents>"
            for key in keys[start : start + most]
            for content in (self.store.buckets[bucket][key],)
        )
        more = start + most < len(keys)
        token = f"<NextContinuationToken>{start + most}</NextContinuationToken>" if more else ""
        told = f"<IsTruncated>{str(more).lower()}</IsTruncated><EncodingType>url</EncodingType>{token}"
        return f"<ListBucketResult {SPACE}>{told}{entries}</ListBucketResult>".encode()

    def do_HEAD(self) -> None:
        """Tell of a bucket or an object."""
        bucket, key, _ = self._asked()
        keys = self.store.buckets.get(bucket)
        if keys is None or (key and key not in keys):
            self._answer(404)
        else:
            content = keys.get(key, b"")
            tag = _tag(b"other" if self._lies("retags", key) else content)
            self._answer(200, ETag=tag, Content_Length=str(len(content)))

    def do_POST(self) -> None:
        """Begin or end an upload in parts."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        bucket, key, query = self._asked()
        if self._lies("no multipart"):
            self._answer(501, _error("NotImplemented"))
        elif "uploads" in query:
            upload = f"an upload {self.store.begun}" if self.store.begun else "an upload"
            self.store.begun += 1
            self.store.uploads[upload] = {}
            told = f"<Bucket>{bucket}</Bucket><Key>{quote(key)}</Key><UploadId>{upload}</UploadId>"
            self._answer(
                200,
                f"<InitiateMultipartUploadResult {SPACE}>{told}</InitiateMultipartUploadResult>".encode(),
            )
        elif self._lies("fails with 200"):
            self._answer(200, _error("InternalError"))
        else:
            parts = self.store.uploads.pop(query["uploadId"])
            self.store.buckets[bucket][key] = b"".join(parts[number] for number in sorted(parts))
            told = "<ETag>made of two</ETag>"
            self._answer(
                200,
                f"<CompleteMultipartUploadResult {SPACE}>{told}</CompleteMultipartUploadResult>".encode(),
            )

    def do_DELETE(self) -> None:
        """Remove a bucket, an object or an upload."""
        if self._refused():
            return
        bucket, key, query = self._asked()
        if "uploadId" in query:
            gone = self.store.uploads.pop(query["uploadId"], None)
            self._answer(*((204,) if gone is not None else (404, _error("NoSuchUpload"))))
            return
        if not key:
            del self.store.buckets[bucket]
        elif not self._lies("keeps", key):
            self.store.buckets[bucket].pop(key, None)
        self._answer(204)


def _tag(content: bytes) -> str:
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'


def _error(code: str) -> bytes:
    return f"<Error><Code>{code}</Code><Message>as it was told</Message></Error>".encode()
