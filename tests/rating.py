"""Ratings in this process, by the judge of recorded clusters in place of a pytest run of its own."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from gpuassay.rating.document import rating
from gpuassay.rating.merge import plan
from gpuassay.rating.source import read_source
from gpuassay.rating.write import write_merged
from gpuassay.suite import load_suite
from recorded.judge import ROOT, judge

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpuassay.judge.catalog import Catalog
    from gpuassay.judge.waivers import Replaced
    from gpuassay.rating.assessor import Assessment


@cache
def catalog() -> Catalog:
    """Read the tables of the suite once."""
    return load_suite(ROOT).catalog


def rate(
    runs: Sequence[Path],
    folder: Path,
    replaced: Sequence[Replaced] = (),
    assessment: Assessment | None = None,
) -> dict[str, Any]:
    """Rate runs; the merged recording is written into a new folder."""
    chosen = plan([read_source(run, catalog()) for run in runs], replaced)
    write_merged(chosen, folder)
    merged = judge(folder).results
    each = [judge(source.folder).results for source in chosen.sources] if len(runs) > 1 else [merged]
    return rating(chosen, each, merged, catalog().tiers, assessment)
