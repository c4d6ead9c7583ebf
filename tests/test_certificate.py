"""certificate.html: what it tells, and how it behaves in a real browser, on a phone and in print."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.report import certificate
from gpuassay.signing.done import done
from plugging import ROOT
from report_sample import check as sample
from report_sample import results, row
from test_report_browser import wide_document

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from report_sample import Document

FILES = {"results.json": "ab" * 32, "SHA256SUMS": "cd" * 32, "recording/nodes/gpu001.jsonl": "ef" * 32}
MEASURED = ROOT / "fixtures" / "recorded" / "hgx-b200-measured" / "recording"


def told(**more: Any) -> certificate.Told:
    """Make what a certificate tells beside the results."""
    fields = {"key": "12" * 32, "since": "2026-11-30", "until": "2027-02-28", "files": FILES, **more}
    return certificate.Told(**fields)


def test_it_tells_what_limits_it() -> None:
    """Waivers, relaxed and provisional limits, not run, unseen by seat, validity and sums are on the page."""
    waiver = {
        "check": "audit.health.ecc",
        "where": "gpu001",
        "until": "2027-01-01",
        "reason": "agreed in the contract",
        "state": "used",
        "rows": 1,
    }
    change = {"check": "audit.host.memlock", "metric": "soft_gib", "from": "at least 64", "to": "at least 8"}
    document = results(waivers=[waiver], stamps=[{"stamp": "relaxed", "why": "1 limit is looser"}])
    document["suite"]["relaxed"] = [change]
    document["checks"]["perf.gemm.fp8"] = sample(row("gpu001", "warn", reason="slow", provisional=True))
    page = certificate.render(document, told())
    for words in (
        "agreed in the contract",
        "Relaxed limits",
        "at least 8",
        "Not in order by provisional limits",
        "Needs --allow=load",
        "the host below the virtual machine or the container",
        "Valid until",
        "2027-02-28",
        FILES["SHA256SUMS"],
        document["recording"]["digest"],
        "12" * 32,
        "Right of reply",
        "held to no plan",
    ):
        assert words in page, words


def test_the_same_words_give_the_same_bytes() -> None:
    """No clock, host or path goes in."""
    assert certificate.render(results(), told()) == certificate.render(results(), told())


def test_it_tells_what_was_run() -> None:
    """Workloads with their arguments and versions, and the image, each once however many nodes ran it."""
    listed = done(MEASURED)
    gemm = [one for one in listed if one["name"] == "gemm_bf16"]
    assert len(gemm) == 1
    assert gemm[0]["ran"].startswith("gemm format=bfloat16")
    assert "torch 2.13.0+cu130" in gemm[0]["versions"]
    page = certificate.render(results(), told(done=listed))
    assert gemm[0]["ran"] in page
    assert done(MEASURED / "nowhere") == []


def opened(browser: Browser, path: Path, document: Document, **how: Any) -> tuple[Page, list[str]]:
    """Open a certificate; give the page, and all that it asked for and complained of."""
    page = browser.new_page(**how)
    heard: list[str] = []
    page.on("request", lambda request: heard.append(request.url))
    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    path.write_text(certificate.render(document, told(done=done(MEASURED))), encoding="utf-8")
    page.goto(path.as_uri())
    return page, heard


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_runs_over_the_edge(browser: Browser, tmp_path: Path, width: int) -> None:
    """It loads itself alone, complains of nothing, and scrolls sideways nowhere, whatever the names."""
    viewport = {"width": width, "height": 800}
    page, heard = opened(browser, tmp_path / "certificate.html", wide_document(), viewport=viewport)
    assert heard == [page.url]
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.close()


def test_it_prints_on_a4(browser: Browser, tmp_path: Path) -> None:
    """The PDF has A4 pages; the room for an answer and for signatures is not cut apart."""
    viewport = {"width": 680, "height": 900}
    page, _ = opened(browser, tmp_path / "certificate.html", wide_document(), viewport=viewport)
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") == 680
    marked = "[...document.querySelectorAll('.reply, .sign')]"
    kept = f"{marked}.every(each => getComputedStyle(each).breakInside === 'avoid')"
    assert page.locator(".reply").count() > 0
    assert page.evaluate(kept)
    pdf = page.pdf(prefer_css_page_size=True)
    assert b"/MediaBox [0 0 594.95996 841.91998]" in pdf
    page.close()
