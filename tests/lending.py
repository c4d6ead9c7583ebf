"""An object store from which nodes are lent objects, where the nodes are processes of this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import seaweed
from gpuassay.evidence.item import Item
from gpuassay.judge.services import S3, Services
from gpuassay.measure.s3client import Place

if TYPE_CHECKING:
    import pytest

    from gpuassay.target import Job, Results

KEY, SECRET = "TEST_ACCESS", "TEST_SECRET"
"""The environment variables in which the suite finds the keys."""


def set_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the keys in the environment of the suite, and nothing else that boto3 looks for."""
    for name in ("AWS_PROFILE", "AWS_CA_BUNDLE", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv(KEY, seaweed.ACCESS_KEY)
    monkeypatch.setenv(SECRET, seaweed.SECRET_KEY)


class Host(NamedTuple):
    """As much of a node as the survey asks of one."""

    name: str
    busy: str = ""
    gpus: tuple[str, ...] = ("a GPU",)


def declared(endpoint: str, bucket: str = "", **speeds: float) -> Services:
    """Give a site that has this store."""
    return Services(s3=S3(endpoint, bucket, access_key=KEY, secret_key=SECRET, speeds=speeds))


def on_this_machine(job: Job) -> Results:
    """Run each node's part as a process here, without the keys."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]

    def part(rank: int) -> Item:
        place = {"RANK": str(rank), "WORLD_SIZE": str(len(job.nodes)), "MASTER_ADDR": "127.0.0.1"}
        environment = {"PATH": os.environ["PATH"], **place, "MASTER_PORT": str(port)}
        argv = [sys.executable, *job.argv[1:]]
        done = subprocess.run(argv, input=job.feed, capture_output=True, check=False, env=environment)
        return Item(job.name, 1, exit=done.returncode, out=done.stdout, err=done.stderr.decode())

    with ThreadPoolExecutor(len(job.nodes)) as pool:
        items = list(pool.map(part, range(len(job.nodes))))
    return {(name, 0): item for name, item in zip(job.nodes, items, strict=True)}


def left(services: Services) -> list[str]:
    """List what lies in the store below any prefix of ours, and uploads that were begun."""
    assert services.s3
    client = Place(services.s3, seaweed.ACCESS_KEY, seaweed.SECRET_KEY).client
    found = [one["Name"] for one in client.list_buckets()["Buckets"] if one["Name"].startswith("gpuassay-")]
    for bucket in (one["Name"] for one in client.list_buckets()["Buckets"]):
        found += [one["Key"] for one in client.list_objects_v2(Bucket=bucket).get("Contents", ())]
        found += [one["Key"] for one in client.list_multipart_uploads(Bucket=bucket).get("Uploads", ())]
    return found
