"""The pages of the documentation: their commands are run, and print what the page shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest

from plugging import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PAGES = ("docs/tutorial.md", "docs/for-tenants.md", "docs/for-providers.md", "docs/for-raters.md")
ELSEWHERE = {
    "README.md": "its two blocks by .ci/run, from nothing",
    "docs/recording.md": "by test_evidence_docs.py",
    "docs/sla.md": "by test_sla_docs.py",
}
BLOCK = re.compile(r"^```(sh|output)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ENDS = re.compile(r"# ends with (\d)$", re.MULTILINE)


class Block(NamedTuple):
    """Commands of a page, how the last of them ends, and lines that they print."""

    script: str
    status: int
    shown: list[str]


def blocks(page: str) -> list[Block]:
    """Read the blocks of a page in their order."""
    found: list[Block] = []
    for kind, text in BLOCK.findall((ROOT / page).read_text(encoding="utf-8")):
        if kind == "sh":
            ends = ENDS.findall(text)
            found.append(Block(text, int(ends[-1]) if ends else 0, []))
        else:
            found[-1].shown.extend(line.strip() for line in text.splitlines())
    return found


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Copy this repository as somebody has it who has just cloned and installed it."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / name)
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    main = "-c 'import sys; from gpuassay.cli import main; sys.exit(main())'"
    for name, words in {"python": "", "pytest": "-m pytest", "gpuassay": main}.items():
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n', encoding="utf-8")
        (programs / name).chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("page", PAGES)
def test_each_command_does_what_the_page_says(page: str, clone: Path) -> None:
    """Run from top to bottom in a fresh clone, each block ends and prints as it says."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    environment |= {"PYTHONPATH": str(clone / "src"), "COLUMNS": "120", "PYTHONDONTWRITEBYTECODE": "1"}
    told = blocks(page)
    assert told
    for block in told:
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", block.script],
            cwd=clone,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == block.status, f"{block.script}\n{done.stdout}"
        lines = iter(done.stdout.splitlines())
        for shown in block.shown:
            assert any(shown in line for line in lines), (
                f"{block.script}\nlacks, in this order: {shown}\n{done.stdout}"
            )


def test_no_command_goes_untried() -> None:
    """A page of the documentation has `sh` blocks only where something runs them; else they are `text`."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    # What was measured on a day tells by which command; nobody measures it again.
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    held = {
        name
        for name in names
        if not name.startswith("docs/measured/") and "```sh\n" in (ROOT / name).read_text(encoding="utf-8")
    }
    assert held == {*PAGES, *ELSEWHERE}
