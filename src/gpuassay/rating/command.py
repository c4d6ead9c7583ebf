"""``gpuassay rate``, ``podium`` and ``diff``: read what was named, compute, write what came of it."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gpuassay.evidence.files import RecordingError, write_atomic
from gpuassay.evidence.run import RunFolder
from gpuassay.gathering import now
from gpuassay.judge.config import ConfigError
from gpuassay.judge.site import load_site, undeclared
from gpuassay.judge.waivers import Replaced
from gpuassay.rating import diff, told
from gpuassay.rating.assessor import load_assessment
from gpuassay.rating.document import rating
from gpuassay.rating.judging import Rules, judge
from gpuassay.rating.merge import plan
from gpuassay.rating.pages import podium_page, rating_page
from gpuassay.rating.podium import podium
from gpuassay.rating.source import read_source
from gpuassay.rating.words import SCHEMA, RatingError
from gpuassay.rating.write import write_merged
from gpuassay.signing.assessment import standing
from gpuassay.signing.envelope import SigningError
from gpuassay.stopping import interrupt_on_term
from gpuassay.suite import SuiteError, load_suite

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from pathlib import Path

    from gpuassay.judge.catalog import Catalog
    from gpuassay.judge.site import Site
    from gpuassay.rating.assessor import Assessment
    from gpuassay.rating.source import Source
    from gpuassay.rating.words import Document

MISTAKES = (ConfigError, RatingError, RecordingError, SigningError, SuiteError)


def run(name: str, options: argparse.Namespace, root: Path) -> int:
    """Run one of the commands on the suite in this folder; returns the exit status."""
    call = {"rate": lambda: _rate(options, root), "podium": lambda: _podium(options)}
    try:
        return call.get(name, lambda: _diff(options))()
    except MISTAKES as error:
        print(f"gpuassay: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("gpuassay: interrupted; what was written so far is no rating", file=sys.stderr)
        return 130


def _rate(options: argparse.Namespace, root: Path) -> int:
    interrupt_on_term()  # a judge that runs must not be left alone
    rules = Rules(options.profile, options.site, options.thresholds)
    catalog = load_suite(root, options.thresholds).catalog
    sources = [read_source(place, catalog) for place in options.runs]
    newest = max(sources, key=lambda source: (source.clock, source.digest))
    site = _site(options.site, newest.folder, catalog)
    known = {name for source in sources for name in source.hardware}
    recorded = [record for record in site.replaced if record.old in known]  # it may tell of other years too
    chosen = plan(sources, [*recorded, *(Replaced(*one) for one in options.replaced)])
    cluster = site.cluster or newest.cluster
    assessment = _assessment(options, cluster)
    folder = RunFolder.create(options.out, now()).path
    write_merged(chosen, folder / "merged")
    merged = judge(folder / "merged", folder / "judged", rules)
    alone = len(chosen.sources) == 1
    declared = options.site or (path if (path := newest.folder / "site.toml").is_file() else None)
    each = replace(rules, site=declared)  # by one site file, whatever each has recorded
    runs = [merged] if alone else [_alone(source, folder, each) for source in chosen.sources]
    document = rating(chosen, runs, merged, catalog.tiers, assessment)
    _write(folder / "rating.json", document, rating_page(document))
    print(*told.lines(document), folder / "rating.html", sep="\n")
    return 0


def _assessment(options: argparse.Namespace, cluster: str) -> Assessment | None:
    """Read the assessor's file and who has signed it, before minutes of judging are spent."""
    if options.assessor:
        assessment = load_assessment(options.assessor, cluster)
        return replace(assessment, signature=standing(options.assessor, assessment.sha256, options.key))
    if options.key:
        raise RatingError("--key: of nothing; it tells who must have signed the file of --assessor")
    return None


def _alone(source: Source, folder: Path, rules: Rules) -> Document:
    """Judge one run by itself, by the same numbers."""
    return judge(source.folder, folder / "runs" / source.digest[:12], rules)


def _site(given: Path | None, newest: Path, catalog: Catalog) -> Site:
    """Read the site file that is judged by."""
    path = given or newest / "site.toml"
    return load_site(path, catalog) if given or path.is_file() else undeclared(catalog)


def _podium(options: argparse.Namespace) -> int:
    ratings = [_load(place, "rating.json", "rated") for place in options.ratings]
    earlier = _load(options.earlier, "podium.json", "clusters") if options.earlier else None
    document = podium(ratings, earlier)
    folder = RunFolder.create(options.out, now()).path
    _write(folder / "podium.json", document, podium_page(document))
    for entry in document["clusters"]:
        moved = entry["moved"]["way"] if entry["moved"] else ""
        print(entry["cluster"], entry["tier"] or entry["state"], moved)
    print(document["statement"])
    print(folder / "podium.html")
    return 0


def _diff(options: argparse.Namespace) -> int:
    old, new = (_load(place, "results.json", "checks") for place in (options.old, options.new))
    found = diff.compare(old, new)
    print(_json(found) if options.json else diff.markdown(found), end="")
    return int(bool(found["newly_failing"]))


def _load(place: Path, name: str, key: str) -> Document:
    """Read a document of ours, or that of a folder. Raises RatingError."""
    path = place / name if place.is_dir() else place
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RatingError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise RatingError(f"{path}: is not JSON: {error}") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA or key not in document:
        raise RatingError(f"{path}: expected a {name} of schema {SCHEMA}, with {key} in it")
    return document


def _write(path: Path, document: Mapping[str, Any], page: str) -> None:
    write_atomic(path, _json(document).encode("utf-8", "replace"))
    write_atomic(path.with_suffix(".html"), page.encode("utf-8", "replace"))


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1) + "\n"
