"""The recipes for schedulers: the batch script on a real Slurm, the CronJob against our API server."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import httpx2 as httpx
import pytest
import yaml

from gpuassay.evidence.recording import read_recording
from kubeapi import cluster
from kubeapi.rig import Start, clusters
from kubeapi.server import TOKEN
from kubeapi.store import KINDS
from nodes import Rack
from plugging import ROOT
from slurmd import LOGIN, Slurm, needs_slurm

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kubeapi.server import ApiServer

RECIPES = ROOT / "docs" / "recipes"
MANIFEST = list(yaml.safe_load_all((RECIPES / "kubernetes.yaml").read_text(encoding="utf-8")))
COMMAND = (sys.executable, "-c", "import sys; from gpuassay.cli import main; sys.exit(main())")

Grants = set[tuple[str, str, str]]


# --- Slurm ---------------------------------------------------------------------------------------


@needs_slurm()
def test_the_batch_script(tmp_path: Path) -> None:
    """It asks every node of its allocation, and ends as the suite did: no tier, no success."""
    folder = tmp_path / "job"
    (folder / ".venv" / "bin").mkdir(parents=True)
    program = folder / ".venv" / "bin" / "gpuassay"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    site = '[cluster]\nname = "slurm"\n[[pool]]\nnodes = "n[1-2]"\nhas = ["gpu", "nvidia"]\n'
    (folder / "site.toml").write_text(site, encoding="utf-8")
    with Rack(tmp_path, LOGIN, "n1", "n2") as rack:
        slurm = Slurm(
            rack, tmp_path / "slurm", {"batch": "Nodes=n[1-2] Default=YES MaxTime=1:00:00 State=UP"}
        )
        slurm.start()
        words = ["sbatch", "--wait", "--parsable", "--nodes=2", f"--chdir={folder}"]
        done = slurm.run(
            "sh",
            "-c",
            f'cd "$0" && exec {shlex.join(words)} "$1"',
            str(folder),
            str(RECIPES / "acceptance.sbatch"),
            check=False,
        )
        job = done.stdout.strip()
        log = (folder / f"acceptance-{job}.log").read_text(encoding="utf-8")
        slurm.assert_nothing_runs()
    assert done.returncode == 1, done.stderr + log
    run = folder / "runs" / job
    recording = read_recording(run / "recording")
    assert {name: node.item("probe") for name, node in recording.nodes.items()} == {"n1": None, "n2": None}, (
        log
    )
    results = json.loads((run / "results.json").read_text(encoding="utf-8"))
    assert results["coverage"]["nodes"]["answered"] == 2
    assert (run / "junit.xml").is_file()


# --- Kubernetes ----------------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ApiServer]:
    """Start a cluster of the nodes that the manifest names; one gives its GPUs by claims."""
    with clusters(tmp_path) as start:
        yield _started(start)


def _started(start: Start) -> ApiServer:
    server = start(cluster.node("gpu001", 8), cluster.node("gpu002"), dra="v1")
    cluster.slices(server.store, "gpu002", 8)
    return server


def one(kind: str) -> dict[str, Any]:
    """Give the only object of a kind in the manifest."""
    (found,) = (item for item in MANIFEST if item["kind"] == kind)
    return dict(found)


def apply(server: ApiServer) -> list[str]:
    """Have the server make what the manifest says, in its order; gives the kinds that it does not know."""
    plurals = {kind.kind: kind.plural for kind in KINDS}
    unknown = [item["kind"] for item in MANIFEST if item["kind"] not in plurals]
    with httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {TOKEN}"}) as client:
        for item in MANIFEST:
            if item["kind"] in unknown:
                continue
            version, space = item["apiVersion"], item["metadata"].get("namespace")
            parts = ["apis" if "/" in version else "api", version, *(["namespaces", space] if space else [])]
            made = client.post(f"/{'/'.join(parts)}/{plurals[item['kind']]}", json=item)
            assert made.status_code == 201, made.text
    return unknown


def grants() -> Grants:
    """Read what the account may do: a verb on a resource, in a namespace or, if empty, in all."""
    return {
        (verb, "/".join(filter(None, [group, resource])), role["metadata"].get("namespace", ""))
        for role in (one("Role"), one("ClusterRole"))
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_the_cron_job_needs_all_of_its_rights_and_no_more(server: ApiServer, tmp_path: Path) -> None:
    """Run with what the manifest grants, every node answers, each right is used, nothing stays."""
    assert apply(server) == ["ServiceAccount", "CronJob"]
    used: Grants = set()
    granted = grants()

    def allows(verb: str, resource: str, place: str) -> bool:
        found = {(verb, resource, place), (verb, resource, "")} & granted
        used.update(found)
        return bool(found)

    server.allows = allows
    (container,) = one("CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["gpuassay"]
    site, runs = tmp_path / "site", tmp_path / "runs"
    site.mkdir()
    runs.mkdir()
    for name, text in one("ConfigMap")["data"].items():
        (site / name).write_text(text, encoding="utf-8")
    # Its account leads to a server with a certificate; a kubeconfig leads to ours, which has none.
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "KUBECONFIG": str(server.kubeconfig(tmp_path / "kubeconfig")),
    }
    argv = [*COMMAND, *(word.replace("/site/", f"{site}/") for word in container["args"])]
    done = subprocess.run(argv, cwd=runs, env=environment, capture_output=True, text=True, check=False)
    (run,) = runs.glob("gpuassay-runs/*")
    recording = read_recording(run / "recording")
    assert {name: node.item("probe") for name, node in recording.nodes.items()} == {
        "gpu001": None,
        "gpu002": None,
    }
    refused = [item.id for item in recording.cluster.items if item.status != "ok"]
    assert refused == ["kubernetes/kubelets"], "nodes/proxy is left out on purpose"
    assert done.returncode == 1, "no GPU is behind these nodes, so no tier is won"
    assert server.store.ours() == []
    assert used == granted


def test_the_cron_job_fits_the_restricted_profile() -> None:
    """Its pod is one that its namespace admits; account, claim and ConfigMap are those of the manifest."""
    spec = one("CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert one("Namespace")["metadata"]["labels"] == {"pod-security.kubernetes.io/enforce": "restricted"}
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert all(
        {"configMap", "persistentVolumeClaim", "emptyDir"} & volume.keys() for volume in spec["volumes"]
    )
    assert spec["serviceAccountName"] == one("ServiceAccount")["metadata"]["name"]
    for kind, role in (("RoleBinding", "Role"), ("ClusterRoleBinding", "ClusterRole")):
        assert one(kind)["roleRef"]["name"] == one(role)["metadata"]["name"]
        (subject,) = one(kind)["subjects"]
        assert subject == {"kind": "ServiceAccount", **one("ServiceAccount")["metadata"]}
    named = {volume["name"]: volume for volume in spec["volumes"]}
    assert named.keys() == {mount["name"] for mount in container["volumeMounts"]}
    assert named["site"]["configMap"]["name"] == one("ConfigMap")["metadata"]["name"]
    assert (
        named["runs"]["persistentVolumeClaim"]["claimName"]
        == one("PersistentVolumeClaim")["metadata"]["name"]
    )
