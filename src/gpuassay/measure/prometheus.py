"""What Prometheus says: its targets, its rules, its alertmanagers, and what it holds of the GPUs."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from gpuassay.facts import gpu_metrics
from gpuassay.facts.prometheus import GRAFANA_RULES, Prometheus
from gpuassay.measure.http import Question, ask, door

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuassay.evidence.item import Item
    from gpuassay.evidence.recording import NodeEvidence
    from gpuassay.judge.fact import Scalar
    from gpuassay.judge.services import Services


def _work(matchers: str) -> str:
    """Select what GPUs did within a week, where labels match."""
    return f"{{__name__=~{json.dumps(gpu_metrics.ACTIVITY)}, {matchers}}}[7d]"


# Whose GPU a series is, by whatever label an exporter names it.
_GPU = ", ".join(gpu_metrics.IDENTITIES)
# Beside the workload's pod stands that of the exporter; the scraped label is renamed where they collide.
_PODS = ('exported_pod!=""', 'pod!="", pod!~".*(exporter|dcgm).*"')
_JOBS = tuple(f'{label}!=""' for label in gpu_metrics.JOB_LABELS)
QUERIES: Mapping[str, str] = {
    "gpus": " or ".join(f"max by ({_GPU}) (timestamp({name}))" for name in gpu_metrics.TEMPERATURES),
    "fields": f"count by (__name__) ({{__name__=~{json.dumps(gpu_metrics.ANY)}}})",
    "hosts": "count by (nodename) (node_uname_info)",
    "kubernetes": "count by (node) (kube_node_info)",
    "worked": "count(max_over_time(" + _work('job!=""') + ") > 0)",
    "pods": " or ".join(f"count(last_over_time({_work(pod)}))" for pod in _PODS),
    "jobs": " or ".join(f"count(last_over_time({_work(job)}))" for job in _JOBS),
}
_PAGES = {
    "buildinfo": "/api/v1/status/buildinfo",
    "runtimeinfo": "/api/v1/status/runtimeinfo",
    "rules": "/api/v1/rules",
    "alertmanagers": "/api/v1/alertmanagers",
}


class PrometheusSurvey:
    """The HTTP API of Prometheus, version 1; all of it only reads."""

    method = 1

    def ask(
        self, services: Services, _nodes: Sequence[str], args: Mapping[str, Scalar], deadline_s: float
    ) -> Iterator[Item]:
        """Ask for each page and each query, and once without the token."""
        until = time.monotonic() + deadline_s
        where = door(services, "prometheus")
        if where is None:
            return
        base, token = where
        questions = [
            Question("anonymous", base + _PAGES["buildinfo"]),
            *(Question(name, base + page, token) for name, page in _PAGES.items()),
            Question("targets", f"{base}/api/v1/targets?state=active", token, keep=_targets),
            *(
                Question(f"query/{name}", f"{base}/api/v1/query?{urlencode({'query': query})}", token)
                for name, query in QUERIES.items()
            ),
        ]
        grafana = door(services, "grafana")
        if grafana:  # it may keep alerts of its own, and answers in the same form
            address, key = grafana
            questions.append(Question(GRAFANA_RULES, f"{address}/api/prometheus/grafana/api/v1/rules", key))
        yield from ask(questions, float(args["seconds"]), until)

    def read(self, _args: Mapping[str, Scalar], evidence: NodeEvidence) -> list[Prometheus]:
        """Read the answers into one subject."""
        return [Prometheus(evidence)]


def _targets(out: bytes) -> bytes:
    """Leave out what was discovered beside the labels, and what follows a "?": both may hold secrets."""
    try:
        document = json.loads(out)
        targets = document["data"]["activeTargets"]
        document["data"] = {"activeTargets": [_target(target) for target in targets]}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return b""
    return json.dumps(document, separators=(",", ":")).encode()


def _target(target: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("labels", "scrapePool", "scrapeUrl", "lastError", "lastScrape", "lastScrapeDuration", "health")
    found = {key: target[key] for key in kept if key in target}
    for key in ("scrapeUrl", "lastError"):
        found[key] = re.sub(r"\?[^\s\"]*|//[^/@\s\"]*@", "", str(found.get(key, "")))
    return found
