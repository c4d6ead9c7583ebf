"""Run the few tests once more, alone, that failed beside others.

Usage: again.py JUNIT.xml

Tests that start nodes, daemons and ranks wait by the clock for real processes, on a machine that others use
as well. Where no more than three tests failed, they have to pass now, with nothing beside them. Which ones
these were is printed: one that passes only alone is to be mended. The exit status is 1 where more failed than
that, or where one of them fails again.
"""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST = 3


def main(junit: Path) -> int:
    """Run them again if they are few; returns the exit status."""
    names = list(failed(junit)) if junit.exists() else []  # there is none where the run was cut
    if not names or len(names) > MOST:
        return 1
    sys.stdout.write("\n".join(["failed beside other tests, and are run again alone:", *names, ""]))
    sys.stdout.flush()
    return subprocess.run([sys.executable, "-m", "pytest", *names], check=False).returncode  # noqa: S603 - tests of ours


def failed(junit: Path) -> Iterator[str]:
    """Name each test that failed, as pytest takes it."""
    for case in ET.parse(junit).iter("testcase"):  # noqa: S314 - written by the step before
        if case.find("failure") is not None or case.find("error") is not None:
            yield f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
