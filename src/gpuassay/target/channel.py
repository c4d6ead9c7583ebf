"""A channel to a node: it takes a program to that node's Python, and brings back what that prints."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from gpuassay.probe.children import die_with
from gpuassay.probe.items import MIB

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from gpuassay.evidence.item import Status

MOST_BYTES = 256 * MIB
"""What one node may send: many times what a probe does, and little enough for a hundred nodes at once."""

_GRACE_S = 5.0  # a probe that is told to stop ends its children first, which may take 3 s
_CHUNK = 1 << 16
_LAST_WORDS = 1 << 12
_LAST_WORDS_S = 0.2  # what was written before the end is there to be read, unless others hold it open


@dataclass(frozen=True, slots=True)
class Ending:
    """How a channel was closed: ``ok`` if the last answer came, else what the other side did, as a predicate.

    ``last_words`` is the end of what came as errors.
    """

    status: Status = "ok"
    why: str = ""
    last_words: str = ""


class Channel(Protocol):
    """One way to one node."""

    @property
    def node(self) -> str:
        """The node it leads to."""

    async def talk(self, feed: bytes, deadline_s: float, take: Callable[[bytes], bool]) -> Ending:
        """Send all of ``feed``, give what comes back to ``take`` until that is content, and close.

        However it ends, cancelled too, nothing that it started is left. Raises what ``take`` raises.
        """


@dataclass(frozen=True, slots=True)
class Command:
    """A channel that is a process here: a Python, or an ``srun`` or ``ssh`` that starts one elsewhere.

    ``environment`` None is that of this process.
    """

    node: str
    argv: tuple[str, ...]
    environment: Mapping[str, str] | None = None

    async def talk(self, feed: bytes, deadline_s: float, take: Callable[[bytes], bool]) -> Ending:
        """Run the process in a session of its own; it is told to stop, then killed, if it is not done."""
        last_words = bytearray()
        try:
            async with self._running(feed, last_words) as process:
                ending = await _listen(process, deadline_s, take)
                if ending is None:  # it is about to say how it ended, and shall not be told to stop before
                    with suppress(TimeoutError):
                        await asyncio.wait_for(process.wait(), _GRACE_S)
        except OSError as error:
            return Ending("failed", f"could not be started: {self.argv[0]}: {error.strerror}")
        if ending is None:
            ending = Ending("failed", f"ended early: {_exit(process.returncode)}")
        return replace(ending, last_words=last_words.decode(errors="replace"))

    @asynccontextmanager
    async def _running(self, feed: bytes, last_words: bytearray) -> AsyncIterator[Process]:
        process = await asyncio.create_subprocess_exec(
            *self.argv,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=self.environment,
            start_new_session=True,
            # An ssh whose reader was killed would notice when it has something to say, and not before.
            preexec_fn=partial(die_with, os.getpid(), signal.SIGTERM),
        )
        helpers = [
            asyncio.create_task(_feed(process.stdin, feed)),
            asyncio.create_task(_keep_tail(process.stderr, last_words)),
        ]
        try:
            yield process
        finally:
            # One that blocks while it writes takes no notice of a signal, nor do we of its end.
            helpers.append(asyncio.create_task(_keep_tail(process.stdout, bytearray())))
            await _end(process)
            await asyncio.wait(helpers, timeout=_LAST_WORDS_S)
            for helper in helpers:
                helper.cancel()
            close(process)


async def _listen(process: Process, deadline_s: float, take: Callable[[bytes], bool]) -> Ending | None:
    """Hand on what comes until ``take`` is content; None if the process fell silent before."""
    output, came = process.stdout, 0
    try:
        async with asyncio.timeout(deadline_s):
            while output and (data := await output.read(_CHUNK)):
                came += len(data)
                if take(data):
                    return Ending()
                if came > MOST_BYTES:
                    return Ending("failed", f"sent more than {MOST_BYTES // MIB} MiB")
    except TimeoutError:
        return Ending("timed_out", f"was not done within {deadline_s:g} s")
    return None


async def _feed(target: asyncio.StreamWriter | None, feed: bytes) -> None:
    """Send it all; one that has gone away does not need it."""
    with suppress(ConnectionError):
        if target:
            target.write(feed)
            await target.drain()
            target.close()


async def _keep_tail(source: asyncio.StreamReader | None, tail: bytearray) -> None:
    while source and (data := await source.read(_CHUNK)):
        tail += data
        del tail[:-_LAST_WORDS]


async def _end(process: Process) -> None:
    """Tell the process to stop (one that is done takes no notice), and kill it if it does not."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _GRACE_S)
            break


def close(process: Process) -> None:
    """Let go of the pipes, which a child of the process may still hold open: asyncio waits for their end."""
    process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001 - there is no public way


def _exit(code: int | None) -> str:
    if code is None:
        return "it could not be killed"
    return f"exit {code}" if code >= 0 else f"killed by signal {-code}"
