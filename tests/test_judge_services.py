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
    assert not any(word in str(mistakes[0]) for word in ("user:", "password@", "token@", "secret"))


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


def read_storage(**tables: Any) -> tuple[Services, list[Mistake]]:
    """Read a site file that has only these tables."""
    mistakes: list[Mistake] = []
    return read_services(Table(tables, Place("site.toml"), mistakes)), mistakes


def test_what_storage_is_declared() -> None:
    """Storage of each node's own is not shared, and a capacity is one of either; an end of a path is none."""
    local = {"path": "/scratch", "role": "local"}
    home = {"path": "/home/", "role": "home", "capacity_tb": 10}
    found, mistakes = read_storage(mount=[local])
    words = ("shared_storage", "local_storage", "storage_capacity", "s3")
    assert mistakes == []
    assert [found.has(word) for word in words] == [False, True, False, False]
    found, _ = read_storage(mount=[local, home], s3={"endpoint": "https://s3.example.com/"})
    assert [found.has(word) for word in words] == [True, True, True, True]
    assert [mount.path for mount in found.mounts] == ["/scratch", "/home"]


def test_a_mount_that_is_no_path_from_the_root_is_a_mistake() -> None:
    """It could not be found on any node."""
    _, mistakes = read_storage(mount=[{"path": "home", "role": "home"}])
    assert "expected a path from the root, such as /home; found home" in str(mistakes[0])


@pytest.mark.parametrize("key", ["access_key", "secret_key"])
def test_a_key_itself_is_refused(key: str) -> None:
    """The site file names the variable that holds it; what was written there is not shown again."""
    secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"  # noqa: S105 - the example of Amazon's documentation
    _, mistakes = read_storage(s3={"endpoint": "https://s3.example.com", key: secret})
    assert "does not belong into a site file" in str(mistakes[0])
    assert secret not in str(mistakes[0])
    assert read_storage(s3={"endpoint": "https://s3.example.com", key: "S3_KEY"})[1] == []


@pytest.mark.parametrize("terabytes", [0, -1])
def test_a_capacity_is_more_than_nothing(terabytes: int) -> None:
    """Every file system would hold what was bought."""
    mistakes: list[Mistake] = []
    mount = {"path": "/home", "role": "home", "capacity_tb": terabytes}
    read_services(Table({"mount": [mount]}, Place("site.toml"), mistakes))

    assert "capacity_tb: expected a number above 0" in str(mistakes[0])


def test_an_endpoint_needs_an_address_a_model_and_its_gpus() -> None:
    """Its token is named by a variable, and is none of them."""
    whole = {"url": "https://i.example.com/v1/", "model": "m", "gpus": 8, "token_env": "KEY"}
    found, mistakes = read_storage(inference=whole)
    assert mistakes == []
    assert found.inference is not None
    assert (found.inference.url, found.has("inference")) == ("https://i.example.com/v1", True)
    assert found.asked_at("inference") == ("https://i.example.com/v1", "m")
    for key in ("url", "model", "gpus"):
        assert key in str(read_storage(inference={**whole, key: 0})[1][0])
    assert "does not belong into a site file" in str(
        read_storage(inference={**whole, "token_env": "sk-1"})[1][0]
    )


@pytest.mark.parametrize(
    ("channels", "found", "wrong"),
    [
        (["kmsg", "dcgm"], ("kmsg", "dcgm"), 0),
        ([], (), 0),
        (["syslog"], (), 1),
    ],
)
def test_channels_of_remediation(channels: list[str], found: tuple[str, ...], wrong: int) -> None:
    """What the provider's tooling reads is one of the channels that faults are told of through."""
    mistakes: list[Mistake] = []
    services = read_services(Table({"remediation": {"channels": channels}}, Place("site.toml"), mistakes))
    assert services.remediation == found
    assert len(mistakes) == wrong
