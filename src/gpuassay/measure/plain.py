"""What launchers and terminals put around the lines of a tool, taken off."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# mpirun --tag-output, torchrun, srun -l
_TAG = re.compile(r"^(?:\[\d+,\d+\]<std(?:out|err)>:|\[rank\d+\]:|\s*\d+: (?=[ #]))\s?")


def lines(text: str) -> Iterator[str]:
    """Yield the lines as the tool wrote them: the last state of each, none that is blank."""
    for line in text.replace("\r\n", "\n").split("\n"):
        clean = _TAG.sub("", _COLOUR.sub("", line.rsplit("\r", 1)[-1])).rstrip()
        if clean.strip():
            yield clean
