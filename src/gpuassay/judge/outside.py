"""What a site file says of the world outside the cluster: names, mirrors, and what traffic there costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gpuassay.judge.address import url
from gpuassay.judge.config import COUNT, NUMBER, TEXT, Kind, items, word

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.judge.config import Table

FILE, IMAGE, MODEL = "file", "image", "model"
_KINDS = (FILE, IMAGE, MODEL)
_GB = 1e9  # as clouds bill it


@dataclass(frozen=True)
class Mirror:
    """One thing that nodes may fetch: no more than ``bytes`` of it, each."""

    url: str
    bytes: int
    kind: str = FILE

    @property
    def host(self) -> str:
        """The name that has to be looked up for it."""
        return urlsplit(self.url).hostname or ""


@dataclass(frozen=True)
class Outside:
    """What is declared; nothing where a site has no way out."""

    mirrors: tuple[Mirror, ...] = ()
    names: tuple[str, ...] = ()
    proxy: str = ""
    price_per_gb: float | None = None
    currency: str = ""

    @property
    def lookups(self) -> tuple[str, ...]:
        """The names to look up: those declared, and the hosts of the mirrors that nodes reach themselves."""
        hosts = () if self.proxy else tuple(mirror.host for mirror in self.mirrors)
        return tuple(dict.fromkeys((*self.names, *hosts)))

    def of(self, *kinds: str) -> tuple[Mirror, ...]:
        """Give the mirrors of some kinds."""
        return tuple(mirror for mirror in self.mirrors if mirror.kind in kinds)

    def cost(self, mirrors: tuple[Mirror, ...], nodes: int) -> str:
        """Say how much would be fetched at most, and what that costs as far as it was declared."""
        each = sum(mirror.bytes for mirror in mirrors) / _GB
        total = f"{each:.3g} GB to each of {nodes} nodes, {each * nodes:.3g} GB in all, at most"
        if self.price_per_gb is None:
            return f"{total}; what that costs is not declared ([outside] price_per_gb)"
        price = f"{self.price_per_gb:g} {self.currency}".strip()
        return f"{total}; {each * nodes * self.price_per_gb:.2f} {self.currency} at {price} per GB"


def _some(value: object) -> int:
    number = COUNT.read(value)
    if number == 0:
        raise ValueError
    return number


def _price(value: object) -> float:
    number = NUMBER.read(value)
    if number < 0:
        raise ValueError
    return number


_URL = Kind("an address such as https://mirror.example.com/file", url, "")
_BYTES = Kind("a whole number of bytes, 1 or more", _some, 1)
_PRICE = Kind("a number, 0 or more", _price, 0.0)


def read_outside(site: Table) -> Outside:
    """Read ``[outside]`` and every ``[[mirror]]``."""
    mirrors = tuple(_mirror(table) for table in site.array("mirror"))
    table = site.section("outside")
    outside = Outside(
        mirrors,
        names=table.take("names", items(TEXT), ()),
        proxy=table.take("proxy", _URL, ""),
        price_per_gb=table.take("price_per_gb", _PRICE, None),
        currency=table.take("currency", TEXT, ""),
    )
    if outside.price_per_gb is not None and not outside.currency:
        table.wrong("currency", "is missing; expected that of price_per_gb, such as USD")
    table.close()
    return outside


def _mirror(table: Table) -> Mirror:
    mirror = Mirror(
        table.need("url", _URL), table.need("bytes", _BYTES), table.take("kind", word(_KINDS), FILE)
    )
    if mirror.kind == IMAGE and "/v2/" not in mirror.url.partition("/manifests/")[0]:
        table.wrong(
            "url", "expected the manifest of an image, such as https://registry/v2/name/manifests/sha256:…"
        )
    table.close()
    return mirror


def document(mirrors: tuple[Mirror, ...]) -> list[Mapping[str, object]]:
    """Give mirrors as JSON has them."""
    return [{"url": one.url, "kind": one.kind, "bytes": one.bytes} for one in mirrors]
