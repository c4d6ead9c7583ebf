"""Children that cannot hold the probe up.

Whatever may block, a read below /sys as much as a command, happens in a forked child. The probe itself only
polls: at a deadline it ends the child with all that the child started, and one that is stuck in the kernel,
where no signal reaches it, is left behind and said so. ``subprocess`` would not do: its constructor waits
until the program has been loaded, which from a dead file system is for ever.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Union

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Callable, NoReturn, Self, Sequence

TERM_GRACE_S = 1.0
KILL_GRACE_S = 2.0
_SHORTEST_TICK_S, _LONGEST_TICK_S = 0.001, 0.05  # the end of a process is no event that poll reports
_CHUNK = 1 << 16
_ERR_CAP = 1 << 16
_NEWS_CAP = 1 << 26
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class Stop(Exception):  # noqa: N818 - it is no error
    """The probe was told to stop, or nobody reads its answers any more."""


class Caller:
    """Who reads the answers; when gone, all children are ended and the probe with them."""

    stdout = 1

    def __init__(self) -> None:
        self.gone = False

    def hang_up(self, *_: object) -> None:
        """Note that the caller wants no more; a signal handler, so it does nothing else."""
        self.gone = True


CALLER = Caller()


class Lost(NamedTuple):
    """A message that a child did not send: ``timed_out``, or ``failed`` because the child died."""

    kind: str
    why: str


class Stream:
    """The near end of a pipe from a child. It keeps the first ``cap`` bytes and forgets what follows."""

    def __init__(self, cap: int) -> None:
        self.fd, self.far_end = os.pipe()
        os.set_blocking(self.fd, False)
        self.cap = cap
        self.data = bytearray()
        self.truncated = False
        self.open = True

    def take(self) -> bool:
        """Take what has come; False when there is nothing, now or for good."""
        try:
            chunk = os.read(self.fd, _CHUNK)
        except BlockingIOError:
            return False
        room = self.cap - len(self.data)
        self.data += chunk[:room]
        self.truncated |= len(chunk) > room
        if not chunk:
            self._shut()
        return bool(chunk)

    def close(self) -> None:
        """Take what is left and close; a descendant that goes on writing is not listened to for ever."""
        while self.open and not self.truncated and self.take():
            pass
        if self.open:
            self._shut()

    def _shut(self) -> None:
        self.open = False
        os.close(self.fd)


class Child:
    """A process in a session of its own that runs ``body`` and ends.

    Its output is kept up to a cap; ``body`` is given a descriptor for messages (``send``).
    Use it as a context: leaving it ends the child and its whole process group.
    """

    def __init__(self, body: Callable[[int], None], cap: int = _ERR_CAP) -> None:
        self.out, self.err, self.news = Stream(cap), Stream(_ERR_CAP), Stream(_NEWS_CAP)
        self.exit: Optional[int] = None
        self.left_behind = False
        self.ended = False
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            self._live(body, parent)
        for stream in self.streams:
            os.close(stream.far_end)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.end()

    @property
    def streams(self) -> tuple[Stream, Stream, Stream]:
        """What it says, on standard output and error and as messages."""
        return self.out, self.err, self.news

    def _live(self, body: Callable[[int], None], parent: int) -> NoReturn:
        status = 70
        try:
            os.setsid()
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            die_with(parent, signal.SIGKILL)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(self.out.far_end, 1)
            os.dup2(self.err.far_end, 2)
            body(self.news.far_end)
            status = 0
        except BaseException as error:  # noqa: BLE001 - whatever it is, the parent's code must not run twice
            os.write(2, repr(error).encode(errors="replace"))
        finally:
            os._exit(status)

    def attend(self, enough: Callable[[], bool], until: float) -> bool:
        """Read what the child says until it is enough; False at ``until`` (monotonic). May raise Stop."""
        return attend((self,), enough, until)

    def exited(self) -> bool:
        """Tell whether the child itself has ended. It stays a zombie: so its group's number is not reused."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def next(self, seconds: float) -> Union[Any, Lost]:
        """Wait for the child's next message; ``Lost`` if it does not come in time or never will."""
        news = self.news

        def enough() -> bool:
            return b"\n" in news.data or not news.open

        if not self.attend(enough, time.monotonic() + seconds):
            return Lost("timed_out", f"no answer within {seconds:g} s")
        line, newline, rest = bytes(news.data).partition(b"\n")
        if not newline:
            self.end()
            last_words = self.err.data[-200:].decode(errors="replace").strip()
            return Lost("failed", f"the reading process ended: {self.ending} {last_words}".strip())
        news.data = bytearray(rest)
        return json.loads(line)

    def end(self) -> None:
        """End the child and what it started: TERM, KILL, and past that leave it behind."""
        end((self,))

    def bury(self) -> None:
        """Take note of how it ended, or that it could not be ended, and close what it wrote to."""
        if self.exited():
            self.signal(signal.SIGKILL)  # what it started and left running
            self.exit = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        else:
            self.left_behind = True
        for stream in self.streams:
            stream.close()

    def signal(self, number: int) -> None:
        """Send a signal to it and to what it started."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:  # it has not come as far as its own group
            os.kill(self.pid, number)
        except PermissionError:  # it runs as somebody else: there is no more to do
            pass

    @property
    def ending(self) -> str:
        """How it ended, in words: ``exit 3``, ``killed by SIGSEGV``, or that it was left behind."""
        if self.exit is None:
            return "it could not be killed and was left behind"
        return f"exit {self.exit}" if self.exit >= 0 else f"killed by {_name(-self.exit)}"


def attend(children: Sequence[Child], enough: Callable[[], bool], until: float) -> bool:
    """Read what all of them say until it is enough; False at ``until`` (monotonic). May raise Stop."""
    tick_s = _SHORTEST_TICK_S
    while not enough():
        left_s = until - time.monotonic()
        if left_s <= 0:
            return False
        heard = _poll(children, min(left_s, tick_s))
        tick_s = _SHORTEST_TICK_S if heard else min(2 * tick_s, _LONGEST_TICK_S)
    return True


def end(children: Sequence[Child], term_grace_s: float = TERM_GRACE_S) -> None:
    """End them and what they started, all at once: TERM, KILL, and past that leave them behind."""
    children = [child for child in children if not child.ended]
    for child in children:
        child.ended = True
    for number, grace_s in ((signal.SIGTERM, term_grace_s), (signal.SIGKILL, KILL_GRACE_S)):
        alive = [child for child in children if not child.exited()]
        for child in alive:
            child.signal(number)
        attend(alive, lambda: all(child.exited() for child in alive), time.monotonic() + grace_s)  # noqa: B023
    for child in children:
        child.bury()


def _poll(children: Sequence[Child], seconds: float) -> bool:
    poll = select.poll()
    streams = {stream.fd: stream for child in children for stream in child.streams if stream.open}
    for fd in streams:
        poll.register(fd, select.POLLIN)
    wanted = not all(child.ended for child in children)
    if wanted:
        poll.register(CALLER.stdout, 0)  # reports only that its reader has gone
    events = poll.poll(seconds * 1000)
    for fd, event in events:
        if fd in streams:
            streams[fd].take()
        elif event & (select.POLLERR | select.POLLHUP):
            CALLER.hang_up()
    if CALLER.gone and wanted:
        raise Stop
    return bool(events)


def send(news: int, message: Any) -> None:
    """Send the parent one message from within a child's ``body``."""
    rest = memoryview(json.dumps(message).encode() + b"\n")
    while rest:
        rest = rest[os.write(news, rest) :]


def _name(number: int) -> str:
    """Name a signal; the real-time ones have none."""
    return next((known.name for known in signal.Signals if known == number), f"signal {number}")


def die_with(parent: int, number: int) -> None:
    """Ask the kernel to send this process a signal when its parent is gone, even by SIGKILL."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os._exit(70)
