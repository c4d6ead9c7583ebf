"""The documentation as a site: links lead somewhere, nothing is loaded from elsewhere, it fits a phone."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest

from accessible import assert_accessible
from gpuassay.judge.catalog import load_catalog
from gpuassay.judge.config import ConfigError
from gpuassay.judge.site import load_site
from plugging import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Page

CHROMIUM = shutil.which("chromium")
WIDTHS = (1280, 420)
REFERENCE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")


def _builder() -> Any:
    """Load .ci/site.py, whose name Python's own ``site`` has."""
    spec = importlib.util.spec_from_file_location("docs_site", ROOT / ".ci" / "site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its dataclass looks
    spec.loader.exec_module(module)
    return module


builder = _builder()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site of this repository."""
    folder: Path = tmp_path_factory.mktemp("site") / "site"
    builder.build(ROOT, folder)
    return folder


class Loads(HTMLParser):
    """Notes what a page has the browser load, and where its links lead."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the addresses of an element."""
        for name, value in attrs:
            if name in ("src", "srcset", "href", "data"):
                (self.links if tag == "a" else self.loads).append(value or "")


def pages(folder: Path) -> Iterator[tuple[Path, Loads]]:
    """Read every page of a site."""
    for path in sorted(folder.rglob("*.html")):
        yield path, Loads(path.read_text(encoding="utf-8"))


def test_every_page_is_whole(site: Path) -> None:
    """Links of the built pages lead to files of the site; all that is loaded is of the site."""
    names = {str(path.relative_to(site)) for path, _ in pages(site)}
    assert {"index.html", "docs/tutorial.html", "docs/checks.html", "docs/recipes/index.html"} <= names
    told = {str(path.relative_to(ROOT).with_suffix(".html")) for path in (ROOT / "docs").rglob("*.md")}
    assert {name.replace("README.html", "index.html") for name in told} <= names, "a link leads to each"
    for path, page in pages(site):
        inner = [link for link in page.links if not link.startswith(("https://", "http://", "#"))]
        assert inner
        for link in [*inner, *(load for load in page.loads if load != "data:,")]:
            assert (path.parent / link.partition("#")[0]).is_file(), f"{path}: {link}"


def test_the_menu_says_where_one_is(site: Path) -> None:
    """Each page of the menu marks itself there, once; every page leads to all of them."""
    menu = [name for names in builder.NAV.values() for name in names]
    marked = [path for path, _ in pages(site) if path.read_text(encoding="utf-8").count("aria-current") == 1]
    assert len(marked) == len(menu)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[a](gone.md)", "README.md: gone.md: there is no such file"),
        ("[a](#gone)", "README.md: #gone: README.md has no heading of that name"),
        ("[a](b.md#two)", "README.md: b.md#two: b.md has no heading of that name"),
        ("![a](gone.png)", "README.md: gone.png: there is no such file"),
        ("[a](../etc)", "README.md: ../etc: there is no such file"),
        ("[a](b.md)", "b.md: gone.md: there is no such file"),
    ],
)
def test_a_link_that_leads_nowhere_is_named(tmp_path: Path, text: str, told: str) -> None:
    """A page, heading or image that is not there fails the build, also on pages that only links lead to."""
    (tmp_path / "README.md").write_text(f"# A\n\n{text}\n", encoding="utf-8")
    (tmp_path / "b.md").write_text(f"# One\n{'[c](gone.md)' if '(b.md)' in text else ''}", encoding="utf-8")
    with pytest.raises(builder.Broken, match=re.escape(told)):
        builder.build(tmp_path, tmp_path / "site", {"": ["README.md"]})


def test_a_heading_that_comes_twice_has_two_anchors(tmp_path: Path) -> None:
    """As on GitHub, the second is numbered; code and signs in a heading do not matter."""
    text = "# A\n\n## `--x` it's?\n\n## B\n\n## B\n\n[1](#b) [2](#b-1) [3](#--x-its)\n"
    (tmp_path / "README.md").write_text(text, encoding="utf-8")
    assert builder.build(tmp_path, tmp_path / "site", {"": ["README.md"]}) == ["index.html"]


def test_the_reference_has_every_table_of_a_site_file(tmp_path: Path) -> None:
    """What the reader of site files says that it knows is what the reference tells of."""
    path = tmp_path / "site.toml"
    path.write_text('[unheard]\n[cluster]\nname = "x"\n[[pool]]\nnodes = "n1"\n', encoding="utf-8")
    catalog = load_catalog(ROOT / "thresholds.toml", ROOT / "advisories.toml")
    with pytest.raises(ConfigError, match="unheard") as raised:
        load_site(path, catalog)
    known = re.search(r"expected one of ([\w, ]+)", str(raised.value))
    assert known is not None
    told = {re.split(r"\W+", name)[1] for name in re.findall(r"^### `(\[.*\])`$", REFERENCE, re.MULTILINE)}
    # A few are asked for only where they are there.
    assert set(known[1].split(", ")) <= told


@pytest.fixture(scope="module")
def browser_page() -> Iterator[Page]:
    """Open a browser."""
    if CHROMIUM is None:
        pytest.skip("Chromium is absent: apt-get install chromium")
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is absent: pip install playwright"
    )
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser.new_page()
        browser.close()


@pytest.mark.timeout(900)
def test_axe_finds_nothing(site: Path, browser_page: Page) -> None:
    """Contrast, names, headings, tables, keyboard: all pages, and some on a phone, in the dark, on paper."""
    others: list[tuple[int, dict[str, Any]]] = [
        (400, {}),
        (1280, {"color_scheme": "dark"}),
        (794, {"media": "print"}),
    ]
    for path, _ in pages(site):
        some = path.stem in ("index", "sla", "rating", "tutorial") and path.parent.name in ("site", "docs")
        for width, how in [(1280, {}), *(others if some else [])]:
            browser_page.set_viewport_size({"width": width, "height": 900})
            browser_page.emulate_media(media="screen", color_scheme="light")
            browser_page.emulate_media(**how)
            browser_page.goto(path.as_uri())
            assert_accessible(browser_page)
    browser_page.emulate_media(media="screen", color_scheme="light")


def test_pages_fit_and_load_nothing_else(site: Path, browser_page: Page) -> None:
    """Wide or narrow, no page is wider than the window, and every request is for a file of the site."""
    asked: list[str] = []
    browser_page.on("request", lambda request: asked.append(request.url))
    for path, _ in pages(site):
        for width in WIDTHS:
            browser_page.set_viewport_size({"width": width, "height": 900})
            browser_page.goto(path.as_uri())
            wide = browser_page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{path.name} is {wide} wide at {width}"
    assert asked
    assert [url for url in asked if not url.startswith((site.as_uri(), "data:"))] == []
