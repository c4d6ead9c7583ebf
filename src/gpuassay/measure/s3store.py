"""A trial of object storage with boto3: small objects are put, read back in every way, and removed again.

All that is made lies below one prefix that nobody else has, in the bucket of the site file or in one that is
made for it. Whatever happens, ``clean`` removes it and looks whether it is gone.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any

import boto3
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ConnectTimeoutError, ReadTimeoutError, SSLError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from gpuassay.judge.services import S3

__all__ = ["ERRORS", "SSLError", "Trial", "kind_of", "words_of"]

ERRORS = (BotoCoreError, ClientError, ValueError)  # ValueError: what is no address, or no name of a bucket

_CONNECT_S, _READ_S = 5, 10
_KIB, _MIB = 1 << 10, 1 << 20
_PAGE = 5  # keys on a page of a listing, so that one of a few objects has several pages
# Names that are legal, and that a store or a proxy before it may spell another way.
_NAMES = {
    "empty": 0,
    "one byte": 1,
    "a+b&c=d": 1000,
    "deep/er/object": 64 * _KIB,
    "ü%41": 1000,
    "large": _MIB,
}
_SMALL = {f"many/{number:02}": 100 for number in range(12)}
_PART = 5 * _MIB  # the smallest that a part may have, but for the last (S3, multipart upload limits)
_MULTIPART = "multipart"
_KEPT = ("Versions", "DeleteMarkers")
_ABSENT = 404
_ONCE = "once"


class Trial:
    """What is tried, in the order of ``steps``; each gives a document, or raises one of ``ERRORS``."""

    def __init__(self, s3: S3, access_key: str, secret_key: str) -> None:
        """Take where the store is, and the keys to it."""
        self.prefix = f"gpuassay-{uuid.uuid4().hex}"
        self.bucket = s3.bucket or self.prefix
        self._made = not s3.bucket
        self._uploads: list[str] = []
        self._sent: dict[str, bytes] = {}
        keys = {"aws_access_key_id": access_key, "aws_secret_access_key": secret_key}
        self._client = _client(s3, "s3v4", **keys)
        self._anybody = _client(s3, UNSIGNED)

    @property
    def steps(self) -> Mapping[str, Callable[[], dict[str, Any]]]:
        """All steps by their names."""
        return {
            "bucket": self.open,
            "put": self.put,
            "get": self.get,
            "head": self.head,
            "range": self.range,
            "list": self.list,
            "overwrite": self.overwrite,
            "multipart": self.multipart,
            "anonymous": self.anonymous,
            "delete": self.delete,
        }

    def open(self) -> dict[str, Any]:
        """Make the bucket, or look whether the declared one is there."""
        if self._made:
            self._client.create_bucket(Bucket=self.bucket)
        self._client.head_bucket(Bucket=self.bucket)
        return {"bucket": self.bucket, "made": self._made, "prefix": self.prefix}

    def put(self) -> dict[str, Any]:
        """Put all objects; the content is of this trial alone, so that no older copy passes for it."""
        return {name: self._put(name, self._content(name, size)) for name, size in self._objects.items()}

    def get(self) -> dict[str, Any]:
        """Read each object as soon as all were put."""
        return {name: self._read(name) for name in self._objects}

    def head(self) -> dict[str, Any]:
        """Ask for the size and tag of each, without its content."""
        return {name: self._look(name) for name in self._objects}

    def range(self) -> dict[str, Any]:
        """Read a part from the middle of the largest."""
        first, last = 1000, 200_000
        expected = self._sent["large"][first : last + 1]
        return {"expected": _sum(expected), **self._read("large", Range=f"bytes={first}-{last}")}

    def list(self) -> dict[str, Any]:
        """List all, a few on each page."""
        return {
            self._name(entry["Key"]): {"size": entry["Size"], "etag": entry.get("ETag", "")}
            for entry in self._listed()
        }

    def overwrite(self) -> dict[str, Any]:
        """Put another content under a name, and read it at once."""
        content = self._content(_ONCE, 1000)
        self._put("one byte", content)
        return {"expected": _sum(content), **self._read("one byte")}

    def multipart(self) -> dict[str, Any]:
        """Put an object in two parts, and read it whole."""
        key, content = self._key(_MULTIPART), self._content(_MULTIPART, _PART + _MIB)
        self._sent[_MULTIPART] = content
        where = {"Bucket": self.bucket, "Key": key}
        upload = self._client.create_multipart_upload(**where)["UploadId"]
        self._uploads.append(upload)
        bodies = enumerate((content[:_PART], content[_PART:]), 1)
        parts = [self._part(number, body, UploadId=upload, **where) for number, body in bodies]
        self._client.complete_multipart_upload(**where, UploadId=upload, MultipartUpload={"Parts": parts})
        return {"expected": _sum(content), **self._read(_MULTIPART)}

    def _part(self, number: int, body: bytes, **where: str) -> dict[str, Any]:
        told = self._client.upload_part(**where, PartNumber=number, Body=body)
        return {"PartNumber": number, "ETag": told["ETag"]}

    def anonymous(self) -> dict[str, Any]:
        """Read, list and write without any key; gives the HTTP statuses."""
        here = {"Bucket": self.bucket}
        return {
            "read": _status(lambda: self._anybody.get_object(**here, Key=self._key("large"))),
            "list": _status(lambda: self._anybody.list_objects_v2(**here, MaxKeys=1)),
            "write": _status(lambda: self._anybody.put_object(**here, Key=self._key("anybody"), Body=b"")),
        }

    def delete(self) -> dict[str, Any]:
        """Delete all that was put, and look for it both ways."""
        for name in self._sent:
            self._client.delete_object(Bucket=self.bucket, Key=self._key(name))
        read = [name for name in self._sent if self._read(name)["got"] is not None]
        listed = {self._name(entry["Key"]) for entry in self._listed()} & {*self._sent}
        return {"deleted": len(self._sent), "still_read": read, "still_listed": sorted(listed)}

    # --- removing ------------------------------------------------------------------------------------

    def clean(self, until: float) -> dict[str, Any]:
        """Remove all that may have been made, until ``until`` (monotonic); tells what is left, and why."""
        errors: list[str] = []
        left: list[str] = []
        if self._sent:
            for act in (self._abort, self._delete_listed, self._delete_versions):
                _bounded(act, until, errors)
            _bounded(lambda: map(left.append, map(_key_of, self._listed())), until, errors)
        if self._made:
            _bounded(self._remove_bucket, until, errors)
        return {"left": left[:_PAGE], "left_count": len(left), "errors": errors}

    def _abort(self) -> Iterator[object]:
        """Give up uploads that were not completed. One that was is unknown by now."""
        for upload in self._uploads:
            where = {"Bucket": self.bucket, "Key": self._key(_MULTIPART), "UploadId": upload}
            yield _unless_absent(partial(self._client.abort_multipart_upload, **where))

    def _delete_listed(self) -> Iterator[object]:
        for key in {*map(self._key, self._sent), *map(_key_of, self._listed())}:
            yield self._client.delete_object(Bucket=self.bucket, Key=key)

    def _delete_versions(self) -> Iterator[object]:
        """Remove each version: where a bucket keeps them, deleting only hides. Not every store does."""
        pages = self._client.get_paginator("list_object_versions")
        try:
            found = list(pages.paginate(Bucket=self.bucket, Prefix=self.prefix))
        except ClientError:
            return
        for one in (one for page in found for kind in _KEPT for one in page.get(kind, ())):
            named = {"Bucket": self.bucket, "Key": one["Key"], "VersionId": one["VersionId"]}
            yield self._client.delete_object(**named)

    def _remove_bucket(self) -> Iterator[object]:
        """Remove the bucket that was made; one that could not be made is not there."""
        yield _unless_absent(lambda: self._client.delete_bucket(Bucket=self.bucket))

    # --- objects -------------------------------------------------------------------------------------

    @property
    def _objects(self) -> Mapping[str, int]:
        return {**_NAMES, **_SMALL}

    def _content(self, name: str, size: int) -> bytes:
        return hashlib.shake_128(f"{self.prefix}/{name}".encode()).digest(size)

    def _key(self, name: str) -> str:
        return f"{self.prefix}/{name}"

    def _name(self, key: str) -> str:
        return key.removeprefix(f"{self.prefix}/")

    def _put(self, name: str, content: bytes) -> dict[str, Any]:
        self._sent[name] = content  # before it is sent: what is cut may have come through
        told = self._client.put_object(Bucket=self.bucket, Key=self._key(name), Body=content)
        return {"sent": _sum(content), "size": len(content), "etag": told.get("ETag", "")}

    def _read(self, name: str, **how: str) -> dict[str, Any]:
        """Read an object; one that is not there has no sum."""
        where = {"Bucket": self.bucket, "Key": self._key(name)}
        told: Any = _unless_absent(lambda: self._client.get_object(**where, **how))
        if told is None:
            return {"got": None}
        content = told["Body"].read()
        return {"got": _sum(content), "size": len(content), "etag": told.get("ETag", "")}

    def _look(self, name: str) -> dict[str, Any]:
        where = {"Bucket": self.bucket, "Key": self._key(name)}
        told: Any = _unless_absent(lambda: self._client.head_object(**where))
        return (
            {"size": None} if told is None else {"size": told["ContentLength"], "etag": told.get("ETag", "")}
        )

    def _listed(self) -> Iterator[dict[str, Any]]:
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=self.prefix, PaginationConfig={"PageSize": _PAGE}
        )
        return (entry for page in pages for entry in page.get("Contents", ()))


def _client(s3: S3, signature: Any, **keys: str) -> Any:
    """Give a client that speaks as old stores understand: newer checksums only where they are required."""
    config = Config(
        signature_version=signature,
        s3={"addressing_style": s3.addressing},
        connect_timeout=_CONNECT_S,
        read_timeout=_READ_S,
        retries={"total_max_attempts": 2, "mode": "standard"},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    region = s3.region or "us-east-1"
    session = boto3.session.Session(region_name=region, **keys)
    return session.client("s3", endpoint_url=s3.endpoint, config=config)


def _bounded(act: Callable[[], Iterator[object]], until: float, errors: list[str]) -> None:
    """Do one request after the other while there is time; what went wrong is noted, and nothing stops it."""
    try:
        for _ in act():
            if time.monotonic() > until:
                errors.append("no time was left to remove the rest")
                return
    except ERRORS as error:
        errors.append(words_of(error))


def _key_of(entry: Mapping[str, Any]) -> str:
    return str(entry["Key"])


def _unless_absent(request: Callable[[], object]) -> object:
    """Send a request; that what it removes is not there is no error."""
    try:
        return request()
    except ClientError as error:
        if _http(error) == _ABSENT:
            return None
        raise


def kind_of(error: Exception) -> str:
    """Tell in which of the recording's words the store, or the way to it, refused."""
    if isinstance(error, (ConnectTimeoutError, ReadTimeoutError)):
        return "timed_out"
    return "denied" if isinstance(error, ClientError) and _http(error) in (401, 403) else "failed"


def words_of(error: Exception) -> str:
    """Say what went wrong in one line, e.g. ``PutObject: InvalidAccessKeyId (HTTP 403)``."""
    if isinstance(error, ClientError):
        told = error.response.get("Error", {})
        return f"{error.operation_name}: {told.get('Code', 'an error without a code')} (HTTP {_http(error)})"
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def _http(error: ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _status(request: Callable[[], Mapping[str, Any]]) -> int:
    try:
        return int(request()["ResponseMetadata"]["HTTPStatusCode"])
    except ClientError as error:
        return _http(error)


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
