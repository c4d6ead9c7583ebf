"""What every fault has, and how it says that it cannot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SOON_S = 20.0
_BURY_S = 1.0


class Refused(Exception):  # noqa: N818 - it is a decision, and no error
    """It may not be done here, and nothing has been touched; says why."""


class Blocked(Exception):  # noqa: N818 - the provider's defence, or ours
    """It was tried and did not take hold, for which the provider is not to blame; says what was seen."""


class NotRestored(Exception):  # noqa: N818 - the worst end of a trial
    """What was broken is not as it was; says what differs."""


class Plan(NamedTuple):
    """What will be done to a node.

    ``does`` and ``undoes`` are sentences with the exact commands or writes; ``undoes`` is empty where there
    is no undo, and ``warns`` then says what follows. ``expects`` is what the provider's tooling can see of
    it. ``state`` is all that undoing needs to know of how it was.
    """

    does: tuple[str, ...]
    undoes: tuple[str, ...]
    expects: str
    state: dict[str, Any]
    warns: tuple[str, ...] = ()


class Fault(Protocol):
    """One way to break something. Paths begin at ``root``.

    ``args`` are those of its table, what the site file tells every fault (``breaking.told``), and ``mark``,
    the name of the trial.
    """

    def __init__(self, args: Mapping[str, Any], root: str = "/") -> None:
        """Only hold."""

    def plan(self) -> Plan:
        """Look, and say what would be done. Changes nothing. Raises Refused."""

    def inject(self, state: Mapping[str, Any]) -> None:
        """Break it. Raises Blocked."""

    def verify_injected(self, state: Mapping[str, Any]) -> str:
        """Say what proves that it is broken, seen by another way than it was broken. Raises Blocked."""

    def undo(self, state: Mapping[str, Any]) -> None:
        """Mend what was broken, however often it is called, and nothing that others have changed since."""

    def verify_undone(self, state: Mapping[str, Any]) -> str:
        """Say what proves that it is as it was. Raises NotRestored."""


def boot_id() -> str:
    """Give the identity of this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def run(*argv: str, patience_s: float = SOON_S) -> tuple[int, str]:
    """Run a command to its end, and give its exit status and all that it said; 127 where it is not there.

    One that cannot be killed, for a device does not answer it, is left behind.
    """
    try:
        process = subprocess.Popen(  # noqa: S603 - an argument list of our own
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    except FileNotFoundError:
        return 127, f"{argv[0]}: not found"
    except OSError as error:
        return 126, str(error)
    try:
        said, _ = process.communicate(timeout=patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=_BURY_S)
        return 126, f"{argv[0]}: no answer for {patience_s:.0f} s"
    return process.returncode, said.decode(errors="replace").strip()


def need_root() -> None:
    """Go on as root only. Raises Refused."""
    if os.geteuid() != 0:
        raise Refused(f"it takes root on the node, and this runs as user {os.geteuid()}")


def answer(verb: str, act: Callable[[], dict[str, Any]]) -> int:
    """Do one act, and print its document. What goes wrong is said in there, so the status is 0."""
    try:
        said = act()
    except Refused as why:
        said = {"refused": str(why)}
    except Blocked as why:
        said = {"blocked": str(why)}
    except NotRestored as why:
        said = {"not_restored": str(why)}
    except Exception as error:  # noqa: BLE001 - whatever it is, it is to be told and not lost
        said = {"failed": f"{type(error).__name__}: {error}"[:500]}
    sys.stdout.write(json.dumps({"verb": verb, "clock": round(time.time(), 3), **said}) + "\n")
    sys.stdout.flush()
    return 0
