"""Make recorded clusters by hand: ``python tests/recorded [NAME…]``."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS.parent / "src")]

from recorded import build, commit, healthy  # noqa: E402 - a folder that is run finds nothing but itself

for name in sys.argv[1:]:
    sys.stdout.write(f"{build(name)}\n")
if not sys.argv[1:]:
    for name in healthy():
        commit(name)
