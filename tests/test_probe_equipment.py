"""What is looked for on a node beside its hardware: found in made-up trees, and nothing private kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from facts_evidence import evidence, unread, value
from gpuassay.facts.equipment import Equipment
from gpuassay.probe import equipment

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Give a tree with some of what there is to find."""
    files = {
        "usr/share/lmod/lmod/init/profile": "",
        "opt/nvidia/hpc_sdk/Linux_x86_64/26.5/README": "",
        "usr/lib/x86_64-linux-gnu/libnccl.so.2.30.4": "",
        "etc/slurm/plugstack.conf": "# required /opt/spank_pyxis.so\n",
        "etc/slurm/plugstack.conf.d/pyxis.conf": "required /opt/pyxis/spank_pyxis.so\n",
        "etc/nsswitch.conf": "group: files\npasswd:  files sss [NOTFOUND=return] # users\n",
        "etc/ssh/sshd_config": "#HostbasedAuthentication no\nHostbasedAuthentication yes\n",
        "proc/sys/user/max_user_namespaces": "8254541\n",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    (tmp_path / "usr/lib/x86_64-linux-gnu/libnccl.so.2").symlink_to("libnccl.so.2.30.4")
    return tmp_path


def test_what_is_there_is_found(root: Path) -> None:
    """Links lead to one library; what is commented out loads nothing; the first word of sshd counts."""
    found = equipment.equipment(str(root))

    assert found["nccl"] == ["libnccl.so.2.30.4"]
    assert found["hpc_sdk"] == ["26.5"]
    assert found["pyxis"]["loaded"] is True
    assert found["passwd"] == ["files", "sss", "[NOTFOUND=return]"]
    assert found["ssh"]["hostbased"] is True
    told = Equipment(evidence({"equipment": found}))
    assert value(told.nccl) == "2.30.4"
    assert value(told.central_users) is True
    assert value(told.namespaces) is True
    assert value(told.lmod) is True
    assert value(told.own_ssh) is True


def test_an_empty_tree_has_nothing(tmp_path: Path) -> None:
    """What is not there is false, and what cannot be read says so."""
    found = equipment.equipment(str(tmp_path))
    told = Equipment(evidence({"equipment": found | {"programs": {}}}))

    assert [value(fact) for fact in (told.has_nccl, told.hpc_sdk, told.lmod, told.enroot)] == [False] * 4
    assert value(told.pyxis) is False
    assert unread(told.namespaces).kind == "garbled"
    assert unread(told.central_users).kind == "not_found"


def test_a_key_opens_the_account_only_with_its_other_half(tmp_path: Path) -> None:
    """The public half has to be allowed, and the private one to be there; neither is in the answer."""
    (tmp_path / "id_ed25519.pub").write_text("ssh-ed25519 AAAAKEY me@here\n")
    (tmp_path / "authorized_keys").write_text('from="10.0.0.0/8" ssh-ed25519 AAAAKEY anybody\n')
    own_key = equipment._own_key  # noqa: SLF001 - the place of the keys is not to be given otherwise
    assert own_key(str(tmp_path)) is False

    (tmp_path / "id_ed25519").write_text("private")
    assert own_key(str(tmp_path)) is True


@pytest.mark.parametrize("broken", [{}, {"nccl": "libnccl"}, {"passwd": [1]}, {"programs": []}])
def test_what_has_another_form_is_unread(broken: dict[str, Any]) -> None:
    """No list is no empty list: nothing is missing because it could not be read."""
    told = Equipment(evidence({"equipment": broken}))

    assert unread(told.has_nccl).kind == "garbled"
    assert unread(told.enroot).kind == "garbled"
    assert unread(told.central_users).kind == "garbled"
