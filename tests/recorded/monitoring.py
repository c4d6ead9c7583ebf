"""What the monitoring of a healthy cluster answers: Prometheus, Alertmanager, Grafana, and exporters.

Shapes are those of Prometheus 2.42, Alertmanager 0.25, Grafana's HTTP API and dcgm-exporter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from gpuassay.evidence.item import Item
from gpuassay.measure import SURVEYS
from gpuassay.measure.prometheus import QUERIES
from recorded.items import SECONDS, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpuassay.judge.fact import Scalar

PROMETHEUS = "https://prometheus.example.com"
ALERTMANAGER = "https://alertmanager.example.com"
GRAFANA = "https://grafana.example.com"
EXPORTER = ":9400/metrics"
NOW = 1_796_025_604.25  # 2026-11-30T08:00:04Z, as the description of the cluster has it
ARGS: dict[str, dict[str, Scalar]] = {
    "prometheus": {"seconds": 30},
    "alertmanager": {"seconds": 30},
    "grafana": {"seconds": 30},
    "exporters": {"seconds": 10},
}
FIELDS = {
    "DCGM_FI_DEV_SM_CLOCK": "1965",
    "DCGM_FI_DEV_GPU_TEMP": "38",
    "DCGM_FI_DEV_POWER_USAGE": "195.7",
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": "0",
    "DCGM_FI_DEV_GPU_UTIL": "0",
    "DCGM_FI_DEV_XID_ERRORS": "0",
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": "0",
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": "0",
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": "0",
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": "0",
    "DCGM_FI_PROF_SM_ACTIVE": "0.000000",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": "0.000000",
    "DCGM_FI_PROF_DRAM_ACTIVE": "0.000000",
}
RULES = (
    ("GpuXid", "DCGM_FI_DEV_XID_ERRORS > 0"),
    ("GpuMemory", "increase(gpu:ecc_dbe:sum[1h]) > 0 or DCGM_FI_DEV_ROW_REMAP_FAILURE > 0"),
    ("TargetDown", "up == 0"),
    ("LinkDown", 'node_network_up{device=~"rdma.*"} == 0'),
)
NO_RULES = encode({"status": "success", "data": {"groups": []}})
UID = "gpu-overview"
PANELS = {
    "Utilization": 'DCGM_FI_PROF_SM_ACTIVE{Hostname=~"$node"}',
    "Temperature": 'DCGM_FI_DEV_GPU_TEMP{Hostname=~"$node"}',
    "XIDs": "DCGM_FI_DEV_XID_ERRORS > 0",
}


def answers(nodes: Sequence[str], uuids: Callable[[str], Sequence[str]]) -> list[Item]:
    """Return what all of it answers; ``uuids`` gives the GPUs of a node."""
    gpus = [(node, index, uuid) for node in nodes for index, uuid in enumerate(uuids(node))]
    return [*prometheus(nodes, gpus), *alertmanager(), *grafana(), *exporters(nodes, uuids)]


def prometheus(nodes: Sequence[str], gpus: Sequence[tuple[str, int, str]]) -> list[Item]:
    """Return the answers of Prometheus."""

    def page(name: str, path: str, data: object, status: str = "ok") -> Item:
        out = encode({"status": "success", "data": data}) if status == "ok" else b""
        return _item("prometheus", name, {"get": PROMETHEUS + path}, out, status)

    targets = [
        _target(job, f"{node}:{port}") for node in nodes for job, port in (("dcgm", 9400), ("node", 9100))
    ]
    ready = {"storageRetention": "30d", "reloadConfigSuccess": True}
    sends = [{"url": f"{ALERTMANAGER}/api/v2/alerts"}]
    found = {
        "gpus": [_sample(_labels(gpu), NOW - 12 - gpu[1] / 8) for gpu in gpus],
        "fields": [_sample({"__name__": name}, len(gpus)) for name in FIELDS],
        "hosts": [_sample({"nodename": node}, 1) for node in nodes],
        "kubernetes": [],
        "worked": [_sample({}, len(gpus))],
        "pods": [],
        "jobs": [_sample({}, len(gpus))],
    }
    return [
        page("anonymous", "/api/v1/status/buildinfo", {}, "denied"),
        page("buildinfo", "/api/v1/status/buildinfo", {"version": "2.53.1"}),
        page("runtimeinfo", "/api/v1/status/runtimeinfo", ready),
        page("rules", "/api/v1/rules", {"groups": [{"name": "gpu", "rules": _rules()}]}),
        _item(
            "prometheus", "grafana-rules", {"get": f"{GRAFANA}/api/prometheus/grafana/api/v1/rules"}, NO_RULES
        ),
        page("alertmanagers", "/api/v1/alertmanagers", {"activeAlertmanagers": sends}),
        page("targets", "/api/v1/targets?state=active", {"activeTargets": targets}),
        *(
            page(
                f"query/{name}",
                f"/api/v1/query?{urlencode({'query': query})}",
                {"resultType": "vector", "result": found[name]},
            )
            for name, query in QUERIES.items()
        ),
    ]


def alertmanager() -> list[Item]:
    """Return the answers of Alertmanager."""
    asked = {"get": f"{ALERTMANAGER}/api/v2/status"}
    receivers = {"receivers": {"null": [], "on-call": ["pagerduty"]}}
    return [
        _item("alertmanager", "anonymous", asked, b"", "denied"),
        _item("alertmanager", "receivers", asked, encode(receivers)),
    ]


def grafana() -> list[Item]:
    """Return the answers of Grafana."""

    def page(name: str, path: str, content: object, status: str = "ok") -> Item:
        return _item(
            "grafana", name, {"get": GRAFANA + path}, encode(content) if status == "ok" else b"", status
        )

    search = "/api/search?type=dash-db&limit="
    sources = [
        {"uid": "prom", "name": "Prometheus", "type": "prometheus", "isDefault": True},
        {"uid": "logs", "name": "Loki", "type": "loki", "isDefault": False},
    ]
    return [
        page("anonymous", f"{search}1", [], "denied"),
        page("health", "/api/health", {"database": "ok", "version": "12.1.0"}),
        page("search", f"{search}300", [{"uid": UID, "title": "GPUs"}, {"uid": "hosts", "title": "Hosts"}]),
        page("datasources", "/api/datasources", sources),
        page(f"dashboard/{UID}", f"/api/dashboards/uid/{UID}", _dashboard()),
        *(_panel(index, query) for index, query in enumerate(PANELS.values())),
    ]


def exporters(nodes: Sequence[str], uuids: Callable[[str], Sequence[str]]) -> list[Item]:
    """Return a page of each node's exporter."""
    return [
        _item("exporters", f"{node}{EXPORTER}", {"get": f"http://{node}{EXPORTER}"}, _page(node, uuids(node)))
        for node in nodes
    ]


def _page(node: str, uuids: Sequence[str]) -> bytes:
    lines = []
    for name, value in FIELDS.items():
        lines.append(f"# TYPE {name} gauge")
        for index, uuid in enumerate(uuids):
            labels = ",".join(f'{key}="{text}"' for key, text in _labels((node, index, uuid)).items())
            lines.append(f"{name}{{{labels}}} {value}")
    return "\n".join([*lines, ""]).encode()


def _item(survey: str, name: str, asked: dict[str, Any], out: bytes, status: str = "ok") -> Item:
    whole = {"survey": survey, "method": SURVEYS[survey].method, "args": ARGS[survey], **asked}
    code, why = {"ok": (200, ""), "denied": (401, "HTTP 401: Unauthorized")}[status]
    return Item(
        f"survey/{survey}/{name}",
        0,
        status=status,  # type: ignore[arg-type]
        asked=whole,
        exit=code,
        seconds=SECONDS,
        out=out,
        why=why,
    )


def _labels(gpu: tuple[str, int, str]) -> dict[str, str]:
    node, index, uuid = gpu
    return {"gpu": str(index), "UUID": uuid, "Hostname": node}


def _sample(labels: dict[str, str], value: float) -> dict[str, Any]:
    return {"metric": labels, "value": [NOW, f"{value:.3f}"]}


def _target(job: str, instance: str) -> dict[str, Any]:
    return {
        "labels": {"instance": instance, "job": job},
        "scrapePool": job,
        "scrapeUrl": f"http://{instance}/metrics",
        "lastError": "",
        "health": "up",
    }


def _rules() -> list[dict[str, Any]]:
    recorded = {"name": "gpu:ecc_dbe:sum", "type": "recording", "query": "sum(DCGM_FI_DEV_ECC_DBE_VOL_TOTAL)"}
    alerts = [{"name": name, "type": "alerting", "query": query} for name, query in RULES]
    return [rule | {"health": "ok"} for rule in (recorded, *alerts)]


def _dashboard() -> dict[str, Any]:
    node = {"name": "node", "type": "query", "current": {"value": "$__all"}}
    panels = [
        {"title": title, "datasource": {"type": "prometheus", "uid": "prom"}, "targets": [{"expr": query}]}
        for title, query in PANELS.items()
    ]
    return {"dashboard": {"uid": UID, "title": "GPUs", "templating": {"list": [node]}, "panels": panels}}


def _panel(index: int, query: str) -> Item:
    values = [[], []] if "XID" in query else [[1_796_025_600_000], [0.5]]
    answer = {"results": {"A": {"status": 200, "frames": [{"schema": {}, "data": {"values": values}}]}}}
    return _item("grafana", f"panel/{UID}/{index}", {"post": f"{GRAFANA}/api/ds/query"}, encode(answer))
