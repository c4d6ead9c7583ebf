"""What the monitoring shows of this cluster to somebody else: to the account of another tenant.

Both accounts ask for the same series. The first one is the control: if not even its answers name a node of
this cluster, then that the second one's name none proves nothing. Of all answers only those names are kept.
"""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from gpuassay.evidence.item import Item
from gpuassay.facts import gpu_metrics
from gpuassay.facts.source import document
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure.http import Question, ask, door

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gpuassay.evidence.recording import NodeEvidence
    from gpuassay.facts.record import Record
    from gpuassay.judge.fact import Fact, Scalar
    from gpuassay.judge.services import Services

ACCOUNT = "account"
_FIRST, _SECOND = "first", "second"
_NAMES = ("up", "node_uname_info", "kube_node_info", *gpu_metrics.TEMPERATURES)
_QUERY = f"{{__name__=~{json.dumps('|'.join(_NAMES))}}}"
_MOST_SOURCES = 3
_REFUSED = (401, 403)
_NO_SOURCE = Unread("denied", "the first account sees no Prometheus among Grafana's data sources")


@dataclass(frozen=True)
class Sight:
    """What another tenant sees of this cluster through one service."""

    where: str
    nodes_seen: Fact[int]
    node: str = ""
    models: tuple[str, ...] = ()


class SecondAccount:
    """One query to Prometheus, and one to each data source of Grafana, by both accounts; all only read."""

    method = 1

    def ask(
        self, services: Services, nodes: Sequence[str], args: Mapping[str, Scalar], deadline_s: float
    ) -> Iterator[Item]:
        """Ask by both, or say which account is missing."""
        named = services.second_token
        token = os.environ.get(named, "")
        if not token:
            why = "no account of another tenant is at hand: name its token as [second_account] token"
            lost = f"the environment variable {named} is not set ([second_account] token)"
            yield Item(ACCOUNT, 0, "not_found" if named else "denied", why=lost if named else why)
            return
        if token in {(door(services, one) or ("", ""))[1] for one in ("prometheus", "grafana")}:
            why = f"{named} holds the token of the first account: another tenant's is wanted"
            yield Item(ACCOUNT, 0, "failed", why=why)
            return
        seconds, until = float(args["seconds"]), time.monotonic() + deadline_s
        keep = _names_among(nodes)
        yield from ask([*_of_prometheus(services, token, keep)], seconds, until)
        where = door(services, "grafana")
        if where is not None:
            search = Question("grafana", f"{where[0]}/api/datasources", where[1], keep=_prometheis)
            (listed,) = ask([search], seconds, until)
            yield listed
            yield from ask([*_of_grafana(where, token, _sources(listed), keep)], seconds, until)

    def read(self, _args: Mapping[str, Scalar], evidence: NodeEvidence) -> list[Sight]:
        """Read what was seen, service by service."""
        account = evidence.item(ACCOUNT)
        if account is not None:
            ref = evidence.ref(account)
            lack = Unread("denied" if account.status == "denied" else "failed", account.why, ref)
            return [Sight("another tenant's account", lack)]
        found = {item.id: item for item in evidence.items}
        sights = [Sight("prometheus", _seen(evidence, "prometheus"))] if "prometheus/second" in found else []
        if "grafana" in found:
            sources = sorted({name.rpartition("/")[0] for name in found if name.startswith("grafana/")})
            sights += [Sight(name, _seen(evidence, name)) for name in sources]
            sights += [] if sources else [Sight("grafana", _no_source(evidence))]
        return sights


def _of_prometheus(services: Services, token: str, keep: Callable[[bytes], bytes]) -> Iterator[Question]:
    where = door(services, "prometheus")
    if where is not None:
        url = f"{where[0]}/api/v1/query?{urlencode({'query': _QUERY})}"
        for who, key in ((_FIRST, where[1]), (_SECOND, token)):
            yield Question(f"prometheus/{who}", url, key, keep=keep)


def _of_grafana(
    where: tuple[str, str], token: str, sources: Sequence[str], keep: Callable[[bytes], bytes]
) -> Iterator[Question]:
    for uid in sources[:_MOST_SOURCES]:
        asked = {
            "refId": "A",
            "datasource": {"type": "prometheus", "uid": uid},
            "expr": _QUERY,
            "instant": True,
        }
        body = {"queries": [asked], "from": "now-1h", "to": "now"}
        for who, key in ((_FIRST, where[1]), (_SECOND, token)):
            yield Question(f"grafana/{uid}/{who}", f"{where[0]}/api/ds/query", key, body=body, keep=keep)


def _names_among(nodes: Sequence[str]) -> Callable[[bytes], bytes]:
    """Give what keeps of an answer the names of these nodes, where one is a label's value or its host."""

    def keep(out: bytes) -> bytes:
        text = out.decode(errors="replace")
        values = set(re.findall(r'"([\w.-]+)(?::[0-9]+)?"', text))
        hosts = values | {value.partition(".")[0] for value in values}
        try:
            json.loads(out)
        except (ValueError, RecursionError):
            return b"no JSON"
        return json.dumps({"ours": [node for node in nodes if node in hosts]}).encode()

    return keep


def _prometheis(out: bytes) -> bytes:
    """Keep the names of the data sources that are a Prometheus, and nothing of how they are reached."""
    try:
        listed: Any = json.loads(out)
        uids = [str(one["uid"]) for one in listed if one.get("type") == "prometheus"]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return b"no list"
    return json.dumps({"sources": uids}).encode()


def _sources(listed: Item) -> list[str]:
    try:
        return list(json.loads(listed.out)["sources"])
    except (ValueError, LookupError, TypeError):
        return []


def _no_source(evidence: NodeEvidence) -> Unread:
    listed = document(evidence, "grafana").look("sources")
    return listed if isinstance(listed, Unread) else _NO_SOURCE


def _seen(evidence: NodeEvidence, service: str) -> Fact[int]:
    """Count the nodes of this cluster that the second account's answer names."""
    control = _ours(document(evidence, f"{service}/{_FIRST}"))
    if isinstance(control, Unread):
        return Unread(control.kind, f"asked by the first account: {control.why}", control.evidence)
    if not control.value:
        why = "no answer names a node of this cluster, not even to the first account: nothing can be compared"
        return Unread("failed", why, control.evidence)
    item = evidence.item(f"{service}/{_SECOND}")
    if item is not None and item.exit in _REFUSED and item.status != "ok":
        return Read(0, evidence.ref(item), f"the second account is refused: {item.why}")
    theirs = _ours(document(evidence, f"{service}/{_SECOND}"))
    if isinstance(theirs, Unread):
        return theirs
    return Read(len(theirs.value), theirs.evidence, ", ".join(theirs.value[:5]))


def _ours(answer: Record) -> Fact[list[str]]:
    ours = answer.look("ours")
    if isinstance(ours, Unread):
        return ours
    if not isinstance(ours.value, list) or not all(isinstance(one, str) for one in ours.value):
        return answer.garbled("ours", ours.value, "a list of names")
    return ours
