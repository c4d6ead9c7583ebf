"""A client of object storage, by boto3, and what is ours in a store: found, listed and removed again.

All that is made lies below one prefix that nobody else has, in the bucket of the site file or in one that is
made for it. Whatever happens, ``clean`` removes it and looks whether it is gone.
"""

from __future__ import annotations

import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ConnectTimeoutError, ReadTimeoutError, SSLError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from gpuassay.judge.services import S3

__all__ = ["ERRORS", "Place", "SSLError", "client", "kind_of", "status_of", "unless_absent", "words_of"]

ERRORS = (BotoCoreError, ClientError, ValueError)  # ValueError: what is no address, or no name of a bucket

_CONNECT_S, _READ_S = 5, 10
_NAMED = 5  # of what is left, so many are named
_KEPT = ("Versions", "DeleteMarkers")
_ABSENT = 404
_AT_ONCE = 8
T = TypeVar("T")


class Place:
    """Where we may write in a store, and what we have made there."""

    def __init__(self, s3: S3, access_key: str, secret_key: str) -> None:
        """Take where the store is, and the keys to it; nothing is asked yet."""
        self.prefix = f"gpuassay-{uuid.uuid4().hex}"
        self.bucket = s3.bucket or self.prefix
        self.keys: set[str] = set()
        self.uploads: list[tuple[str, str]] = []
        keys = {"aws_access_key_id": access_key, "aws_secret_access_key": secret_key}
        self.client = client(s3, "s3v4", **keys)
        self._made = not s3.bucket

    def open(self) -> dict[str, Any]:
        """Make the bucket, or look whether the declared one is there."""
        if self._made:
            self.client.create_bucket(Bucket=self.bucket)
        self.client.head_bucket(Bucket=self.bucket)
        return {"bucket": self.bucket, "made": self._made, "prefix": self.prefix}

    def keeps_versions(self) -> bool:
        """Tell whether what is overwritten stays, by what the store says of an object of ours."""
        named = {"Bucket": self.bucket, "Key": self.key("versions")}
        return str(self.client.put_object(**named, Body=b"").get("VersionId", "null")) != "null"

    def key(self, name: str) -> str:
        """Name an object of ours, and remember that it may be there from now on."""
        key = f"{self.prefix}/{name}"
        self.keys.add(key)
        return key

    def name(self, key: str) -> str:
        """Give the name that an object has among ours."""
        return key.removeprefix(f"{self.prefix}/")

    def upload(self, name: str) -> tuple[str, str]:
        """Begin an upload in parts; gives its key and its id."""
        key = self.key(name)
        upload = self.client.create_multipart_upload(Bucket=self.bucket, Key=key)["UploadId"]
        self.uploads.append((key, upload))
        return key, upload

    def listed(self, page: int = 1000) -> Iterator[dict[str, Any]]:
        """List what is there of ours, so many on each page."""
        pages = self.client.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=self.prefix, PaginationConfig={"PageSize": page}
        )
        return (entry for page in pages for entry in page.get("Contents", ()))

    def clean(self, until: float) -> dict[str, Any]:
        """Remove all that may have been made, until ``until`` (monotonic); tells what is left, and why."""
        errors: list[str] = []
        left: list[str] = []
        if self.keys:
            for act in (self._abort, self._delete, self._delete_versions):
                _bounded(act, until, errors)
            _bounded(lambda: map(left.append, map(_key_of, self.listed())), until, errors)
        if self._made:
            _bounded(self._remove_bucket, until, errors)
        return {"left": left[:_NAMED], "left_count": len(left), "errors": errors}

    def _abort(self) -> Iterator[object]:
        """Give up uploads that were not completed. One that was is unknown by now."""

        def abort(upload: tuple[str, str]) -> object:
            where = {"Bucket": self.bucket, "Key": upload[0], "UploadId": upload[1]}
            return unless_absent(partial(self.client.abort_multipart_upload, **where))

        return _spread(abort, self.uploads)

    def _delete(self) -> Iterator[object]:
        found = {*self.keys, *map(_key_of, self.listed())}
        return _spread(lambda key: self.client.delete_object(Bucket=self.bucket, Key=key), found)

    def _delete_versions(self) -> Iterator[object]:
        """Remove each version: where a bucket keeps them, deleting only hides. Not every store does."""
        pages = self.client.get_paginator("list_object_versions")
        try:
            found = list(pages.paginate(Bucket=self.bucket, Prefix=self.prefix))
        except ClientError:
            return iter(())
        kept = [one for page in found for kind in _KEPT for one in page.get(kind, ())]

        def delete(one: Mapping[str, Any]) -> object:
            named = {"Bucket": self.bucket, "Key": one["Key"], "VersionId": one["VersionId"]}
            return self.client.delete_object(**named)

        return _spread(delete, kept)

    def _remove_bucket(self) -> Iterator[object]:
        """Remove the bucket that was made; one that could not be made is not there."""
        yield unless_absent(lambda: self.client.delete_bucket(Bucket=self.bucket))


def client(s3: S3, signature: Any, **keys: str) -> Any:
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


def _spread(remove: Callable[[T], object], found: Iterable[T]) -> Iterator[object]:
    """Remove several at once; whoever stops asking for more stops it."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        try:
            yield from pool.map(remove, found)
        finally:
            pool.shutdown(cancel_futures=True)


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


def unless_absent(request: Callable[[], object]) -> object:
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


def status_of(request: Callable[[], Mapping[str, Any]]) -> int:
    """Send a request, and give the HTTP status of whatever comes."""
    try:
        return int(request()["ResponseMetadata"]["HTTPStatusCode"])
    except ClientError as error:
        return _http(error)
