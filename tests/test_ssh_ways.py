"""ssh between real nodes: who gets through without a password, and who is asked for one."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.measure.errands.ways import targets
from nodes import Rack, needs
from sshd import Access

if TYPE_CHECKING:
    from nodes import Node

ROOT = Path(__file__).parents[1]


def give_key(access: Access, node: Node) -> None:
    """Put the user's key into his home on a node, where ssh looks for it by itself."""
    folder = access.home(node) / ".ssh"
    folder.mkdir()
    shutil.copy(access.folder / "user", folder / "id_ed25519")


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Try it on three nodes, of which one has no key to offer to the others."""
    folder = tmp_path_factory.mktemp("ways")
    names = ("n1", "n2", "n3")
    with Rack(folder, "login", *names) as rack:
        access = Access.create(folder)
        for name in names:
            access.serve(rack[name])
        for name in ("n1", "n2"):
            give_key(access, rack[name])
        site = folder / "site.toml"
        site.write_text(
            '[cluster]\nname = "three"\n[[pool]]\nname = "all"\nnodes = "n[1-3]"\n'
            f'[ssh]\nconfig = "{access.config}"\npython = "{sys.executable}"\n'
        )
        words = [str(ROOT / "tests_audit" / "test_access.py"), "-c", str(ROOT / "pyproject.toml")]
        how = [
            "--target=ssh",
            f"--site={site}",
            f"--run-dir={folder / 'run'}",
            "--allow=touch",
            "-k",
            "ssh_tried",
        ]
        path = os.pathsep.join(filter(None, sys.path))
        environment = {**os.environ, "PYTHONPATH": path}
        argv = [sys.executable, "-m", "pytest", *words, *how, "-p", "no:cacheprovider"]
        done = rack["login"].run(*argv, env=environment, check=False)
        left = {name: [path.name for path in (access.home(rack[name])).rglob("*")] for name in names}
        assert (folder / "run" / "results.json").exists(), done.stdout + done.stderr
    found = json.loads((folder / "run" / "results.json").read_text())["checks"]["audit.access.ssh_tried"]
    return {"rows": {row["where"]: row for row in found["observations"]}, "left": left, "check": found}


@needs("sshd", "ssh", "ssh-keygen")
def test_each_node_tries_the_others(rows: dict[str, Any]) -> None:
    """Who has a key gets everywhere; who has none is asked for a password, in ssh's own words."""
    verdicts = {where: row["verdict"] for where, row in rows["rows"].items()}
    assert verdicts == {"n1/to n[2-3],n2/to n[1,3]": "pass", "n3/to n1": "warn", "n3/to n2": "warn"}
    assert "Permission denied" in rows["rows"]["n3/to n1"]["reason"]
    assert rows["check"]["verdict"] == "warn"


@needs("sshd", "ssh", "ssh-keygen")
def test_no_key_of_a_machine_is_remembered(rows: dict[str, Any]) -> None:
    """The homes hold what they held: the key, and no known_hosts."""
    assert set(rows["left"]["n1"]) == {".ssh", "id_ed25519"}
    assert "known_hosts" not in str(rows["left"])


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8, 64])
def test_nobody_calls_himself_and_all_are_called(count: int) -> None:
    """Each node is reached by another one, none by itself, and none tries more than three."""
    chosen = {here: targets(here, count) for here in range(count)}
    assert {place for places in chosen.values() for place in places} == set(range(count))
    assert all(here not in places and len(places) <= 3 for here, places in chosen.items())
    assert targets(0, 1) == []
