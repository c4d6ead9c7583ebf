"""A real Prometheus, Alertmanager and node-exporter on loopback, as Debian packages them; always stopped."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from serving import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

PROGRAMS = ("prometheus", "prometheus-alertmanager", "prometheus-node-exporter")
_READY_S = 60.0


@dataclass(frozen=True)
class Stack:
    """Where they listen."""

    prometheus: str
    alertmanager: str
    node_exporter: str


@contextmanager
def stack(folder: Path, rules: str, receivers: str, exporters: Sequence[str]) -> Iterator[Stack]:
    """Run all three, Prometheus scraping these exporters too, each second; wait until each was tried."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        pytest.skip(f"{missing[0]} is missing: apt-get install {' '.join(PROGRAMS)}")
    one = Stack(*(f"127.0.0.1:{free_port()}" for _ in PROGRAMS))
    (folder / "rules.yml").write_text(rules)
    (folder / "receivers.yml").write_text(receivers)
    targets = json.dumps([*exporters, one.node_exporter])
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s, scrape_timeout: 500ms, evaluation_interval: 1s}\n"
        "rule_files: [rules.yml]\n"
        f"alerting: {{alertmanagers: [{{static_configs: [{{targets: ['{one.alertmanager}']}}]}}]}}\n"
        f"scrape_configs: [{{job_name: nodes, static_configs: [{{targets: {targets}}}]}}]\n"
    )
    commands = (
        ["prometheus-node-exporter", f"--web.listen-address={one.node_exporter}"],
        [
            "prometheus-alertmanager",
            f"--config.file={folder}/receivers.yml",
            f"--storage.path={folder}/alertmanager",
            f"--web.listen-address={one.alertmanager}",
            "--cluster.listen-address=",
        ],
        [
            "prometheus",
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data",
            "--storage.tsdb.retention.time=2w",
            f"--web.listen-address={one.prometheus}",
        ],
    )
    running = []
    try:
        for command in commands:
            with (folder / f"{command[0]}.log").open("w") as log:
                running.append(subprocess.Popen(command, stdout=log, stderr=log))
        _wait(folder, lambda: _tried(one.prometheus, len(exporters) + 1) and bool(_get(one.alertmanager)))
        yield one
    finally:
        for process in running:
            process.kill()
        for process in running:
            process.wait()


def _tried(address: str, count: int) -> bool:
    """Tell whether each target was scraped, each rule evaluated, and Alertmanager found."""
    targets = _get(f"{address}/api/v1/targets")["data"]["activeTargets"]
    groups = _get(f"{address}/api/v1/rules")["data"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    known = {one["health"] for one in (*targets, *rules)}
    found = _get(f"{address}/api/v1/alertmanagers")["data"]["activeAlertmanagers"]
    return len(targets) == count and bool(groups) and bool(found) and "unknown" not in known


def _get(address: str) -> Any:
    path = "" if "/" in address else "/api/v2/status"
    with urllib.request.urlopen(f"http://{address}{path}", timeout=5) as answer:
        return json.load(answer)


def _wait(folder: Path, ready: Callable[[], bool]) -> None:
    end = time.monotonic() + _READY_S
    while time.monotonic() < end:
        try:
            if ready():
                return
        except (urllib.error.URLError, OSError):
            pass
        time.sleep(0.1)
    logs = "\n".join(path.read_text()[-2000:] for path in sorted(folder.glob("*.log")))
    pytest.fail(f"not ready within {_READY_S:.0f} s:\n{logs}")
