"""The services of a cluster that a site file declares: where they are, and what was bought; nothing secret.

Whatever is secret is named by the environment variable that holds it where the suite runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gpuassay.judge.config import FLAG, NUMBER, TEXT, Kind, items, word
from gpuassay.judge.reach import Reach

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.judge.config import Table

SERVICES = (
    "shared_storage",
    "local_storage",
    "storage_capacity",
    "s3",
    "prometheus",
    "alertmanager",
    "grafana",
    "exporters",
)
"""The words of ``[needs]`` that the site file alone decides, for the whole cluster."""

SCHEDULERS = ("slurm", "kubernetes")
"""The words of ``[needs]`` that the evidence of the cluster as a whole decides, if no pool declares them."""

_MONITORS = ("prometheus", "alertmanager", "grafana")
_LAST_PORT = 65535
_ROLES = ("home", "data", "scratch", "local")


@dataclass(frozen=True)
class Mount:
    """A file system: where it is mounted, what it is for, whether all nodes share it, and its bought size."""

    path: str
    role: str
    shared: bool
    capacity_tb: float | None = None


@dataclass(frozen=True)
class S3:
    """Object storage. ``access_key`` and ``secret_key`` name environment variables.

    ``addressing`` says where a request names the bucket: in its path, or before the host's name (virtual).
    """

    endpoint: str
    bucket: str = ""
    region: str = ""
    access_key: str = ""
    secret_key: str = ""
    capacity_tb: float | None = None
    addressing: str = "path"


@dataclass(frozen=True)
class Monitoring:
    """Addresses of the monitoring; ``tokens`` name the environment variable of each service's token.

    ``exporters`` are those that every GPU node of the cluster should serve, such as ``:9400/metrics``.
    """

    prometheus: str = ""
    alertmanager: str = ""
    grafana: str = ""
    tokens: Mapping[str, str] = field(default_factory=dict)
    exporters: tuple[str, ...] = ()


@dataclass(frozen=True)
class Services:
    """What is declared; None and no mount for what is not. ``reach`` is how nodes are got."""

    mounts: tuple[Mount, ...] = ()
    s3: S3 | None = None
    monitoring: Monitoring | None = None
    reach: Reach = field(default_factory=Reach)

    def asked_at(self, survey: str) -> tuple[object, ...]:
        """Give the place at which a survey asks, if the site file names it: its answers are of that place."""
        if survey == "s3" and self.s3 is not None:
            return self.s3.endpoint, self.s3.bucket
        return (getattr(self.monitoring, survey, ""),)

    def has(self, service: str) -> bool:
        """Tell whether a word of ``SERVICES`` is declared."""
        if service == "shared_storage":
            return any(mount.shared for mount in self.mounts)
        if service == "local_storage":
            return any(not mount.shared for mount in self.mounts)
        if service == "storage_capacity":
            return any(mount.capacity_tb is not None for mount in self.mounts)
        if service == "s3":
            return self.s3 is not None
        return bool(getattr(self.monitoring, service, ""))


def _address(value: object) -> str:
    """Read where a service is; whatever could hold a secret is refused, for the site file is passed on."""
    text = TEXT.read(value).rstrip("/")
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        raise ValueError
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError("it may hold neither a user, nor a password, nor a query")
    return text


def _exporter(value: object) -> str:
    text = TEXT.read(value)
    found = re.fullmatch(r":([1-9][0-9]{0,4})/[\w./-]*", text)
    if found is None or int(found[1]) > _LAST_PORT:
        raise ValueError
    return text


def _capacity(value: object) -> float:
    number = NUMBER.read(value)
    if number <= 0:
        raise ValueError
    return number


_CAPACITY = Kind("a number above 0", _capacity, 1.0)
ADDRESS = Kind("an address such as https://prometheus.example.com", _address, "")
_EXPORTER = Kind("a port and a path such as :9400/metrics", _exporter, "")


def read_services(site: Table) -> Services:
    """Read ``[[mount]]``, ``[s3]`` and ``[monitoring]``."""
    return Services(
        tuple(_mount(table) for table in site.array("mount")),
        _s3(site.section("s3")) if "s3" in site.data else None,
        _monitoring(site.section("monitoring")) if "monitoring" in site.data else None,
    )


def _mount(table: Table) -> Mount:
    role = table.need("role", word(_ROLES))
    path = table.need("path", TEXT)
    if path and not path.startswith("/"):
        table.wrong("path", f"expected a path from the root, such as /home; found {path}")
    mount = Mount(
        path=path.rstrip("/") or "/",
        role=role,
        shared=table.take("shared", FLAG, role != "local"),
        capacity_tb=table.take("capacity_tb", _CAPACITY, None),
    )
    table.close()
    return mount


def _s3(table: Table) -> S3:
    words = {name: table.take(name, TEXT, "") for name in ("bucket", "region")}
    keys = {name: _variable(table, name) for name in ("access_key", "secret_key")}
    s3 = S3(
        table.need("endpoint", ADDRESS),
        **words,
        **keys,
        capacity_tb=table.take("capacity_tb", _CAPACITY, None),
        addressing=table.take("addressing", word(("path", "virtual")), "path"),
    )
    table.close()
    return s3


def _variable(table: Table, name: str) -> str:
    """Read the name of an environment variable. A key itself is refused, and not shown once more."""
    text = table.take(name, TEXT, "")
    if text and not re.fullmatch(r"[A-Z_][A-Z0-9_]*", text):
        expected = "expected the name of an environment variable such as S3_SECRET_KEY"
        table.wrong(name, f"{expected}; a key itself does not belong into a site file")
    return text


def _monitoring(table: Table) -> Monitoring:
    token = table.take("token", TEXT, "")
    tokens = {name: table.take(f"{name}_token", TEXT, token) for name in _MONITORS}
    addresses = {name: table.take(name, ADDRESS, "") for name in _MONITORS}
    exporters = table.take("exporters", items(_EXPORTER), ())
    monitoring = Monitoring(**addresses, tokens=tokens, exporters=exporters)
    table.close()
    return monitoring
