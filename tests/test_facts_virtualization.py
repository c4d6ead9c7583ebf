"""Virtual machines on a node: what a guest is offered, and what stays unsaid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from facts_evidence import mark, node, unread, value
from recorded.exposure import access
from recorded.items import command, library

if TYPE_CHECKING:
    from gpuassay.facts.virtualization import Virtualization

KVM = {"/dev/kvm": access(0o660)}
NO_FLAG = mark("not_found", "this architecture has no flag for it")


def told(virt: str, **contents: Any) -> Virtualization:
    """Make a node that systemd takes for this, and of which this was told."""
    items = {"virt": command("virt", ["systemd-detect-virt"], f"{virt}\n", status=int(virt == "none"))}
    if contents:
        items["virtualization"] = library("virtualization", "virtualization", contents)
    return node(items).settings.virtualization


@pytest.mark.parametrize(
    ("virt", "extensions", "offered"),
    [("none", True, False), ("kvm", True, True), ("kvm", False, False)],
)
def test_only_a_guest_is_offered_nesting(virt: str, *, extensions: bool, offered: bool) -> None:
    """The same flag is no offer on metal."""
    assert value(told(virt, extensions=extensions, device=KVM).offered_to_guest) is offered


def test_a_guest_without_a_flag() -> None:
    """On Arm the device is a yes, and that there is none is no no."""
    assert value(told("kvm", extensions=NO_FLAG, device=KVM).offered_to_guest) is True
    assert unread(told("kvm", extensions=NO_FLAG, device={}).offered_to_guest).kind == "denied"


@pytest.mark.parametrize(("mode", "way", "count"), [(0o660, 0o755, 0), (0o666, 0o755, 1), (0o666, 0o750, 0)])
def test_the_device_is_open_by_its_mode_and_the_way_to_it(mode: int, way: int, count: int) -> None:
    """Others than owner and group count."""
    device = {"/dev/kvm": access(mode, way=way)}
    assert value(told("none", extensions=True, device=device).open_to_users) == count


def test_what_was_not_asked_or_is_not_the_nodes() -> None:
    """An older probe did not ask; a container has devices of its own; a mode that is none is garbled."""
    assert unread(told("none").offered_to_guest).kind == "not_asked"
    assert unread(told("none").open_to_users).kind == "not_asked"
    assert unread(told("docker", extensions=True, device={}).open_to_users).kind == "denied"
    odd = {"/dev/kvm": {"mode": "rw", "way": 0o755}}
    assert unread(told("none", extensions=True, device=odd).open_to_users).kind == "garbled"
