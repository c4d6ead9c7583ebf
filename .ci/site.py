"""Build the documentation as a static site in build/site; fails on a link that leads nowhere.

The pages are the Markdown files of this repository, at the same places, so that a link is right on the site
where it is right in the repository. Nothing is loaded from anywhere else.

Usage: site.py [FOLDER]
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from markdown_it.token import Token

ROOT = Path(__file__).parents[1]
TEMPLATES = Path(__file__).with_name("site_templates")
NAV = {
    "Start": ("README.md", "docs/tutorial.md"),
    "For whom": ("docs/for-tenants.md", "docs/for-providers.md", "docs/for-raters.md"),
    "Use": ("docs/targets.md", "docs/failure-injection.md", "docs/recipes/README.md"),
    "Agree and rate": ("docs/certificate.md", "docs/sla.md", "docs/rating.md"),
    "Reference": ("docs/checks.md", "docs/reference.md", "docs/thresholds.md", "docs/recording.md"),
    "Project": (
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "docs/decisions.md",
        "docs/measured/README.md",
        "fixtures/recorded/README.md",
    ),
}
"""What the menu shows. Every other page that a page links to is built too."""

_OUTSIDE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


class Broken(Exception):  # noqa: N818 - it is what the links are
    """Links lead nowhere; ``str`` has a line for each."""


@dataclass(frozen=True)
class Page:
    """A page: where it stands in the repository, its title, what it says, and the anchors in it."""

    path: PurePosixPath
    title: str
    tokens: Sequence[Token]
    anchors: frozenset[str]

    @property
    def address(self) -> str:
        """Where it stands on the site."""
        name = "index" if self.path.name == "README.md" else self.path.stem
        return str(self.path.with_name(f"{name}.html"))


def build(root: Path, folder: Path, nav: Mapping[str, Sequence[str]] = NAV) -> list[str]:
    """Build all pages that the menu and other pages lead to; gives their addresses. Raises Broken."""
    markdown = _markdown()
    pages = _reachable(root, markdown, [PurePosixPath(name) for names in nav.values() for name in names])
    broken: list[str] = []
    shutil.rmtree(folder, ignore_errors=True)
    environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined)
    template = environment.get_template("page.html.j2")
    for page in pages.values():
        for link, attribute, token in _links(page.tokens):
            target, why = _resolve(root, pages, page, link)
            if why:
                broken.append(f"{page.path}: {link}: {why}")
            token.attrSet(attribute, _address(root, folder, pages, page, target) if target else link)
        body = markdown.renderer.render(page.tokens, markdown.options, {})
        menu = {
            part: [
                (pages[PurePosixPath(name)], _between(page, pages[PurePosixPath(name)].address))
                for name in names
            ]
            for part, names in nav.items()
        }
        place = folder / page.address
        place.parent.mkdir(parents=True, exist_ok=True)
        text = template.render(page=page, body=Markup(body), menu=menu, css=_between(page, "site.css"))  # noqa: S704 - of our own
        place.write_text(text, encoding="utf-8")
    if broken:
        raise Broken("\n".join(broken))
    shutil.copy(TEMPLATES / "site.css", folder)
    return [page.address for page in pages.values()]


def _markdown() -> MarkdownIt:
    """Read Markdown as GitHub shows it; what is wider than the page scrolls by itself, also by keys."""
    markdown = MarkdownIt("commonmark").enable("table")
    render = markdown.renderer.rules["fence"]
    rules = {
        "table_open": lambda *_: '<div class="table" tabindex="0"><table>\n',
        "table_close": lambda *_: "</table></div>\n",
        "fence": lambda *given: str(render(*given)).replace("<pre>", '<pre tabindex="0">', 1),
    }
    markdown.renderer.rules.update(rules)
    return markdown


def _reachable(root: Path, markdown: MarkdownIt, first: list[PurePosixPath]) -> dict[PurePosixPath, Page]:
    """Read the pages of the menu, and those to which links lead from there."""
    pages: dict[PurePosixPath, Page] = {}
    left = list(first)
    while left:
        path = left.pop(0)
        if path not in pages:
            page = pages[path] = _read(root, markdown, path)
            targets = [_target(root, page, link)[0] for link, _, _ in _links(page.tokens)]
            left += [one for one in targets if one and one.suffix == ".md" and (root / one).is_file()]
    return pages


def _read(root: Path, markdown: MarkdownIt, path: PurePosixPath) -> Page:
    tokens = markdown.parse((root / path).read_text(encoding="utf-8"))
    title, anchors = "", []
    for token, inline in pairwise(tokens):
        if token.type == "heading_open":
            words = "".join(child.content for child in inline.children or ())
            title = title or words
            token.attrSet("id", _anchor(words, anchors))
            anchors.append(str(token.attrGet("id")))
    for token, inline, end in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if token.type == "th_open" and not inline.content:
            token.tag = end.tag = "td"  # a corner that heads nothing
    return Page(path, title or path.stem, tokens, frozenset(anchors))


def _anchor(words: str, taken: Sequence[str]) -> str:
    """Name a heading as GitHub does, so that links fit on both."""
    name = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
    again = [one for one in taken if one == name or re.fullmatch(rf"{re.escape(name)}-\d+", one)]
    return f"{name}-{len(again)}" if name in taken else name


def _links(tokens: Sequence[Token]) -> Iterator[tuple[str, str, Token]]:
    """Go through links and images: where each leads, and the attribute that says so."""
    for token in tokens:
        for attribute in ("href", "src"):
            if link := token.attrGet(attribute):
                yield str(link), attribute, token
        yield from _links(token.children or ())


def _target(root: Path, page: Page, link: str) -> tuple[PurePosixPath | None, str]:
    """Give the file of the repository that a link means, and the anchor; None for what lies outside."""
    if _OUTSIDE.match(link):
        return None, ""
    name, _, anchor = link.partition("#")
    path = PurePosixPath(os.path.normpath(page.path.parent / name)) if name else page.path
    return (path / "README.md" if (root / path).is_dir() else path), anchor


def _resolve(root: Path, pages: Mapping[PurePosixPath, Page], page: Page, link: str) -> tuple[str, str]:
    """Give where a link leads within the repository, anchor and all, and what is wrong with it."""
    path, anchor = _target(root, page, link)
    if path is None:
        return "", ""
    if path.parts[0] == ".." or not (root / path).is_file():
        return "", "there is no such file"
    if anchor and anchor not in (pages[path].anchors if path in pages else ()):
        return "", f"{path} has no heading of that name"
    return f"{path}#{anchor}" if anchor else str(path), ""


def _address(root: Path, folder: Path, pages: Mapping[PurePosixPath, Page], page: Page, target: str) -> str:
    """Give the address of a page; what is no page is copied to the site."""
    name, mark, anchor = target.partition("#")
    path = PurePosixPath(name)
    if path in pages:
        return _between(page, pages[path].address) + mark + anchor
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(root / path, folder / path)
    return _between(page, name)


def _between(page: Page, address: str) -> str:
    """Give the way from a page to an address."""
    return os.path.relpath(address, PurePosixPath(page.address).parent)


def main() -> int:
    """Build the site; returns the exit status."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "site"
    try:
        pages = build(ROOT, folder)
    except Broken as broken:
        print(broken, file=sys.stderr)
        return 1
    print(f"{folder}: {len(pages)} pages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
