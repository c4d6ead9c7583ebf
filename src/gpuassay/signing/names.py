"""Names that tell whose cluster it is, and the keyed hashes that stand for them in a redacted edition."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuassay.judge.names import expand
from gpuassay.report.places import pieces

if TYPE_CHECKING:
    from collections.abc import Mapping

_WORD = {
    "nodes": "node",
    "addresses": "address",
    "serials": "serial",
    "users": "user",
    "tickets": "ticket",
}
_OF_WORDS = ("cluster", "provider", "tickets")  # kinds whose names may be of several words

# Keys whose texts are words of ours, not of the cluster.
_OURS = frozenset(
    (
        *(
            "state",
            "won",
            "ceiling",
            "tier",
            "verdict",
            "check",
            "checks",
            "seal",
            "schema",
            "profile",
            "phase",
        ),
        *("category", "metric", "stamp", "digest", "sha256", "signed_by", "begin", "end", "until", "outcome"),
    )
)
# What a check says of itself; all else of it was seen on the cluster.
_OF_SUITE = frozenset(
    (
        *("verdict", "category", "tier", "phase", "title", "why", "fix", "source", "seat", "fault"),
        *("over", "limits", "shares", "counts"),
    )
)

_UUID = re.compile(r"\b(?:GPU-|MIG-)?[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE)
_HOST = re.compile(r"(?<=://)[^/\s:\"'\]]+")
_HARDWARE = re.compile(
    r"\b(?:(?:[0-9a-f]{2}:){5,19}[0-9a-f]{2}|0x[0-9a-f]{16}|(?:[0-9a-f]{4}:){3}[0-9a-f]{4})\b", re.IGNORECASE
)
_INTERNET = re.compile(r"(?<![\w.:])(?:[0-9a-f]*:[0-9a-f:.]+|\d+(?:\.\d+){3})(?![\w:])", re.IGNORECASE)
_SET = re.compile(r"[\w.-]*(?:\[[0-9,-]+\][\w.-]*)+")
_TOKEN = re.compile(r"[A-Za-z0-9][\w.-]*")


@dataclass(frozen=True, slots=True)
class Redactor:
    """Replaces names: ``known`` maps each, in small letters, to its kind; ``kinds`` are those to replace."""

    secret: bytes
    known: Mapping[str, str]
    kinds: frozenset[str]

    def hidden(self, kind: str, name: str) -> str:
        """Give what stands for a name: the same for the same name and secret, and nothing to guess it by."""
        digest = hmac.new(self.secret, f"{kind}:{name.lower()}".encode(), hashlib.sha256).hexdigest()
        return f"{_WORD.get(kind, kind)}-{digest[:12]}"

    def document(self, results: Mapping[str, Any]) -> dict[str, Any]:
        """Replace the names in a results document; what checks say of themselves stays as it is."""
        checks = {
            check: {
                key: value if key in _OF_SUITE else self._walk(value, key) for key, value in found.items()
            }
            for check, found in results["checks"].items()
        }
        rest = {key: value for key, value in results.items() if key not in ("checks", "suite", "recording")}
        recording = dict(results["recording"])
        for kind in ("cluster", "provider"):
            if recording[kind] and kind in self.kinds:
                recording[kind] = self.hidden(kind, recording[kind])
        again: dict[str, Any] = self._walk(rest, "")
        again |= {"suite": results["suite"], "recording": recording, "checks": checks}
        return {key: again[key] for key in results}

    def text(self, text: str) -> str:
        """Replace the names in a sentence."""
        for kind in _OF_WORDS:
            for name in (name for name, own in self.known.items() if own == kind and kind in self.kinds):
                put = self.hidden(kind, name)
                text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", put, text, flags=re.IGNORECASE)
        text = self._each(_UUID, "serials", text)
        text = self._each(_HOST, "addresses", text)
        text = self._each(_HARDWARE, "addresses", text)
        if "addresses" in self.kinds:
            text = _INTERNET.sub(lambda found: self._address(found[0]), text)
        return _TOKEN.sub(
            lambda found: self._token(found[0]), _SET.sub(lambda found: self._set(found[0]), text)
        )

    def where(self, place: str) -> str:
        """Replace the nodes of a folded place; a part may name one too: ``gpu001/to gpu002``."""
        return ",".join(self._place(piece) for piece in pieces(place))

    def _walk(self, node: Any, key: str) -> Any:
        if isinstance(node, dict):
            return {name: self._walk(value, name) for name, value in node.items()}
        if isinstance(node, list):
            return [self._walk(value, key) for value in node]
        if not isinstance(node, str) or key in _OURS:
            return node
        return self.where(node) if key == "where" else self.text(node)

    def _place(self, piece: str) -> str:
        head, slash, part = piece.partition("/")
        heads, inside = self.text(head).split(","), self.text(part).replace(",", "+")
        return ",".join(f"{one}{slash}{inside}" for one in heads)

    def _each(self, pattern: re.Pattern[str], kind: str, text: str) -> str:
        return pattern.sub(lambda found: self.hidden(kind, found[0]), text) if kind in self.kinds else text

    def _address(self, found: str) -> str:
        """Replace what is an address of a network; a time of day or a version is none."""
        plain = found.rstrip(".:")
        try:
            ipaddress.ip_address(plain)
        except ValueError:
            return found
        return self.hidden("addresses", plain) + found[len(plain) :]

    def _set(self, found: str) -> str:
        """Write out a node set, name by name, where one of them is known."""
        try:
            names = expand(found.strip(".-"))
        except ValueError:
            return found
        return ",".join(map(self._token, names)) if any(self._kind(name) for name in names) else found

    def _token(self, found: str) -> str:
        plain = found.rstrip(".-")
        kind = self._kind(plain)
        return self.hidden(kind, plain) + found[len(plain) :] if kind else found

    def _kind(self, name: str) -> str:
        """Tell what a word is; a node may be told of with its domain."""
        low = name.lower()
        kind = self.known.get(low) or self.known.get(low.partition(".")[0], "")
        return kind if kind in self.kinds else ""
