"""What lies open on a node: modes, owners and ports, and what must not be taken for an open door."""

from __future__ import annotations

import copy
import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts_evidence import absent, mark, node, unread, value
from gpuassay.facts.exposure import Exposure
from gpuassay.judge.fact import Read, Unread
from gpuassay.probe import exposure as probe
from recorded.exposure import access

if TYPE_CHECKING:
    from pathlib import Path

ASKED: dict[str, Any] = {
    "uid": 0,
    "pid_ns": "pid:[4026531836]",
    "ipmi": {"/dev/ipmi0": access(0o600)},
    "rshim": {},
    "secrets": {"/etc/munge/munge.key": access(0o400, way=0o700)},
    "sockets": {"/run/docker.sock": access(0o660)},
    "tcp": ["0100007F:15B3"],
    "tcp6": [],
}
FACTS = [name for name in dir(Exposure) if not name.startswith("_")]


def asked(**changes: Any) -> Exposure:
    """Make a node of which this was told."""
    return node({"exposure": copy.deepcopy(ASKED) | changes, "net": {"lo": {}}, "pci": {}}).exposure


def test_a_node_in_good_order_has_nothing_open() -> None:
    """Root sees its IPMI device and may open all: nobody else may."""
    exposure = asked()
    assert value(exposure.ipmi_open_to_users) == 0
    assert value(exposure.ipmi_open_to_root) == 1
    assert value(exposure.readable_secrets) == 0
    assert value(exposure.writable_sockets) == 0
    assert value(exposure.unauthenticated_ports) == 0
    assert value(exposure.open_hostengines) == 0
    assert value(exposure.rshim_networks) == 0


@pytest.mark.parametrize(
    ("mode", "way", "exposed"),
    [(0o644, 0o755, 1), (0o602, 0o711, 1), (0o644, 0o700, 0), (0o640, 0o755, 0), (0o644, 0o754, 0)],
)
def test_a_key_is_open_by_its_own_mode_and_the_way_to_it(mode: int, way: int, exposed: int) -> None:
    """A folder that lets nobody through closes what is below it; a group is somebody's business."""
    key = {"/etc/munge/munge.key": access(mode, way=way)}
    assert value(asked(secrets=key).readable_secrets) == exposed


def test_a_refusal_closes_for_a_user_and_puzzles_root() -> None:
    """Whoever may not even look cannot read; that root may not is unknown territory."""
    key = {"/root/.kube/config": mark("denied", "/root/.kube/config: Permission denied")}
    assert value(asked(uid=1000, secrets=key).readable_secrets) == 0
    assert unread(asked(uid=0, secrets=key).readable_secrets).kind == "denied"


def test_no_key_at_all_is_no_evidence() -> None:
    """A node without even sshd's keys is a container's file system."""
    assert unread(asked(secrets={}).readable_secrets).kind == "denied"


def test_a_user_who_may_open_the_device_counts() -> None:
    """By a group or an access list: what the mode does not show, access(2) does."""
    mine = {"/dev/ipmi0": access(0o660)}
    assert value(asked(uid=1000, ipmi=mine).ipmi_open_to_users) == 1
    assert value(asked(uid=0, ipmi=mine).ipmi_open_to_users) == 0


@pytest.mark.parametrize(
    ("tcp", "tcp6", "ports", "engines"),
    [
        (["00000000:0947"], [], 1, 0),
        (["0100007F:280F", "00000000:280A"], [], 1, 0),
        (["00000000:280F"], [], 0, 0),
        (["00000000:15B3"], [], 0, 1),
        ([], ["00000000000000000000000001000000:15B3"], 0, 0),
        ([], ["0000000000000000FFFF00000100007F:15B3"], 0, 0),
        ([], ["00000000000000000000000000000000:15B3"], 0, 1),
        (["0100007F:15B3"], mark("not_found", "/proc/net/tcp6: No such file or directory"), 0, 0),
    ],
)
def test_ports(tcp: list[str], tcp6: Any, ports: int, engines: int) -> None:
    """The kernel writes addresses in hexadecimal, each word little-endian."""
    exposure = asked(tcp=tcp, tcp6=tcp6)
    assert value(exposure.unauthenticated_ports) == ports
    assert value(exposure.open_hostengines) == engines


def test_a_container_does_not_show_its_node() -> None:
    """Neither by its PID namespace nor by its runtime's name is a container taken for a node."""
    inside = asked(pid_ns="pid:[4026534210]")
    named = node({"exposure": ASKED, "virt": absent("ok", out=b"docker\n")}).exposure
    for exposure in (inside, named):
        for name in ("ipmi_open_to_users", "readable_secrets", "writable_sockets", "unauthenticated_ports"):
            assert unread(getattr(exposure, name)).kind == "denied"


def test_an_older_recording_was_not_asked() -> None:
    """What was never asked is neither open nor closed."""
    old = node({"pci": {}}).exposure
    assert unread(old.ipmi_open_to_users).kind == "not_asked"
    assert unread(old.readable_secrets).kind == "not_asked"
    assert unread(old.open_hostengines).kind == "not_asked"


@pytest.mark.parametrize(
    ("device", "dpu", "functions"), [("a2dc", True, 0), ("c2d5", True, 1), ("1021", False, 0)]
)
def test_a_bluefield_is_told_by_its_id(device: str, dpu: bool, functions: int) -> None:  # noqa: FBT001
    """A ConnectX is none; the rshim's function is a way in."""
    pci = {"0000:06:00.0": {"vendor": "0x15b3", "device": f"0x{device}"}}
    told = node({"pci": pci})
    assert value(told.shows("dpu")) is dpu
    assert value(told.exposure.rshim_functions) == functions


def test_a_dpu_is_not_its_own_host() -> None:
    """On the DPU's side the same network is its way out, not a way in."""
    pci = {"0000:03:00.0": {"vendor": "0x15b3", "device": "0xa2dc"}}
    assert value(node({"pci": pci, "dmi": {"product_name": "BlueField-3 DPU"}}).shows("dpu")) is False


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
)


@given(st.sampled_from([*ASKED]), VALUES | st.dictionaries(st.just("/dev/x"), VALUES, min_size=1))
def test_nothing_odd_raises_or_closes_a_door(key: str, odd: Any) -> None:
    """Whatever stands in place of an answer is a count of what is open, or a reason."""
    exposure = asked(**{key: odd})
    for name in FACTS:
        fact = getattr(exposure, name)
        assert isinstance(fact, (Read, Unread))
        if isinstance(fact, Unread):
            assert fact.why


@given(st.binary(max_size=200))
def test_any_bytes(out: bytes) -> None:
    """No byte sequence makes a reader raise."""
    told = node({"exposure": out, "net": out, "pci": out}).exposure
    for name in FACTS:
        getattr(told, name)


# --- what is asked ---------------------------------------------------------------------------------------


def test_access_tells_mode_owner_and_way(tmp_path: Path) -> None:
    """By stat alone, links followed: a key that this test cannot read is told all the same."""
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o700)
    key = folder / "key"
    key.write_text("secret")
    key.chmod(0o044)
    (tmp_path / "link").symlink_to(key)
    told = probe.access(str(tmp_path / "link"))
    assert (told["mode"], told["uid"], told["way"] & 0o077) == (0o044, os.getuid(), 0)
    assert "secret" not in str(told)


TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:15B3 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 2 1 0 100 0 0 10 0
   2: 0A00000A:280F 0B00000A:C350 01 00000000:00000000 00:00000000 00000000     0        0 3 1 0 100 0 0 10 0
garbage
"""


def test_only_known_ports_that_are_listened_on_are_told(tmp_path: Path) -> None:
    """Other ports, and who is connected to whom, stay on the node."""
    path = tmp_path / "tcp"
    path.write_text(TCP)
    assert probe.listening(str(path)) == ["0100007F:15B3"]
    assert probe.listening(str(tmp_path / "none"))["unread"] == "not_found"


def test_this_machine_answers() -> None:
    """The question can be asked here, and its answer is read."""
    told = node({"exposure": probe.exposure(), "net": {"lo": {}}, "pci": {}}).exposure
    for name in FACTS:
        assert isinstance(getattr(told, name), (Read, Unread))
