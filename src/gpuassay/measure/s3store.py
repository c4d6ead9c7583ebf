"""A trial of object storage with boto3: small objects are put, read back in every way, and removed again."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from botocore import UNSIGNED

from gpuassay.measure.s3client import (
    ERRORS,
    Place,
    SSLError,
    client,
    kind_of,
    status_of,
    unless_absent,
    words_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpuassay.judge.services import S3

__all__ = ["ERRORS", "SSLError", "Trial", "kind_of", "words_of"]

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
_ONCE = "once"


class Trial:
    """What is tried, in the order of ``steps``; each gives a document, or raises one of ``ERRORS``."""

    def __init__(self, s3: S3, access_key: str, secret_key: str) -> None:
        """Take where the store is, and the keys to it."""
        self._place = Place(s3, access_key, secret_key)
        self._bucket, self._client = self._place.bucket, self._place.client
        self._anybody = client(s3, UNSIGNED)
        self._sent: dict[str, bytes] = {}

    @property
    def steps(self) -> Mapping[str, Callable[[], dict[str, Any]]]:
        """All steps by their names."""
        return {
            "bucket": self._place.open,
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
            self._place.name(entry["Key"]): {"size": entry["Size"], "etag": entry.get("ETag", "")}
            for entry in self._place.listed(_PAGE)
        }

    def overwrite(self) -> dict[str, Any]:
        """Put another content under a name, and read it at once."""
        content = self._content(_ONCE, 1000)
        self._put("one byte", content)
        return {"expected": _sum(content), **self._read("one byte")}

    def multipart(self) -> dict[str, Any]:
        """Put an object in two parts, and read it whole."""
        key, content = self._place.key(_MULTIPART), self._content(_MULTIPART, _PART + _MIB)
        self._sent[_MULTIPART] = content
        where = {"Bucket": self._bucket, "Key": key}
        _, upload = self._place.upload(_MULTIPART)
        bodies = enumerate((content[:_PART], content[_PART:]), 1)
        parts = [self._part(number, body, UploadId=upload, **where) for number, body in bodies]
        self._client.complete_multipart_upload(**where, UploadId=upload, MultipartUpload={"Parts": parts})
        return {"expected": _sum(content), **self._read(_MULTIPART)}

    def _part(self, number: int, body: bytes, **where: str) -> dict[str, Any]:
        told = self._client.upload_part(**where, PartNumber=number, Body=body)
        return {"PartNumber": number, "ETag": told["ETag"]}

    def anonymous(self) -> dict[str, Any]:
        """Read, list and write without any key; gives the HTTP statuses."""
        here = {"Bucket": self._bucket}
        return {
            "read": status_of(lambda: self._anybody.get_object(**here, Key=self._place.key("large"))),
            "list": status_of(lambda: self._anybody.list_objects_v2(**here, MaxKeys=1)),
            "write": status_of(
                lambda: self._anybody.put_object(**here, Key=self._place.key("anybody"), Body=b"")
            ),
        }

    def delete(self) -> dict[str, Any]:
        """Delete all that was put, and look for it both ways."""
        for name in self._sent:
            self._client.delete_object(Bucket=self._bucket, Key=self._place.key(name))
        read = [name for name in self._sent if self._read(name)["got"] is not None]
        listed = {self._place.name(entry["Key"]) for entry in self._place.listed(_PAGE)} & {*self._sent}
        return {"deleted": len(self._sent), "still_read": read, "still_listed": sorted(listed)}

    def clean(self, until: float) -> dict[str, Any]:
        """Remove all that may have been made, until ``until`` (monotonic); tells what is left, and why."""
        return self._place.clean(until)

    # --- objects -------------------------------------------------------------------------------------

    @property
    def _objects(self) -> Mapping[str, int]:
        return {**_NAMES, **_SMALL}

    def _content(self, name: str, size: int) -> bytes:
        return hashlib.shake_128(f"{self._place.prefix}/{name}".encode()).digest(size)

    def _put(self, name: str, content: bytes) -> dict[str, Any]:
        self._sent[name] = content  # before it is sent: what is cut may have come through
        told = self._client.put_object(Bucket=self._bucket, Key=self._place.key(name), Body=content)
        return {"sent": _sum(content), "size": len(content), "etag": told.get("ETag", "")}

    def _read(self, name: str, **how: str) -> dict[str, Any]:
        """Read an object; one that is not there has no sum."""
        where = {"Bucket": self._bucket, "Key": self._place.key(name)}
        told: Any = unless_absent(lambda: self._client.get_object(**where, **how))
        if told is None:
            return {"got": None}
        content = told["Body"].read()
        return {"got": _sum(content), "size": len(content), "etag": told.get("ETag", "")}

    def _look(self, name: str) -> dict[str, Any]:
        where = {"Bucket": self._bucket, "Key": self._place.key(name)}
        told: Any = unless_absent(lambda: self._client.head_object(**where))
        return (
            {"size": None} if told is None else {"size": told["ContentLength"], "etag": told.get("ETag", "")}
        )


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
