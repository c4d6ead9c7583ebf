"""Overlays: each change does what its name says where it is asked to, and none goes stale unnoticed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuassay.evidence.item import Item
from recorded.items import encode
from recorded.overlay import OverlayError, parse

DOCUMENT = {"gpus": [{"ecc": True, "width": 16}, {"ecc": True, "width": 16}], "0000:1a:00.0": {"width": "16"}}
NODE = (
    Item("nvml", 1, out=encode(DOCUMENT)),
    Item("limits", 2, out=b"locked unlimited\n"),
    Item("nvidia-module", 3, out=b"580.1 and 580.1\n"),
)


def after(**table: Any) -> dict[str, Item]:
    """Return the items of a node after one overlay, by id."""
    return {item.id: item for item in parse(table).on_node("gpu001", NODE)}


def document(**table: Any) -> Any:
    """Return the JSON document of a node after one overlay."""
    return json.loads(after(item="nvml", **table)["nvml"].out)


def test_set_reaches_into_lists_and_through_keys_with_dots() -> None:
    """A dotted path finds list elements by index and PCI addresses although they hold dots."""
    assert document(set="gpus.1.width", to=8)["gpus"][1] == {"ecc": True, "width": 8}
    assert document(set="0000:1a:00.0.width", to="8")["0000:1a:00.0"] == {"width": "8"}


def test_set_matches_wildcards() -> None:
    """One overlay can change the same value of every GPU."""
    assert [gpu["ecc"] for gpu in document(set="gpus.*.ecc", to=False)["gpus"]] == [False, False]


def test_drop_takes_away_what_lies_at_each_path() -> None:
    """Elements of a list are dropped without one shifting the next out of reach."""
    assert document(drop=["gpus.0", "gpus.1", "0000:*"]) == {"gpus": []}


def test_text_changes_touch_every_item_that_holds_the_text() -> None:
    """Without an item, a text is replaced wherever it stands, and only there."""
    items = after(find="580.1", replace="570.2")
    assert items["nvidia-module"].out == b"570.2 and 570.2\n"
    assert items["limits"] == NODE[1]


def test_append_cut_and_garble() -> None:
    """Output can grow, end half-way, or be noise that is neither text nor JSON."""
    assert after(item="limits", append="\nmore\n")["limits"].out == b"locked unlimited\nmore"
    assert after(item="limits", cut=True)["limits"].out == b"locked u"
    with pytest.raises(UnicodeDecodeError):
        after(item="limits", garble=True)["limits"].out.decode()


def test_a_status_takes_the_output_away_unless_one_is_given() -> None:
    """What was denied brought nothing; a tool that failed may still have printed."""
    denied = after(item="nv*", status="denied", why="no")
    assert (denied["nvml"].status, denied["nvml"].why, denied["nvml"].out) == ("denied", "no", b"")
    assert after(item="nvml", status="failed", out="partly")["nvml"].out == b"partly"
    assert after(item="nvml", exit=1)["nvml"].out == NODE[0].out


def test_an_item_may_be_added_and_removed() -> None:
    """A new item comes last; the others keep the numbers by which reports refer to them."""
    added = after(
        item="nvidia-smi-xml", asked={"command": ["nvidia-smi", "-q", "-x"]}, exit=18, out="mismatch"
    )
    assert (added["nvidia-smi-xml"].seq, added["nvidia-smi-xml"].exit) == (4, 18)
    assert [item.seq for item in after(item="limits", remove=True).values()] == [1, 3]
    assert after(remove=True) == {}


@given(st.text(min_size=1), st.sampled_from(["gpu002", "gpu[003-009]"]))
def test_other_nodes_stay_as_they_are(text: str, nodes: str) -> None:
    """An overlay that names nodes changes no other node, whatever it does."""
    assert parse({"node": nodes, "item": "limits", "append": text}).on_node("gpu001", NODE) == list(NODE)


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"item": "nvml", "set": "gpus.9.ecc", "to": False}, "nothing at gpus.9.ecc"),
        ({"item": "nvml", "set": "gpus.1.ecc", "to": True}, "changes nothing on gpu001"),
        ({"item": "nvml", "drop": "gpus.*.typo"}, "nothing at"),
        ({"item": "limits", "set": "gpus", "to": 1}, "limits holds no JSON document"),
        ({"item": "limits", "find": "absent", "replace": ""}, "changes nothing"),
        ({"item": "typo", "find": "locked", "replace": ""}, "no item typo"),
    ],
)
def test_a_change_without_effect_is_an_error(table: dict[str, Any], says: str) -> None:
    """A path or text that is not there means that the description is stale, and says which."""
    with pytest.raises(OverlayError, match=says):
        parse(table).on_node("gpu001", NODE)


@pytest.mark.parametrize(
    "table",
    [
        {"item": "nvml"},
        {"item": "nvml", "set": "gpus"},
        {"item": "nvml", "set": "gpus", "to": 1, "find": "x"},
        {"item": "nvml", "tset": "gpus", "to": 1},
        {"file": "site.toml", "node": "gpu001", "remove": True},
    ],
)
def test_what_is_no_overlay_is_refused(table: dict[str, Any]) -> None:
    """A table with no change, half a change, two changes or a slip in a key is never ignored."""
    with pytest.raises(OverlayError):
        parse(table)


def test_files_of_the_recording_change_apart_from_its_nodes() -> None:
    """An overlay of a file leaves items alone, changes that file, and must have an effect there."""
    overlay = parse({"file": "site.toml", "find": "4", "replace": "3"})
    assert overlay.on_node("gpu001", NODE) == list(NODE)
    changed = overlay.on_file(Item("site.toml", 0, out=b"contracted = 4"))
    assert changed is not None
    assert changed.out == b"contracted = 3"
    with pytest.raises(OverlayError, match=r"changes nothing in site\.toml"):
        overlay.on_file(Item("site.toml", 0, out=b""))
