"""What Grafana says: its dashboards over GPUs, and what the queries of their panels give."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from gpuassay.facts.dashboards import panels
from gpuassay.facts.grafana import Grafana, panel_id
from gpuassay.measure.http import Question, ask, door

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuassay.evidence.item import Item
    from gpuassay.evidence.recording import NodeEvidence
    from gpuassay.judge.fact import Scalar
    from gpuassay.judge.services import Services

_MOST_DASHBOARDS = 300
_MOST_PANELS = 20  # of each dashboard: enough to tell a dead one from one that works


class GrafanaSurvey:
    """Grafana's HTTP API. Panels are asked through it, as a browser does: that only reads."""

    method = 1

    def ask(
        self, services: Services, _nodes: Sequence[str], args: Mapping[str, Scalar], deadline_s: float
    ) -> Iterator[Item]:
        """Ask what there is; then for each dashboard; then what the panels over GPUs ask."""
        until = time.monotonic() + deadline_s
        where = door(services, "grafana")
        if where is None:
            return
        asker = _Asker(*where, float(args["seconds"]), until)
        first = asker.first()
        yield from first
        found = {item.id: _parsed(item.out) for item in first if item.status == "ok"}
        sources = _list(found.get("datasources"))
        for item in asker.dashboards(_list(found.get("search"))):
            asked = panels(_parsed(item.out), sources)
            if asked or item.status != "ok":  # the others are of no interest, and many
                yield item
            uid = item.id.partition("/")[2]
            yield from asker.panels(uid, [(panel.query, panel.source) for panel in asked])

    def read(self, _args: Mapping[str, Scalar], evidence: NodeEvidence) -> list[Grafana]:
        """Read the answers into one subject."""
        return [Grafana(evidence)]


@dataclass(frozen=True, slots=True)
class _Asker:
    base: str
    token: str
    each_s: float
    until: float

    def first(self) -> list[Item]:
        search = f"{self.base}/api/search?type=dash-db&limit="
        return self._all(
            [
                Question("anonymous", f"{search}1"),
                Question("health", f"{self.base}/api/health", self.token),
                Question("search", f"{search}{_MOST_DASHBOARDS}", self.token),
                Question("datasources", f"{self.base}/api/datasources", self.token, keep=_sources),
            ]
        )

    def dashboards(self, listed: Sequence[Any]) -> list[Item]:
        uids = [one["uid"] for one in listed if isinstance(one, dict) and isinstance(one.get("uid"), str)]
        return self._all(
            [
                Question(
                    f"dashboard/{uid}", f"{self.base}/api/dashboards/uid/{quote(uid, safe='')}", self.token
                )
                for uid in uids
            ]
        )

    def panels(self, uid: str, queries: Sequence[tuple[str, str]]) -> list[Item]:
        return self._all(
            [
                Question(
                    panel_id(uid, index), f"{self.base}/api/ds/query", self.token, body=_body(query, source)
                )
                for index, (query, source) in enumerate(queries[:_MOST_PANELS])
                if source
            ]
        )

    def _all(self, questions: Sequence[Question]) -> list[Item]:
        return ask(questions, self.each_s, self.until)


def _body(query: str, source: str) -> dict[str, Any]:
    """Ask for the last hour, as a panel does: a point of now alone would miss what is sampled rarely."""
    asked = {
        "refId": "A",
        "datasource": {"type": "prometheus", "uid": source},
        "expr": query,
        "range": True,
        "instant": False,
        "intervalMs": 60_000,
        "maxDataPoints": 60,
    }
    return {"queries": [asked], "from": "now-1h", "to": "now"}


def _sources(out: bytes) -> bytes:
    """Keep what a data source is, and nothing of how it is reached."""
    kept = ("uid", "name", "type", "isDefault")
    found = [
        {key: one[key] for key in kept if key in one} for one in _list(_parsed(out)) if isinstance(one, dict)
    ]
    return json.dumps(found).encode() if isinstance(_parsed(out), list) else b""


def _parsed(out: bytes) -> Any:
    try:
        return json.loads(out)
    except (ValueError, RecursionError):
        return None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
