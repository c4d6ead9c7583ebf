"""Where a provider's messages about a node would be seen, as a site file declares it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuassay.judge.config import TEXT

if TYPE_CHECKING:
    from gpuassay.judge.config import Table

_LISTEN = re.compile(r"(?:[\w.-]+|\[[0-9A-Fa-f:]+\]):[1-9][0-9]{0,4}")


@dataclass(frozen=True)
class Notices:
    """``listen`` is ADDRESS:PORT for a receiver of our own, ``ticket`` a file or an address that is read."""

    listen: str = ""
    ticket: str = ""


def read_notices(table: Table) -> Notices:
    """Read the table ``[notices]``."""
    listen, ticket = table.take("listen", TEXT, ""), table.take("ticket", TEXT, "")
    if listen and not _LISTEN.fullmatch(listen):
        table.wrong("listen", f"expected ADDRESS:PORT such as 10.0.0.5:9099, found {listen}")
    if ticket and not ticket.startswith(("/", "https://", "http://")):
        table.wrong("ticket", f"expected a path from the root or an address, found {ticket}")
    table.close()
    return Notices(listen, ticket)
