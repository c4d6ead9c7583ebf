"""The services of a site file: where they are, and no secret among it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.judge.config import Place, Table
from gpuassay.judge.services import Services, read_services

if TYPE_CHECKING:
    from gpuassay.judge.config import Mistake


def read(**monitoring: Any) -> tuple[Services, list[Mistake]]:
    """Read a site file that has only this ``[monitoring]``."""
    mistakes: list[Mistake] = []
    return read_services(Table({"monitoring": monitoring}, Place("site.toml"), mistakes)), mistakes


@pytest.mark.parametrize(
    "address",
    [
        "https://user:password@grafana.example.com",
        "https://token@grafana.example.com",
        "https://grafana.example.com/?auth_token=secret",
        "https://grafana.example.com/#secret",
        "grafana.example.com",
        "https://",
        "ftp://grafana.example.com",
        "https://grafana.example.com:99999",
    ],
)
def test_an_address_that_could_hold_a_secret_is_a_mistake(address: str) -> None:
    """The site file goes wherever the report goes; what is no address is told before anything is asked."""
    _, mistakes = read(grafana=address)

    assert [str(one).partition(":")[0] for one in mistakes] == ["site.toml"]
    assert "[monitoring] grafana" in str(mistakes[0])


def test_a_token_holds_for_all_services_that_have_none_of_their_own() -> None:
    """Grafana's key says nothing to Prometheus, and needs not be shown to it."""
    tokens = {"token": "ALL", "grafana_token": "OWN"}
    found, mistakes = read(prometheus="http://p:9090/", grafana="http://g", **tokens)

    assert mistakes == []
    assert found.monitoring is not None
    assert found.monitoring.prometheus == "http://p:9090"
    assert found.monitoring.tokens == {"prometheus": "ALL", "alertmanager": "ALL", "grafana": "OWN"}


@pytest.mark.parametrize(
    "page", ["9400/metrics", ":9400", ":0/metrics", ":70000/metrics", ":9400/metrics?x=1", 9400]
)
def test_an_exporter_is_a_port_and_a_path(page: object) -> None:
    """The host is each node's own name."""
    assert read(exporters=[":9400/metrics"])[0].has("exporters")
    assert len(read(exporters=[page])[1]) == 1
