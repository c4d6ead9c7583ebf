"""Feeds: OSV, NVIDIA's CSAF, Ubuntu's notices and CVE records, each read into bulletins of one form.

Only what a limit can use is taken: tracked packages, and kernels that mend an issue with a name. What cannot
be put into ranges by rule is a note for the person who reviews.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from gpuassay.judge.advisories import SEVERITIES
from gpuassay.judge.versions import SCHEMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Go modules, as OSV names them, and what limits call them.
_MODULES = {
    "github.com/opencontainers/runc": "runc",
    "github.com/containerd/containerd": "containerd",
    "github.com/containerd/containerd/v2": "containerd",
    "github.com/cri-o/cri-o": "cri-o",
    "github.com/docker/docker": "docker",
    "github.com/moby/moby": "docker",
    "github.com/moby/moby/v2": "docker",
    "github.com/NVIDIA/nvidia-container-toolkit": "container-toolkit",
}
# Source packages of distributions.
_SOURCES = {
    "runc": "runc",
    "runc-app": "runc",
    "runc-stable": "runc",
    "containerd": "containerd",
    "containerd-app": "containerd",
    "docker.io": "docker",
    "docker.io-app": "docker",
    "cri-o": "cri-o",
    "qemu": "qemu",
    "qemu-kvm": "qemu",
}
_ISSUES = {"CVE-2026-46300": "fragnesia", "CVE-2026-53359": "januscape", "CVE-2025-40300": "vmscape"}
_KERNEL = re.compile(r"linux(-[a-z0-9.-]+)?|kernel")
_PRODUCTS = {
    "NVIDIA Container Toolkit": ("container-toolkit", "pep440"),
    "NVIDIA CUDA Toolkit": ("cuda-toolkit", "dotted"),
    "DCGM": ("dcgm", "dotted"),
    "DCGM Exporter": ("dcgm-exporter", "dotted"),
}
# Distributions that rebuild Red Hat's packages, and what they call themselves in /etc/os-release.
_REBUILDS = {"AlmaLinux": "almalinux", "Rocky Linux": "rocky"}
_SERIES = {"focal": "20.04", "jammy": "22.04", "noble": "24.04"}
_WORDS = {"moderate": "medium", "important": "high", "negligible": "low"}
_CVE = re.compile(r"CVE-[0-9]{4}-[0-9]{4,}")


Ranges: TypeAlias = "dict[tuple[str, str], set[tuple[str, str | None, str]]]"  # by component and scheme


class FeedError(ValueError):
    """A document of no form that is known here."""


@dataclass(frozen=True, slots=True)
class Bulletin:
    """A proposal for one table of ``advisories.toml``."""

    id: str
    product: str
    component: str
    scheme: str
    ranges: tuple[tuple[str, str | None, str], ...]  # package, from, before
    source: str
    day: date
    severity: str = ""


class About(NamedTuple):
    """What all tables that are made of one document have in common."""

    id: str
    source: str
    day: date
    severity: str


@dataclass(slots=True)
class Found:
    """What a feed holds: bulletins, and notes on what a person has to put in."""

    bulletins: list[Bulletin] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read(text: str) -> Found:
    """Read one document, or a list of them. Raises FeedError."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise FeedError(f"no JSON: {error}") from None
    found = Found()
    documents = data.get("vulns", [data]) if isinstance(data, dict) else data
    if not isinstance(documents, list):
        raise FeedError("expected a JSON object, or a list of them")
    for document in documents:
        if not isinstance(document, dict):
            raise FeedError("expected JSON objects")
        try:
            _one(document, found)
        except FeedError:
            raise
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            raise FeedError(
                f"{document.get('id', 'a document')} is not as its form asks: {error!r}"
            ) from None
    return found


def _one(document: dict[str, Any], found: Found) -> None:
    if "affected" in document and "id" in document:
        _osv(document, found)
    elif document.get("document", {}).get("csaf_version"):
        _csaf(document, found)
    elif "release_packages" in document:
        _notice(document, found)
    elif document.get("dataType") == "CVE_RECORD":
        _cve(document, found)
    else:
        raise FeedError("neither OSV, CSAF, a notice of Ubuntu nor a CVE record")


def _osv(document: dict[str, Any], found: Found) -> None:
    if "withdrawn" in document:
        return
    ranges: Ranges = defaultdict(set)
    for affected in document["affected"]:
        package = affected.get("package", {})
        origin, scheme = _origin(str(package.get("ecosystem", "")))
        for component, name in _tracked(origin, str(package.get("name", "")), json.dumps(document)):
            for first, before in _events(affected.get("ranges", [])):
                if before is None:
                    found.notes.append(f"{document['id']}: {origin}/{name} has no fix yet: left out")
                elif _is_ordered(scheme, first, before):
                    ranges[component, scheme].add((f"{origin}/{name}", first, before))
                else:
                    found.notes.append(f"{document['id']}: {origin}/{name} {before} is no {scheme} version")
    words = document.get("database_specific", {}).get("severity", "")
    day = date.fromisoformat(document["published"][:10])
    about = About(document["id"], _url(document), day, words or _ubuntu_priority(document))
    _propose(found, about, ranges)


def _origin(ecosystem: str) -> tuple[str, str]:
    """Give origin and scheme of an ecosystem of OSV; those that are not tracked have no origin."""
    name, *parts = ecosystem.split(":")
    if name == "Go":
        return "upstream", "pep440"
    if name == "Ubuntu" and parts and parts[0] != "Pro":
        return f"ubuntu:{parts[0]}", "debian"
    if name == "Debian" and parts:
        return f"debian:{parts[0]}", "debian"
    if name == "Red Hat" and len(parts) > 1 and parts[0] == "enterprise_linux":
        return f"rhel:{parts[1].partition('.')[0]}", "rpm"  # from 10 on it names the minor release too
    if name in _REBUILDS and parts:
        return f"{_REBUILDS[name]}:{parts[0].partition('.')[0]}", "rpm"
    return "", "dotted"


def _tracked(origin: str, name: str, whole: str) -> Iterator[tuple[str, str]]:
    """Give the components that a package is, and the name that it has in the table."""
    if origin == "upstream" and name in _MODULES:
        yield _MODULES[name], _MODULES[name]
    elif origin and origin != "upstream":
        if name in _SOURCES:
            yield _SOURCES[name], name
        elif _KERNEL.fullmatch(name):
            yield from ((issue, name) for cve, issue in _ISSUES.items() if cve in whole)


def _events(ranges: Iterable[dict[str, Any]]) -> Iterator[tuple[str | None, str | None]]:
    for one in ranges:
        first: str | None = None
        is_open = False
        for event in one.get("events", []):
            if "introduced" in event:
                first, is_open = (None if event["introduced"] == "0" else str(event["introduced"])), True
            elif "fixed" in event and is_open:
                yield first, str(event["fixed"])
                is_open = False
        if is_open:
            yield first, None


def _is_ordered(scheme: str, *versions: str | None) -> bool:
    try:
        return all(SCHEMES[scheme](version) is not None for version in versions if version)
    except ValueError:
        return False


def _ubuntu_priority(document: dict[str, Any]) -> str:
    return next(
        (str(one["score"]) for one in document.get("severity", []) if one.get("type") == "Ubuntu"), ""
    )


def _url(document: dict[str, Any]) -> str:
    links = [one["url"] for one in document.get("references", []) if one.get("type") == "ADVISORY"]
    own = next((link for link in links if str(document["id"]) in link), "")
    if str(document["id"]).startswith("GHSA"):
        own = f"https://github.com/advisories/{document['id']}"
    # Distributions name the issues that a bulletin mends as "upstream", others as "aliases".
    cves = sorted({*_CVE.findall(" ".join([*document.get("aliases", []), *document.get("upstream", [])]))})
    return ", ".join([*cves, own or f"https://osv.dev/vulnerability/{document['id']}"])


def _csaf(document: dict[str, Any], found: Found) -> None:
    head = document["document"]
    name = f"nvidia-{head['tracking']['id']}"
    fixed = {one for each in document["vulnerabilities"] for one in each["product_status"].get("fixed", [])}
    versions: dict[str, set[str]] = defaultdict(set)
    for product, version, product_id in _versions(document["product_tree"].get("branches", [])):
        if product_id in fixed:
            versions[product].add(version)
    cves = ", ".join(sorted(each["cve"] for each in document["vulnerabilities"]))
    source = f"{cves}, https://github.com/NVIDIA/product-security (CSAF {head['tracking']['id']})"
    day = date.fromisoformat(head["tracking"]["initial_release_date"][:10])
    ranges: Ranges = defaultdict(set)
    for product, fixes in versions.items():
        component, scheme = _PRODUCTS.get(product, ("", "dotted"))
        if component and len(fixes) == 1 and _is_ordered(scheme, *fixes):
            ranges[component, scheme].add((f"upstream/{component}", None, *fixes))  # type: ignore[arg-type]
        else:
            found.notes.append(
                f"{name}: {product} is fixed in {', '.join(sorted(fixes))}: to be put in by hand"
            )
    _propose(found, About(name, source, day, head.get("aggregate_severity", {}).get("text", "")), ranges)


def _versions(branches: Iterable[dict[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """Give product, version and id of every version in a tree of CSAF, as NVIDIA writes them."""
    for branch in branches:
        if branch.get("category") == "product_version":
            yield branch["name"], branch["product"]["name"], branch["product"]["product_id"]
        yield from _versions(branch.get("branches", []))


def _notice(document: dict[str, Any], found: Found) -> None:
    ranges: Ranges = defaultdict(set)
    for series, packages in document["release_packages"].items():
        for package in packages if series in _SERIES else ():
            origin = f"ubuntu:{_SERIES[series]}"
            for component, name in _tracked(origin, package["name"], json.dumps(document)):
                if package.get("is_source") and _is_ordered("debian", package["version"]):
                    ranges[component, "debian"].add((f"{origin}/{name}", None, package["version"]))
    source = f"https://ubuntu.com/security/notices/{document['id']}"
    _propose(found, About(document["id"], source, date.fromisoformat(document["published"][:10]), ""), ranges)


def _cve(document: dict[str, Any], found: Found) -> None:
    """Note what AMD says: its versions are words for programs and releases, no ranges."""
    cna = document["containers"]["cna"]
    for affected in cna.get("affected", []):
        if affected.get("vendor") == "AMD":
            said = ", ".join(
                f"{one.get('version')} {one.get('status')}" for one in affected.get("versions", [])
            )
            cve = document["cveMetadata"]["cveId"]
            found.notes.append(f"{cve}: {affected.get('product')}: {said}: to be put in by hand")


def _propose(found: Found, about: About, ranges: Ranges) -> None:
    word = _WORDS.get(about.severity.lower(), about.severity.lower())
    for (component, scheme), each in sorted(ranges.items()):
        own = about.id if len(ranges) == 1 else f"{about.id}-{component}"
        listed = tuple(sorted(each, key=lambda one: (one[0], one[1] or "", one[2])))
        graded = word if word in SEVERITIES else ""
        found.bulletins.append(
            Bulletin(own, component, component, scheme, listed, about.source, about.day, graded)
        )
