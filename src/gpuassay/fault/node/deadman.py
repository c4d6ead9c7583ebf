"""The dead-man: it undoes a fault on the node at its time, whoever else is still alive then.

It is armed, and seen to live on, before anything is broken. With systemd it is a timer of PID 1; else a
process that has left its session and, as far as it may, the control groups of the job that started it. What
it needs lies in a folder of its own below /run, which a boot empties: a fault that a boot mends needs no
undo.

Whoever stands down, or has undone, takes the mark ``armed`` away. It is done once all is seen to be
mended: an undo that is cut half-way, as by SIGKILL, leaves the dead-man to do it. He removes his folder when
he is done.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuassay.fault.node.words import Refused, run

if TYPE_CHECKING:
    from collections.abc import Iterator

_PREFIX = "gpuassay-fault-"
COMMAND = "import sys;exec(sys.stdin.buffer.readline())"
# Once it is undone, or is not to be, nobody needs the folder any more; what failed keeps it, for `sweep`.
_FIRE = (
    'sleep "$1"; cd "$2" || exit; "$3" -I -S -B -c "$4" <undo >outcome 2>&1; [ -e armed ] || rm -rf -- "$2"'
)


def folder(mark: str, root: str = "/run") -> Path:
    """Give the place of a dead-man."""
    return Path(root) / f"{_PREFIX}{mark}"


def others(root: str = "/run") -> list[str]:
    """Name the dead-men that are here, armed or not cleared away."""
    return sorted(path.name.removeprefix(_PREFIX) for path in Path(root).glob(f"{_PREFIX}*"))


def arm(mark: str, hold_s: float, undo: bytes) -> str:
    """Have ``undo``, a packed program, run in ``hold_s`` seconds; say by what. Raises Refused."""
    place = folder(mark)
    try:
        place.mkdir(mode=0o700)
        (place / "undo").write_bytes(undo)
        known = _by_systemd(mark, hold_s) or _by_process(place, hold_s)
        (place / "armed").write_text(json.dumps(known), encoding="utf-8")
    except OSError as error:
        shutil.rmtree(place, ignore_errors=True)
        raise Refused(f"no dead-man can be left on the node: {place}: {error.strerror}") from error
    return str(known["by"])


def alive(mark: str) -> str:
    """Say what an armed dead-man is. Raises Refused where there is none: then nothing may be broken."""
    try:
        known = json.loads((folder(mark) / "armed").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Refused(f"the dead-man is not armed: {error}") from error
    if "unit" in known:
        _, said = run("systemctl", "is-active", f"{known['unit']}.timer")
        lives = said == "active"
    else:
        lives = _started(known["pid"]) == known["started"]
    if not lives:
        raise Refused(f"the dead-man has died with what started it: {known['by']}")
    return str(known["by"])


def is_armed(mark: str) -> bool:
    """Tell whether nobody has undone yet, nor told it to stand down."""
    return (folder(mark) / "armed").exists()


def claim(mark: str) -> bool:
    """Say that it is undone, or is not to be; tell whether nobody has said so before."""
    try:
        (folder(mark) / "armed").rename(folder(mark) / "claimed")
    except OSError:
        return False
    return True


@contextmanager
def alone(mark: str) -> Iterator[None]:
    """Let nobody else undo the same fault meanwhile. Who is killed here lets go: the other undoes then."""
    try:
        lock = (folder(mark) / "undo").open("rb")
    except OSError:  # cleared away: there is nobody else
        yield
        return
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def outcome(mark: str) -> dict[str, Any] | None:
    """Give what the dead-man said when he had undone; None if he has not."""
    with suppress(OSError, ValueError):
        said = json.loads((folder(mark) / "outcome").read_text(encoding="utf-8"))
        return said if isinstance(said, dict) else None
    return None


def clear(mark: str) -> None:
    """End it and take away all that is left of it."""
    place = folder(mark)
    for name in ("claimed", "armed"):
        with suppress(OSError, ValueError):
            known = json.loads((place / name).read_text(encoding="utf-8"))
            if "unit" in known:
                run("systemctl", "stop", f"{known['unit']}.timer")
            elif _started(known["pid"]) == known["started"]:
                os.killpg(known["pid"], signal.SIGKILL)
    shutil.rmtree(place, ignore_errors=True)


def _by_systemd(mark: str, hold_s: float) -> dict[str, Any] | None:
    """Have PID 1 keep the time, where it is systemd."""
    if not Path("/run/systemd/system").is_dir() or not shutil.which("systemd-run"):
        return None
    unit = f"gpuassay-undo-{mark}"
    words = ("/bin/sh", "-c", _FIRE, "sh", "0", str(folder(mark)), sys.executable, COMMAND)
    timer = (f"--unit={unit}", f"--on-active={hold_s:.0f}s", "--timer-property=AccuracySec=1s", "--collect")
    status, said = run("systemd-run", "--quiet", *timer, "--", *words)
    if status != 0:
        raise Refused(f"systemd-run cannot arm the dead-man: {said}")
    return {"unit": unit, "by": f"systemd's timer {unit}"}


def _by_process(place: Path, hold_s: float) -> dict[str, Any]:
    pid, free = apart("/bin/sh", "-c", _FIRE, "sh", f"{hold_s:.1f}", str(place), sys.executable, COMMAND)
    held = "" if free else " (in the job's control group)"
    return {"pid": pid, "started": _started(pid), "by": f"process {pid}{held}"}


def apart(*argv: str) -> tuple[int, bool]:
    """Start a process that outlives the job; give its number, and whether it left the job's groups."""
    process = subprocess.Popen(  # noqa: S603 - an argument list of our own
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    return process.pid, _leave_groups(process.pid)


def _leave_groups(pid: int) -> bool:
    """Move a process to the root of its control groups; tell whether it is in none of the job's any more."""
    gone = True
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        if path == "/":
            continue
        place = Path("/sys/fs/cgroup", controllers.removeprefix("name="), "cgroup.procs")
        try:
            place.write_text(str(pid), encoding="ascii")
        except OSError:
            gone = False
    return gone


def _started(pid: int) -> str:
    """Give when a process was started, in ticks since boot: with its number that is its identity."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
