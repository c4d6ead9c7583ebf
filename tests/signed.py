"""A small run that is signed: for the tests of what people sign."""

from __future__ import annotations

import shutil
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from gpuassay.evidence.run import RunFolder
from gpuassay.signing import keys
from gpuassay.signing.certify import certify
from gpuassay.signing.verify import Asked, verify
from plugging import FLEET, check, more, pytest_process, write_suite

if TYPE_CHECKING:
    import pytest

DAY = date(2026, 12, 1)
"""A day after the recorded clusters were made, on which a certificate of 90 days holds."""


def run_with_recording(folder: Path, *words: str) -> Path:
    """Judge three checks on four nodes; the recording lies in the folder, as a live run leaves it."""
    bodies = check() + check(name="c") + check("observe(fleet.nodes[0], value=0)", name="d")
    write_suite(folder, {"a": bodies}, more("c", "d"))
    done = pytest_process(folder, f"--target=recording:{FLEET}", *words, "tests_audit")
    assert done.status in (0, 1), done.output
    run = RunFolder(folder / "run")
    shutil.copytree(FLEET, run.recording)
    run.seal()
    return run.path


class Signed:
    """A run, the two keys of a signer, and what ``verify`` says of it."""

    def __init__(self, run: Path, key: Path) -> None:
        """Take a run that lies where it may be changed."""
        self.run = run
        self.key = key
        self.public = Path(f"{key}.pub")

    def sign(self, days: int = 90, replies: Path | None = None) -> Path:
        """Certify it."""
        return certify(self.run, self.key, timedelta(days=days), replies)

    def problems(
        self, *public: Path, place: Path | None = None, on: date = DAY, plan: Path | None = None
    ) -> list[str]:
        """Verify it, by default by its signer's own key."""
        known = tuple(keys.public_key(path) for path in public or (self.public,))
        return verify(place or self.run, Asked(known, on, plan))

    def copy(self, to: Path) -> Signed:
        """Copy it, to be spoiled."""
        shutil.copytree(self.run, to)
        return Signed(to, self.key)


def signed(made: pytest.TempPathFactory, *words: str) -> Signed:
    """Make a run and sign it."""
    folder = made.mktemp("signed")
    keys.generate(folder / "key")
    one = Signed(run_with_recording(folder, *words), folder / "key")
    one.sign()
    return one
