"""Where nodes take packages from, as the site file says: a folder of wheels, or an index of its own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuassay.judge.address import ADDRESS
from gpuassay.judge.config import TEXT, Kind, items

if TYPE_CHECKING:
    from gpuassay.judge.config import Table


@dataclass(frozen=True)
class Packages:
    """Where nodes take packages from, a folder of wheels or an index, and what is installed for a trial."""

    wheels: str
    index: str
    install: tuple[str, ...]


def _requirement(value: object) -> str:
    """Read what pip is asked for; an option of pip, or an address, is none."""
    text = TEXT.read(value)
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*(\[[\w,.-]+\])?(==[\w.+!-]+)?", text):
        raise ValueError
    return text


_REQUIREMENT = Kind("a package such as torch or torch==2.13.0", _requirement, "")


def read_packages(table: Table) -> Packages:
    """Read ``[packages]``."""
    wheels, index = table.take("wheels", TEXT, ""), table.take("index", ADDRESS, "")
    if bool(wheels) == bool(index):
        table.wrong("", "expected a folder of `wheels` or an `index`, and one of them only")
    elif wheels and not wheels.startswith("/"):
        table.wrong("wheels", f"expected a path from the root, such as /data/bundle/wheels; found {wheels}")
    packages = Packages(wheels, index, tuple(table.take("install", items(_REQUIREMENT, least=1), ("torch",))))
    table.close()
    return packages
