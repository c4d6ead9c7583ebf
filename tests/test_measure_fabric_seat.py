"""The management of a fabric, as it looks from a node: asked only where the user may, and nothing guessed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuassay.evidence.item import Item
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure.fabric_seat import FabricSeat

if TYPE_CHECKING:
    from pathlib import Path

TOOL = FabricSeat()
ARGS = {"seconds": 5}
KEPT = {"reached": True, "key_is_zero": None, "protect_bits": None, "switches": 0, "adapters": 4}

# The lines are those of smpquery(8) and saquery(8) of infiniband-diags.
SMPQUERY = """#!/bin/sh
case "$*" in
*"-D nodedesc 0,1") echo "Node Description:..............MF0;leaf01:MQM9700/U1";;
*"-D portinfo 0,1 0") %s;;
*) exit 2;;
esac
"""
INFO = 'printf "Mkey:............................%s\\nProtectBits:.....................%s\\n"'
SAQUERY = """#!/bin/sh
printf "NodeRecord dump:\\n\\t\\tnode_type...............Switch\\n"
printf "NodeRecord dump:\\n\\t\\tnode_type...............Channel Adapter\\n"
"""


def node(root: Path, *, mode: int = 0o600, layer: str = "InfiniBand") -> str:
    """Make a node with one port and its management device; give its root."""
    files = {
        "sys/class/infiniband_mad/umad0/ibdev": "mlx5_0",
        "sys/class/infiniband_mad/umad0/port": "1",
        "sys/class/infiniband/mlx5_0/ports/1/link_layer": layer,
        "sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE",
        "dev/infiniband/umad0": "",
    }
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{content}\n")
    (root / "dev/infiniband/umad0").chmod(mode)
    return str(root)


def tools(folder: Path, info: str = "exit 1") -> str:
    """Make the two tools; ``info`` is what smpquery does for port information. Give a PATH with them."""
    folder.mkdir()
    for name, script in (("smpquery", SMPQUERY % info), ("saquery", SAQUERY)):
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


def asked(root: str, path: str, *before: str) -> dict[str, Any]:
    """Run the program that is sent to nodes, below another root, started by ``before``."""
    *start, _, seconds = TOOL.argv(ARGS)
    argv = [*before, sys.executable, *start[1:], root, seconds]
    ran = subprocess.run(argv, capture_output=True, check=True, env={"PATH": path}, timeout=30)
    return dict(json.loads(ran.stdout))


def judged(answer: object) -> tuple[Any, Any]:
    """Read an answer."""
    found = TOOL.read("n1", ARGS, Item("fabric_seat", 1, out=json.dumps(answer).encode()), "ref")
    return found.m_key, found.shows_fabric


@pytest.mark.parametrize(
    ("info", "key"),
    [
        ("exit 1", "protected"),
        (INFO % ("0x0000000000000000", 1), "protected"),
        (INFO % ("0x0000000000000000", 0), "open to anybody"),
        (INFO % ("0x1234567890abcdef", 0), "shown to anybody"),
    ],
)
def test_the_state_of_the_key_is_told_and_the_key_is_not(tmp_path: Path, info: str, key: str) -> None:
    """Four states of a switch; counts of the fabric; neither a name nor a key comes back."""
    answer = asked(node(tmp_path / "root"), tools(tmp_path / "tools", info))
    m_key, shows = judged(answer)
    assert (m_key.value, shows.value) == (key, True)
    assert "1 switches and 1 adapters" in shows.note
    assert not {"leaf01", "1234567890abcdef"} & {*json.dumps(answer).split('"')}


def test_ethernet_has_no_such_management(tmp_path: Path) -> None:
    """A RoCE port has a management device too, and no subnet manager behind it."""
    answer = asked(node(tmp_path / "root", layer="Ethernet"), tools(tmp_path / "tools"))
    assert answer == {"none": True}


def test_a_closed_device_is_not_asked(tmp_path: Path) -> None:
    """Who may not open it sends no packet, and no tool is started."""
    root = node(tmp_path / "root", mode=0)
    mortal = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
    told = asked(root, tools(tmp_path / "tools", f"touch {tmp_path}/started"), *mortal)
    assert told == {"closed": "umad0"}
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("answer", [{"closed": "umad0"}, {"without": "smpquery"}, {"none": True}])
def test_what_cannot_be_asked_is_unseen(answer: dict[str, Any]) -> None:
    """Nothing is guessed of keys that this seat does not see."""
    assert [fact.kind for fact in judged(answer)] == ["denied", "denied"]


@pytest.mark.parametrize("odd", [{"key_is_zero": "no"}, {"protect_bits": True}, {"protect_bits": "1"}])
def test_a_state_that_is_none_is_garbled(odd: dict[str, Any]) -> None:
    """Text is no number, and no state of a key is made of it."""
    assert judged({**KEPT, "key_is_zero": False, "protect_bits": 0, **odd})[0].kind == "garbled"


def test_a_switch_that_answers_nothing_proves_nothing() -> None:
    """Silence protects nothing: the query may never have arrived."""
    assert judged({**KEPT, "reached": False})[0].kind == "failed"


@given(
    st.dictionaries(st.sampled_from([*KEPT, "closed"]), st.none() | st.text(max_size=3) | st.integers(-2, 9))
)
def test_no_odd_answer_is_taken_for_protection(answer: dict[str, Any]) -> None:
    """Whatever comes back, only a switch that was reached, or protect bits of a number, protect."""
    m_key, shows = judged(answer)
    assert isinstance(shows, Unread | Read)
    assert not isinstance(m_key, Read)
