"""The report that is attached to a contract: one page, whole in itself, that asks nothing of the network."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from gpuassay.report import places, view, words
from gpuassay.report.curves import curves
from gpuassay.report.heatmap import heat_map
from gpuassay.report.strips import strips

if TYPE_CHECKING:
    from gpuassay.report.view import Results


def render(results: Results) -> str:
    """Write ``report.html``. The same results give the same bytes: no clock, host or path goes in."""
    environment = page_environment("report.css", "report.js")
    return environment.get_template("report.html.j2").render(
        results=results, heat=heat_map(results), strips=strips(results), curves=curves(results)
    )


@cache
def page_environment(style: str, script: str) -> Environment:
    """Make ready for a page that has this style and script of ours within it, and may have no other."""
    environment = Environment(
        loader=PackageLoader("gpuassay.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = _asset(style), _asset(script)
    environment.globals.update(
        view=view,
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
    return files("gpuassay.report").joinpath("templates", name).read_text(encoding="utf-8")


def _source(text: str) -> str:
    """Name a style or script by its hash, so that nothing else on the page can be either."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
