"""Fail when a test was skipped for a reason that `.ci/skips.txt` does not list.

Usage: skips.py JUNIT.xml
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

LISTED = Path(__file__).with_name("skips.txt")


def main(junit: str) -> int:
    """Print each skip that is not listed; returns the exit status."""
    lines = LISTED.read_text(encoding="utf-8").splitlines()
    reasons = [re.compile(line) for line in lines if line and not line.startswith("#")]
    unlisted = []
    for case in ET.parse(junit).iter("testcase"):  # noqa: S314 - written by the step before
        for skipped in case.iter("skipped"):
            message = skipped.get("message", "")
            if not any(reason.search(message) for reason in reasons):
                unlisted.append(f"{case.get('classname')}::{case.get('name')}: {message}")
    print("\n".join(unlisted) or "no test was skipped without a listed reason")
    return 1 if unlisted else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
