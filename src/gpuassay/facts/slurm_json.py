"""Slurm's JSON of every version in the shape of its text, so that one reader serves both."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gpuassay.judge.fact import Unread

if TYPE_CHECKING:
    from collections.abc import Mapping

_TEXTS = {
    "NodeName": ("name",),
    "NodeAddr": ("address",),
    "NodeHostName": ("hostname",),
    "Gres": ("gres",),
    "GresUsed": ("gres_used",),
    "Version": ("version", "slurmd_version"),
}


def node_records(document: Mapping[str, object]) -> list[Mapping[str, str]] | Unread:
    """Give the nodes of ``scontrol show nodes --json`` (and ``sinfo`` of 22.05) as text has them."""
    nodes = document.get("nodes")
    if not isinstance(nodes, list):
        return Unread("garbled", "Slurm's JSON has no list of nodes")
    return [_record(node) for node in nodes if isinstance(node, dict)]


def _record(node: Mapping[str, object]) -> Mapping[str, str]:
    record = {key: _first(node, names) for key, names in _TEXTS.items()}
    reason, by = _text(node.get("reason")), _text(node.get("reason_set_by_user"))
    if reason:
        line = " ".join(reason.split())  # a reason may have several lines here
        record["Reason"] = f"{line} [{by or 'unknown'}@{_time(node.get('reason_changed_at'))}]"
    record["State"] = "+".join([*_words(node.get("state")), *_words(node.get("state_flags"))])
    record["Partitions"] = ",".join(_words(node.get("partitions")))
    record["ActiveFeatures"] = ",".join(_words(node.get("active_features")))
    record["BootTime"] = _time(node.get("boot_time"))
    return {key: value for key, value in record.items() if value}


def _first(node: Mapping[str, object], names: tuple[str, ...]) -> str:
    return next((text for name in names if (text := _text(node.get(name)))), "")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _words(value: object) -> list[str]:
    """Read a list of words; up to 23.02 a single one may stand for itself."""
    listed = value if isinstance(value, list) else [value]
    return [word for word in listed if isinstance(word, str) and word]


def _time(value: object) -> str:
    """Read a time: a number, or since 23.02 ``{"set": true, "infinite": false, "number": …}``."""
    number = value.get("number") if isinstance(value, dict) and value.get("set") else value
    if type(number) is not int or number <= 0:
        return ""
    try:
        return datetime.fromtimestamp(number, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return ""
