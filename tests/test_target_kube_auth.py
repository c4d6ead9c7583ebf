"""Who we are to an API server: kubeconfigs, a pod's own account, plugins, and what can be wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.judge.reach import KubernetesReach
from gpuassay.target import TargetError, kube_auth
from gpuassay.target.kubernetes import Kubernetes
from kubeapi import answers, cluster
from kubeapi.rig import Start, clusters
from kubeapi.server import TOKEN
from probing import Mark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOBODY = KubernetesReach()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start clusters."""
    with clusters(tmp_path) as start:
        yield start


@pytest.fixture(autouse=True)
def _nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing of who runs the tests be found."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(kube_auth, "SERVICE_ACCOUNT", str(tmp_path / "account"))


def plugin(folder: Path, script: str, version: str = "v1", **more: Any) -> dict[str, Any]:
    """Make a user who has a credential plugin."""
    path = folder / "plugin"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o700)
    api = f"client.authentication.k8s.io/{version}"
    return {"exec": {"apiVersion": api, "command": "./plugin", "interactiveMode": "IfAvailable", **more}}


def declared(config: Path) -> tuple[str, ...]:
    """Ask for the nodes."""
    return Kubernetes(KubernetesReach(kubeconfig=str(config)), (), 60).declared()


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_credential_plugin(start: Start, tmp_path: Path, version: str) -> None:
    """It is run once for many requests, told how it is asked, and again when its token is refused."""
    server = start(cluster.node("gpu1"))
    said = json.dumps({"status": {"token": TOKEN}})
    script = f"echo \"$EXTRA $KUBERNETES_EXEC_INFO\" >> {tmp_path}/asked; echo '{said}'"
    user = plugin(tmp_path, script, version, env=[{"name": "EXTRA", "value": "given"}])
    config = server.kubeconfig(tmp_path / "config", user)
    refusals = iter([True])
    server.faults.append(
        lambda _verb, path: answers.unauthorized() if "nodes" in path and next(refusals, False) else None
    )
    assert declared(config) == ("gpu1",)
    first, second = (tmp_path / "asked").read_text().splitlines()
    assert first == second
    extra, _, told = first.partition(" ")
    assert extra == "given"
    assert json.loads(told)["apiVersion"] == f"client.authentication.k8s.io/{version}"
    assert json.loads(told)["spec"]["interactive"] is False


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("echo please log in >&2; exit 1", "exit 1: please log in"),
        ("echo no json", "JSONDecodeError"),
        ("echo '{\"status\": {}}'", "KeyError"),
    ],
)
def test_a_plugin_that_fails(start: Start, tmp_path: Path, script: str, says: str) -> None:
    """What it said ends the run, with the hint that the kubeconfig has."""
    server = start(cluster.node("gpu1"))
    user = plugin(tmp_path, script, installHint="see example.com")
    with pytest.raises(TargetError, match="gave no token") as caught:
        declared(server.kubeconfig(tmp_path / "config", user))
    assert says in str(caught.value)
    assert "see example.com" in str(caught.value)


def test_a_plugin_that_hangs(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is killed with what it started."""
    mark = Mark()
    server = start(cluster.node("gpu1"))
    monkeypatch.setattr(kube_auth, "_PLUGIN_S", 0.3)
    env = [{"name": name, "value": value} for name, value in mark.environment.items()]
    user = plugin(tmp_path, "sleep 1000 & sleep 1000", env=env)
    with pytest.raises(TargetError, match="TimeoutError"):
        declared(server.kubeconfig(tmp_path / "config", user))
    assert mark.survivors() == []


def test_where_a_kubeconfig_is_found(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The site file's comes first, then that of KUBECONFIG, then the user's, then a pod's own account."""
    named, environment, home = (start().kubeconfig(tmp_path / name) for name in ("a", "b", "c"))
    (tmp_path / ".kube").mkdir()
    home.rename(tmp_path / ".kube/config")
    account = tmp_path / "account"
    account.mkdir()
    for name in ("token", "namespace", "ca.crt"):
        (account / name).write_text("x", encoding="utf-8")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")

    def server(reach: KubernetesReach) -> str:
        return kube_auth.configuration(reach).cluster.server

    monkeypatch.setenv("KUBECONFIG", str(environment))
    servers = [server(KubernetesReach(kubeconfig=str(named))), server(NOBODY)]
    monkeypatch.delenv("KUBECONFIG")
    servers.append(server(NOBODY))
    (tmp_path / ".kube/config").unlink()
    servers.append(server(NOBODY))
    assert len({*servers}) == 4
    assert servers[3] == "https://[fd00::1]:443"


@pytest.mark.parametrize(
    "text",
    [None, "", "[]", "{", "clusters: 3", "current-context: gone\nclusters: []\ncontexts: []", "a: b: c"],
)
def test_a_kubeconfig_that_leads_nowhere(tmp_path: Path, text: str | None) -> None:
    """Whatever is wrong with it, the run ends with its name and where to name another."""
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(TargetError, match=rf"{path} leads to no cluster: .*KUBECONFIG"):
        declared(path)


def test_a_context_that_is_not_there(start: Start, tmp_path: Path) -> None:
    """It is named."""
    reach = KubernetesReach(kubeconfig=str(start().kubeconfig(tmp_path / "config")), context="other")
    with pytest.raises(TargetError, match="Context 'other' not found"):
        kube_auth.configuration(reach)


def test_a_certificate_that_is_none(start: Start, tmp_path: Path) -> None:
    """A client certificate that cannot be read ends the run, and names the context."""
    user = {"client-certificate": "gone.crt", "client-key": "gone.key"}
    with pytest.raises(TargetError, match="context test cannot be used"):
        declared(start().kubeconfig(tmp_path / "config", user))


def test_without_the_extra() -> None:
    """Without the packages that it needs, the target says what to install, and other targets do not care."""
    code = """
import sys
sys.modules["lightkube"] = None
from gpuassay.judge.reach import Reach
from gpuassay.target import TargetError
from gpuassay.target.choice import Wanted, choose
wanted = Wanted((), 60, Reach())
print(choose("local", wanted).name)
try:
    choose("kubernetes", wanted)
except TargetError as error:
    print(error)
"""
    path = {"PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", code], env=path, capture_output=True, check=True, text=True)
    local, missing = done.stdout.splitlines()
    assert local == "local"
    assert missing.endswith("pip install 'gpuassay[kubernetes]'")
