"""The services of a cluster that a site file declares: where they are, and what was bought; nothing secret.

Whatever is secret is named by the environment variable that holds it where the suite runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuassay.judge.address import ADDRESS
from gpuassay.judge.config import COUNT, FLAG, NUMBER, TEXT, Kind, items, word
from gpuassay.judge.notices import Notices, read_notices
from gpuassay.judge.outside import FILE, IMAGE, MODEL, Outside, read_outside
from gpuassay.judge.packages import Packages, read_packages
from gpuassay.judge.reach import Reach

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.judge.config import Table

SERVICES = (
    "shared_storage",
    "local_storage",
    "storage_capacity",
    "storage_declared",
    "storage_speed",
    "shared_unpromised",
    "local_unpromised",
    "packages",
    "s3",
    "s3_speed",
    "prometheus",
    "alertmanager",
    "grafana",
    "exporters",
    "lookups",
    "mirrors",
    "pulls",
    "observability",
    "inference",
    "image",
)
"""The words of ``[needs]`` that the site file alone decides, for the whole cluster."""

SCHEDULERS = ("slurm", "kubernetes")
"""The words of ``[needs]`` that the evidence of the cluster as a whole decides, if no pool declares them."""

_MONITORS = ("prometheus", "alertmanager", "grafana")
_LAST_PORT = 65535
_CHANNELS = ("kmsg", "dcgm")
_ROLES = ("home", "data", "scratch", "local")
SPEEDS = ("read_gbps", "write_gbps", "read_iops", "write_iops")
"""What a contract may promise of a mount, to one node that has it for itself."""
OBJECT_SPEEDS = ("read_gbps", "write_gbps")
"""What a contract may promise of object storage, to all nodes together."""


@dataclass(frozen=True)
class Mount:
    """A file system: where it is mounted, what it is for, whether all nodes share it, and its bought size.

    ``speeds`` are those that were promised to one node, by the words of ``SPEEDS``.
    """

    path: str
    role: str
    shared: bool
    capacity_tb: float | None = None
    speeds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class S3:
    """Object storage. ``access_key`` and ``secret_key`` name environment variables.

    ``addressing`` says where a request names the bucket: in its path, or before the host's name (virtual).
    ``speeds`` are those that were promised to all nodes together, by the words of ``OBJECT_SPEEDS``.
    """

    endpoint: str
    bucket: str = ""
    region: str = ""
    access_key: str = ""
    secret_key: str = ""
    capacity_tb: float | None = None
    addressing: str = "path"
    speeds: Mapping[str, float] = field(default_factory=dict)


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
class Inference:
    """An endpoint that speaks as OpenAI's does: its address up to ``/v1``, the model, the GPUs behind it.

    ``token_env`` names the environment variable of its token.
    """

    url: str
    model: str
    gpus: int
    token_env: str = ""


@dataclass(frozen=True)
class Services:
    """What is declared; None and no mount for what is not. ``reach`` is how nodes are got.

    ``second_token`` names the environment variable of another tenant's token for the monitoring.
    ``remediation`` are the channels that the provider says its own tooling reads: the kernel log, DCGM.
    """

    mounts: tuple[Mount, ...] = ()
    s3: S3 | None = None
    monitoring: Monitoring | None = None
    packages: Packages | None = None
    reach: Reach = field(default_factory=Reach)
    outside: Outside = field(default_factory=Outside)
    second_token: str = ""
    inference: Inference | None = None
    remediation: tuple[str, ...] = ()
    notices: Notices = field(default_factory=Notices)

    def asked_at(self, survey: str) -> tuple[object, ...]:
        """Give the place at which a survey asks, if the site file names it: its answers are of that place."""
        if survey in ("s3", "object_endurance", "object_speed") and self.s3 is not None:
            return self.s3.endpoint, self.s3.bucket
        if survey == "inference" and self.inference is not None:
            return self.inference.url, self.inference.model
        if survey == "second_account":
            return tuple(getattr(self.monitoring, one, "") for one in ("prometheus", "grafana"))
        return (getattr(self.monitoring, survey, ""),)

    def has(self, service: str) -> bool:
        """Tell whether a word of ``SERVICES`` is declared."""
        if service == "shared_storage":
            return any(mount.shared for mount in self.mounts)
        if service == "local_storage":
            return any(not mount.shared for mount in self.mounts)
        if service == "storage_capacity":
            return any(mount.capacity_tb is not None for mount in self.mounts)
        if service == "storage_declared":
            return bool(self.mounts)
        if service == "storage_speed":
            return any(mount.speeds for mount in self.mounts)
        if service == "s3_speed":
            return self.s3 is not None and bool(self.s3.speeds)
        if service in ("shared_unpromised", "local_unpromised"):
            shared = service == "shared_unpromised"
            return any(mount.shared == shared and not mount.speeds for mount in self.mounts)
        if service == "image":
            return bool(self.reach.image)
        if service in ("lookups", "mirrors", "pulls"):
            outside = self.outside
            return bool(
                {"lookups": outside.lookups, "mirrors": outside.of(FILE), "pulls": outside.of(IMAGE, MODEL)}[
                    service
                ]
            )
        if service in ("packages", "s3", "inference"):
            return bool(getattr(self, service))
        if service == "observability":
            return self.has("prometheus") or self.has("grafana")
        return bool(getattr(self.monitoring, service, ""))


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
_EXPORTER = Kind("a port and a path such as :9400/metrics", _exporter, "")


def read_services(site: Table) -> Services:
    """Read what a site file declares of services, of storage, and of the world outside."""
    return Services(
        tuple(_mount(table) for table in site.array("mount")),
        _s3(site.section("s3")) if "s3" in site.data else None,
        _monitoring(site.section("monitoring")) if "monitoring" in site.data else None,
        read_packages(site.section("packages")) if "packages" in site.data else None,
        outside=read_outside(site),
        second_token=_second(site.section("second_account")),
        inference=_inference(site.section("inference")) if "inference" in site.data else None,
        remediation=_remediation(site.section("remediation")),
        notices=read_notices(site.section("notices")),
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
        speeds=_speeds(table, SPEEDS),
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
        speeds=_speeds(table, OBJECT_SPEEDS),
    )
    table.close()
    return s3


def _speeds(table: Table, names: Sequence[str]) -> dict[str, float]:
    return {name: speed for name in names if (speed := table.take(name, _CAPACITY, None)) is not None}


def _inference(table: Table) -> Inference:
    url, model = table.need("url", ADDRESS), table.need("model", TEXT)
    gpus = table.need("gpus", COUNT)
    if not gpus and "gpus" in table.data:
        table.wrong("gpus", "expected how many GPUs serve it, 1 or more")
    inference = Inference(url, model, gpus, _variable(table, "token_env"))
    table.close()
    return inference


def _variable(table: Table, name: str) -> str:
    """Read the name of an environment variable. A key itself is refused, and not shown once more."""
    text = table.take(name, TEXT, "")
    if text and not re.fullmatch(r"[A-Z_][A-Z0-9_]*", text):
        expected = "expected the name of an environment variable such as S3_SECRET_KEY"
        table.wrong(name, f"{expected}; a key itself does not belong into a site file")
    return text


def _second(table: Table) -> str:
    """Read who else there is, by the name of what holds his token."""
    token = _variable(table, "token")
    table.close()
    return token


def _remediation(table: Table) -> tuple[str, ...]:
    channels = table.take("channels", items(word(_CHANNELS)), ())
    table.close()
    return channels


def _monitoring(table: Table) -> Monitoring:
    token = table.take("token", TEXT, "")
    tokens = {name: table.take(f"{name}_token", TEXT, token) for name in _MONITORS}
    addresses = {name: table.take(name, ADDRESS, "") for name in _MONITORS}
    exporters = table.take("exporters", items(_EXPORTER), ())
    monitoring = Monitoring(**addresses, tokens=tokens, exporters=exporters)
    table.close()
    return monitoring
