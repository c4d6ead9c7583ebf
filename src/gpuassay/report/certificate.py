"""The certificate: what people sign. One page, whole in itself, that a browser prints as a PDF."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpuassay.report.html import drawn, page_environment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.report.view import Results


@dataclass(frozen=True, slots=True)
class Told:
    """What a certificate tells beside the results.

    ``files`` maps every file of the run to its SHA-256; ``replies`` maps a check to what was answered to
    it; ``done`` lists what was run, with its image and versions; ``redacted`` is the page's own sentence
    where names were replaced.
    """

    key: str
    since: str
    until: str
    files: Mapping[str, str]
    replies: Mapping[str, Sequence[Mapping[str, str]]] = field(default_factory=dict)
    done: Sequence[Mapping[str, Any]] = ()
    redacted: str = ""


def render(results: Results, told: Told) -> str:
    """Write ``certificate.html``. The same results and words give the same bytes."""
    template = page_environment("report.css").get_template("certificate.html.j2")
    return template.render(results=results, told=told, **drawn(results))
