"""The report that is attached to a contract: one page, whole in itself, that asks nothing of the network."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from gpuassay.report import causes, places, view, words
from gpuassay.report.bars import bars
from gpuassay.report.curves import curves
from gpuassay.report.heatmap import heat_map
from gpuassay.report.series import pictures
from gpuassay.report.strips import strips
from gpuassay.report.sweeps import sweeps
from gpuassay.report.timeline import MOMENTS, timelines

if TYPE_CHECKING:
    from gpuassay.report.view import Results


def render(results: Results) -> str:
    """Write ``report.html``. The same results give the same bytes: no clock, host or path goes in."""
    environment = page_environment("report.css", "report.js sort.js")
    return environment.get_template("report.html.j2").render(results=results, **drawn(results))


def drawn(results: Results) -> dict[str, Any]:
    """Draw all pictures that a page about a run has."""
    return {
        "heat": heat_map(results),
        "strips": strips(results),
        "curves": curves(results),
        "pictures": pictures(results),
        "sweeps": sweeps(results),
        "bars": bars(results),
        "timelines": timelines(results),
        "moments": MOMENTS,
    }


@cache
def page_environment(style: str, script: str = "") -> Environment:
    """Make ready for a page that has this style and script of ours within it, and may have no other.

    Each is a file's name, or several with spaces between them.
    """
    environment = Environment(
        loader=PackageLoader("gpuassay.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = _asset(style), _asset(script) if script else ""
    environment.globals.update(
        view=view,
        causes=causes,
        words=words,
        style=Markup(style),  # noqa: S704 - our own file, not data
        script=Markup(script),  # noqa: S704 - our own file, not data
        policy=f"default-src 'none'; style-src {_source(style)}; script-src {_source(script)}",
    )
    environment.filters.update(
        by_cause=view.by_cause, shorten=places.shorten, value=words.value, sentence=words.sentence
    )
    return environment


def _asset(name: str) -> str:
    folder = files("gpuassay.report").joinpath("templates")
    return "\n".join(folder.joinpath(one).read_text(encoding="utf-8") for one in name.split())


def _source(text: str) -> str:
    """Name a style or script by its hash, so that nothing else on the page can be either."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
