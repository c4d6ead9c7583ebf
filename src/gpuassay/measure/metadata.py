"""The metadata service of a cloud: one request without a token, from the node, of which the status is kept.

The path is EC2's, which many clouds serve beside their own. A service that wants a token or a header refuses
it; what one that answers has to say may be a secret, and is not read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuassay.facts.record import Record
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure.diagnosis import no_report

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.evidence.item import Item
    from gpuassay.judge.fact import Fact, Scalar

# No proxy that an environment names is used, and no redirection is followed.
_ASK = """\
import http.client, json, sys
link = http.client.HTTPConnection("169.254.169.254", timeout=float(sys.argv[1]))
try:
    link.request("GET", "/latest/meta-data/")
    answer = {"status": link.getresponse().status}
except OSError as error:
    answer = {"silence": error.strerror or str(error)}
except http.client.HTTPException as error:
    answer = {"garbled": repr(error)[:200]}
print(json.dumps(answer))
"""
_REFUSED = range(400, 500)
_BROKEN = range(500, 600)
_MOST = 599


@dataclass(frozen=True, slots=True)
class Asked:
    """What the metadata service did on one node."""

    node: str
    answers: Fact[bool]
    models: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """Its place: the node."""
        return self.node


class Metadata:
    """``GET /latest/meta-data/`` at the link-local address, by the node's own Python."""

    method = 1

    def argv(self, args: Mapping[str, Scalar]) -> tuple[str, ...]:
        """Give the command; ``timeout_s`` is how long it waits for a connection, and for an answer."""
        return ("python3", "-I", "-S", "-B", "-c", _ASK, str(args["timeout_s"]))

    def read(self, node: str, args: Mapping[str, Scalar], item: Item | Unread, ref: str) -> Asked:  # noqa: ARG002 - as all tools
        """Read whether it answered."""
        return Asked(node, item if isinstance(item, Unread) else _answers(item, ref))


def _answers(item: Item, ref: str) -> Fact[bool]:
    told = Record(_document(item.out), ref, "not_found")
    silence = told.text("silence")
    if isinstance(silence, Read):
        return Read(value=False, evidence=ref, note=f"nothing answers at 169.254.169.254: {silence.value}")
    garbled = told.text("garbled")
    if isinstance(garbled, Read):
        return Unread("garbled", f"no HTTP at 169.254.169.254: {garbled.value}", ref)
    status = told.count("status", most=_MOST)
    if isinstance(status, Unread):
        return no_report(item, ref, "python3")
    if status.value in _BROKEN:
        return Unread("failed", f"the metadata service itself failed: HTTP {status.value}", ref)
    note = f"HTTP {status.value} to a GET without a token"
    return Read(status.value not in _REFUSED, ref, note)


def _document(out: bytes) -> Any:
    try:
        document = json.loads(out)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
