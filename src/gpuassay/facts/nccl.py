"""Settings of NCCL that every job on a node finds, and what is to be said of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_network
from typing import TYPE_CHECKING

from gpuassay.facts.gid import DEFAULTS, Wanted
from gpuassay.facts.source import document
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from gpuassay.facts.record import Record
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

_MOST_INDEX = 1023  # of a GID table; mlx5 has 255


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting, and the place that it comes from."""

    name: str
    value: str
    origin: str

    def __str__(self) -> str:
        return f"{self.name}={brief(self.value)} ({self.origin})"

    @property
    def number(self) -> int | None:
        """Its value as NCCL reads a number (strtoll with base 0); None where it has none."""
        text = self.value.strip()
        try:
            octal = len(text) > 1 and text[0] == "0" and text[1:].isdecimal()
            return int(text, 8 if octal else 0)
        except ValueError:
            return None


class Settings:
    """What NCCL would be told on a node: the environment first, then its files, and the first word counts."""

    def __init__(self, evidence: Evidence) -> None:
        """Look at what the probe found."""
        self._found = document(evidence, "nccl")

    @cached_property
    def all(self) -> Fact[Mapping[str, Setting]]:
        """All settings by name; unread as soon as one place of them is."""
        found: dict[str, Setting] = {}
        for place in self._places():
            if isinstance(place, Unread):
                return place
            for setting in place:
                found.setdefault(setting.name, setting)
        return Read(found, self._found.evidence)

    def _places(self) -> Iterator[list[Setting] | Unread]:
        environment = self._found.record("environment")
        yield environment.unread or _settings(environment, "the environment")
        files = self._found.listed("files")
        if isinstance(files, Unread):
            yield files
            return
        for file in files.value:
            path = file.text("path")
            yield path if isinstance(path, Unread) else _of_file(file, path.value)

    def get(self, name: str) -> Setting | None:
        """Give a setting; None where it is not set, is empty (NCCL ignores that), or could not be read."""
        if isinstance(self.all, Unread):
            return None
        setting = self.all.value.get(name)
        return setting if setting and setting.value.strip() else None

    @cached_property
    def wanted(self) -> Wanted:
        """Which address NCCL looks for: its defaults, unless something else is set."""
        family, span = self.get("NCCL_IB_ADDR_FAMILY"), self.get("NCCL_IB_ADDR_RANGE")
        version = self.get("NCCL_IB_ROCE_VERSION_NUM")
        try:
            network = ip_network(span.value.strip(), strict=False) if span else None
        except ValueError:
            network = None
        return Wanted(
            ipv6=family is not None and family.value.strip() == "AF_INET6",
            network=network,
            version=(version.number if version else None) or DEFAULTS.version,
        )

    @property
    def pin(self) -> Fact[int]:
        """The index into the GID table that is pinned, -1 if none is; the note says where."""
        if isinstance(self.all, Unread):
            return self.all
        setting = self.get("NCCL_IB_GID_INDEX")
        number = setting.number if setting else None
        if setting is None or number is None or number < 0:
            return Read(-1, self.all.evidence)
        if number > _MOST_INDEX:
            return Unread("garbled", f"{setting} is no index", self.all.evidence)
        return Read(number, self.all.evidence, str(setting))

    @property
    def queue_pairs(self) -> Fact[int]:
        """How many queue pairs a connection has; NCCL's own number is 1."""
        if isinstance(self.all, Unread):
            return self.all
        setting = self.get("NCCL_IB_QPS_PER_CONNECTION")
        if setting is None:
            return Read(1, self.all.evidence, "NCCL_IB_QPS_PER_CONNECTION is not set, and 1 by default")
        if setting.number is None:
            return Unread("garbled", f"{setting} is no number", self.all.evidence)
        return Read(setting.number, self.all.evidence, str(setting))

    @property
    def topology_file(self) -> Fact[bool]:
        """Whether the topology file that is set is there; true where none is set."""
        found = self._found.values
        if isinstance(found, Unread):
            return found
        if "topology_file" not in found:
            return Read(value=True, evidence=self._found.evidence)
        return self._found.record("topology_file").flag("there")

    @property
    def plugins(self) -> Fact[tuple[str, ...]]:
        """The paths of network plugins, in the order in which they would be found."""
        paths = self._found.look("plugins")
        if isinstance(paths, Unread):
            return paths
        if not isinstance(paths.value, list) or not all(isinstance(path, str) for path in paths.value):
            return self._found.garbled("plugins", paths.value, "a list of paths")
        return Read(tuple(map(brief, paths.value)), paths.evidence)


def _of_file(file: Record, path: str) -> list[Setting] | Unread:
    pairs = file.look("settings")
    if isinstance(pairs, Unread):
        return pairs
    sound = isinstance(pairs.value, list) and all(
        isinstance(pair, list)
        and len(pair) == len(("name", "value"))
        and all(isinstance(x, str) for x in pair)
        for pair in pairs.value
    )
    if not sound:
        return file.garbled("settings", pairs.value, "a list of names and values")
    return [Setting(brief(name), value, path) for name, value in pairs.value]


def _settings(record: Record, origin: str) -> list[Setting] | Unread:
    values = record.values
    if isinstance(values, Unread):
        return values
    odd = next((name for name, value in values.items() if not isinstance(value, str)), None)
    if odd is not None:
        return record.garbled(odd, values[odd], "a text")
    return [Setting(brief(name), value, origin) for name, value in values.items()]


# --- what is to be said of them ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rule:
    """What is wrong with leaving a setting set; ``grave`` where jobs lose the fabric or a link by it."""

    name: str
    applies: Callable[[Setting], bool]
    words: str
    grave: bool = False


def _on(setting: Setting) -> bool:
    return bool(setting.number)


def _off(setting: Setting) -> bool:
    return setting.number == 0


def _set(_: Setting) -> bool:
    return True


def _is(*values: str) -> Callable[[Setting], bool]:
    return lambda setting: setting.value.strip().casefold() in values


def _above(most: int) -> Callable[[Setting], bool]:
    return lambda setting: setting.number is not None and setting.number > most


# NVIDIA/nccl 2.30.7, docs/userguide/source/env.rst: which variables are for debugging, and what each does.
RULES = (
    Rule("NCCL_IB_DISABLE", _on, "no job uses RDMA", grave=True),
    Rule("NCCL_NET", _is("socket"), "every job uses TCP", grave=True),
    Rule("NCCL_P2P_DISABLE", _on, "GPUs of a node do not use NVLink", grave=True),
    Rule("NCCL_P2P_LEVEL", _is("loc", "0"), "GPUs of a node do not use NVLink", grave=True),
    Rule("NCCL_NET_GDR_LEVEL", _is("loc", "0"), "no NIC reads GPU memory directly", grave=True),
    Rule("NCCL_SHM_DISABLE", _on, "shared memory is off"),
    Rule("NCCL_MNNVL_ENABLE", _off, "NVLink between nodes is off"),
    Rule("NCCL_CUMEM_ENABLE", _off, "it turns off NVLink between nodes and registration of buffers"),
    Rule("NCCL_NVLS_ENABLE", _off, "reductions in the switch are off"),
    Rule("NCCL_PXN_DISABLE", _on, "rails are not joined through NVLink"),
    Rule("NCCL_DMABUF_ENABLE", _off, "GPUDirect RDMA by dma_buf is off"),
    Rule("NCCL_ALGO", _set, "pins what NCCL tunes by message size"),
    Rule("NCCL_PROTO", _set, "pins what NCCL tunes by message size"),
    Rule("NCCL_MIN_NCHANNELS", _set, "pins what NCCL tunes by topology"),
    Rule("NCCL_MAX_NCHANNELS", _set, "pins what NCCL tunes by topology"),
    Rule("NCCL_MIN_CTAS", _set, "pins what NCCL tunes by topology"),
    Rule("NCCL_MAX_CTAS", _set, "pins what NCCL tunes by topology"),
    Rule("NCCL_BUFFSIZE", _set, "pins what NCCL tunes"),
    Rule("NCCL_NTHREADS", _set, "pins what NCCL tunes"),
    Rule("NCCL_LAUNCH_MODE", _set, "is for debugging"),
    Rule("NCCL_CHECKS_DISABLE", _on, "wrong calls are not found"),
    Rule("NCCL_DEBUG", _is("trace"), "logs every call"),
    Rule("NCCL_IB_CUDA_SUPPORT", _set, "has had no effect since NCCL 2.4"),
    Rule("NCCL_IB_PCI_RELAXED_ORDERING", _is("1"), "fails where 2, the default, adapts itself"),
    Rule("NCCL_IB_TIMEOUT", _above(22), "a dead path is noticed after minutes only"),
    Rule("NCCL_CROSS_NIC", _is("1"), "sends across rails"),
    Rule("NCCL_COLLNET_ENABLE", _on, "needs SHARP in the fabric's switches"),
)


def findings(settings: Iterable[Setting], *, grave: bool) -> list[str]:
    """Say what is wrong with settings, the grave things or the others."""
    found = {setting.name: setting for setting in settings}
    return [
        f"{setting}: {rule.words}"
        for rule in RULES
        if rule.grave is grave
        and (setting := found.get(rule.name))
        and setting.value.strip()
        and rule.applies(setting)
    ]


# --- lists of names -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Names:
    """A list of devices or interfaces as NCCL reads it: ``mlx5_1`` is mlx5_10 too; ``=`` makes it exact."""

    entries: tuple[str, ...]
    exact: bool
    excludes: bool

    @classmethod
    def parse(cls, text: str) -> Names:
        """Read ``^=mlx5_0:1,mlx5_1``."""
        text = text.strip()
        excludes = text.startswith("^")
        exact = text.removeprefix("^").startswith("=")
        listed = text.removeprefix("^").removeprefix("=").split(",")
        return cls(tuple(entry.strip() for entry in listed if entry.strip()), exact, excludes)

    def takes(self, name: str) -> bool:
        """Tell whether a device or interface of this name is used."""
        if not self.entries:
            return True
        return self._listed(name) is not self.excludes

    def _listed(self, name: str) -> bool:
        names = [entry.partition(":")[0] for entry in self.entries]
        return name in names if self.exact else any(name.startswith(one) for one in names)

    def traps(self, names: Iterable[str]) -> list[str]:
        """Name what an entry takes beside the one that has just this name."""
        if self.exact:
            return []
        names = list(names)
        entries = {entry.partition(":")[0] for entry in self.entries}
        return [
            f"{entry} also means {', '.join(more)}"
            for entry in sorted(entries & {*names})
            if (more := [one for one in names if one.startswith(entry) and one not in entries])
        ]
