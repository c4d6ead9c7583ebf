"""Our API server for tests answers in the shapes of the real ones, 1.20 and 1.36, that were captured."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kubeapi import cluster
from kubeapi.rig import Start, clusters
from kubeapi.server import TOKEN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubeapi.server import ApiServer

SAMPLES = Path(os.environ.get("GPUASSAY_SAMPLES", Path(__file__).parents[2] / "shared"))
CAPTURES = SAMPLES / "captures/kube-api"
NO_SAMPLES = "the samples are not here: set GPUASSAY_SAMPLES"
pytestmark = pytest.mark.skipif(not CAPTURES.is_dir(), reason=NO_SAMPLES)
VERSIONS = {"1.20.2": 20, "1.36.2": 36}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start clusters."""
    with clusters(tmp_path) as start:
        yield start


def ask(
    server: ApiServer, path: str, method: str = "GET", body: Any = None, token: str = TOKEN
) -> tuple[int, Any]:
    """Send a request as a plain client does."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(  # noqa: S310 - our own server
        server.url + path, data, {"Authorization": f"Bearer {token}"}, method=method
    )
    try:
        with urllib.request.urlopen(request) as answer:  # noqa: S310 - the same
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        text = error.read().decode()
        return error.code, json.loads(text) if text.startswith("{") else text


def shape(value: Any) -> Any:
    """Reduce a document to its keys and types; of a list, what all its entries have."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(inner) for inner in value[:1]]
    return type(value).__name__


def captured(version: str, name: str) -> Any:
    """Give what a real server answered."""
    text = (CAPTURES / version / f"{name}.json").read_text(encoding="utf-8")
    return json.loads(text) if text.startswith("{") else text


@pytest.mark.parametrize("version", VERSIONS)
def test_refusals(start: Start, version: str) -> None:
    """Each refusal has the keys, the code and the reason of the real one."""
    server = start(cluster.node("gpu1"), minor=VERSIONS[version])
    pod = {"metadata": {"name": "Bad_Name"}}
    asked = {
        "err_404": ask(server, "/api/v1/namespaces/default/pods/nope"),
        "err_404_path": ask(server, "/nowhere/at/all"),
        "err_409": ask(server, "/api/v1/namespaces", "POST", {"metadata": {"name": "default"}}),
        "err_422": ask(server, "/api/v1/namespaces/default/pods", "POST", pod),
    }
    server.allows = lambda _verb, _resource, _place: False
    asked["err_403"] = ask(server, "/api/v1/nodes")
    if version == "1.20.2":
        asked["err_401"] = ask(server, "/api/v1/nodes", token="wrong")  # noqa: S106 - made up
    for name, (code, answer) in asked.items():
        real = captured(version, name)
        assert shape(answer) == shape(real), name
        if isinstance(real, dict):
            assert (code, answer["code"], answer["reason"]) == (real["code"], real["code"], real["reason"])
    assert asked["err_403"][1]["message"] == captured(version, "err_403")["message"]
    assert asked["err_404"][1]["message"] == captured(version, "err_404")["message"]
    assert asked["err_404_path"] == (404, "404 page not found\n")


@pytest.mark.parametrize("version", VERSIONS)
def test_discovery(start: Start, version: str) -> None:
    """The version and a group are described with the keys of the real ones."""
    server = start(minor=VERSIONS[version], dra="v1")
    assert shape(ask(server, "/version")[1]) == shape(captured(version, "version"))
    group = ask(server, "/apis/resource.k8s.io")[1]
    assert shape(group) == shape(captured(version, "resource_group"))
    assert shape(ask(server, "/apis")[1]) == shape(captured(version, "apis"))
    assert ask(start(), "/apis/resource.k8s.io")[0] == 404


@pytest.mark.parametrize("version", VERSIONS)
def test_a_page_of_a_list(start: Start, version: str) -> None:
    """A page says in the same words that there is more, and how much."""
    server = start(cluster.node("gpu1"), cluster.node("gpu2"), minor=VERSIONS[version])
    page = ask(server, "/api/v1/nodes?limit=1")[1]
    real = captured(version, "limit")
    assert shape(page["metadata"]) == shape(real["metadata"])
    assert (page["kind"], page["metadata"]["remainingItemCount"]) == ("NodeList", 1)
    rest = ask(server, f"/api/v1/nodes?limit=1&continue={page['metadata']['continue']}")[1]
    assert [one["metadata"]["name"] for one in page["items"] + rest["items"]] == ["gpu1", "gpu2"]
    assert "continue" not in rest["metadata"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_node(start: Start, version: str) -> None:
    """A node has no key that a real one lacks, and all that is kept of one."""
    server = start(cluster.node("gpu1", 8), minor=VERSIONS[version])
    ours = shape(ask(server, "/api/v1/nodes")[1]["items"][0])
    real = shape(captured(version, "nodes")["items"][0])
    for part in ("spec", "status"):
        assert ours[part].keys() - {"images"} <= real[part].keys()
    assert ours["status"]["nodeInfo"] == real["status"]["nodeInfo"]
    assert ours["status"]["conditions"] == real["status"]["conditions"]
    assert ours["status"]["capacity"] == real["status"]["capacity"]
