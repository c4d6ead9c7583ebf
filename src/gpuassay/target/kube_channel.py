"""A channel that is a pod on its node: a ConfigMap takes the probe there, the log brings its answers."""

from __future__ import annotations

import asyncio
import hashlib
import math
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuassay.probe.items import MIB
from gpuassay.target.channel import MOST_BYTES, Ending
from gpuassay.target.kube_api import ApiError
from gpuassay.target.kube_objects import CONTAINER, GRACE_S
from gpuassay.target.kube_stage import Stage, stage

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuassay.target.kube_api import Api

_FIRST_LOOK_S, _LONGEST_LOOK_S = 0.2, 3.0
_REMOVAL_S = 20.0


class NotStartedError(Exception):
    """A pod did not come to run; ``scarce`` if that is for want of what it asked for."""

    def __init__(self, why: str, *, scarce: bool = False) -> None:
        super().__init__(why)
        self.scarce = scarce


@dataclass(frozen=True, slots=True)
class Closed:
    """A channel to a node that is not asked, and why."""

    node: str
    ending: Ending

    async def talk(self, _feed: bytes, _deadline_s: float, _take: Callable[[bytes], bool]) -> Ending:
        """Say why."""
        return self.ending


@dataclass(frozen=True, slots=True)
class Pod:
    """A channel that is a pod. ``objects`` are what it needs, by the path under which each is made.

    ``fed`` makes one more of what is to be sent; without it, all pods share what they are fed. ``wait_s``
    is how long it may wait for its place, ``start_s`` how long then for its kubelet. ``instead`` is taken
    where the first way finds what it asks for taken; ``told`` hears of that.
    """

    node: str
    api: Api
    objects: dict[str, dict[str, Any]]
    wait_s: float
    instead: Pod | None = None
    told: Callable[[str, str], None] = lambda _node, _why: None
    fed: Callable[[bytes], dict[str, dict[str, Any]]] = lambda _feed: {}
    start_s: float = math.inf

    async def talk(self, feed: bytes, deadline_s: float, take: Callable[[bytes], bool]) -> Ending:
        """Make the pod, hand on what its log says until ``take`` is content, and remove it."""
        try:
            async with asyncio.timeout(deadline_s):
                return await self._once({**self.fed(feed), **self.objects}, take)
        except TimeoutError:
            return Ending("timed_out", f"was not done within {deadline_s:g} s")
        except NotStartedError as error:
            if error.scarce and self.instead:
                self.told(self.node, str(error))
                return await self.instead.talk(feed, deadline_s, take)
            return Ending("failed", f"was not started: {error}")
        except ApiError as error:
            # Of what admission refuses, this is no question of rights.
            status = "failed" if "RuntimeClass" in str(error) else error.status
            return Ending(status, f"could not be started or heard: {error}")

    async def _once(self, objects: dict[str, dict[str, Any]], take: Callable[[bytes], bool]) -> Ending:
        try:
            for path, item in objects.items():
                await self.api.create(path, item)
            await until_started(self.api, self._path, self.wait_s, self.start_s)
            return await self._listen(take)
        finally:
            # What cannot be removed now is removed, or named, at the end of the run.
            with suppress(ApiError, TimeoutError):
                async with asyncio.timeout(_REMOVAL_S):
                    for path, item in reversed(objects.items()):
                        await self.api.delete(f"{path}/{item['metadata']['name']}", GRACE_S)

    @property
    def _path(self) -> str:
        path, item = next((path, item) for path, item in self.objects.items() if item["kind"] == "Pod")
        return f"{path}/{item['metadata']['name']}"

    async def _listen(self, take: Callable[[bytes], bool]) -> Ending:
        """Follow the log; after a loss from its beginning, for only the kubelet knows where that was.

        A connection that is lost may look like the end of the log: that is reached only by a reading that
        began when the pod had ended.
        """
        lines, pause_s, over = Lines(), _FIRST_LOOK_S, False
        while True:
            try:
                ending, whole = await self._follow(lines, take), over
            except ApiError:
                ending, whole = None, False
            if ending:
                return ending
            found = stage(await self.api.get(self._path))
            if found.state == "hopeless" or (found.state == "ended" and whole):
                why = f"ended early: {found.why}{lines.doubt}"
                return Ending("failed", why, lines.last_words)
            lines.breaks += found.state != "ended" or over
            over = found.state == "ended"
            await asyncio.sleep(pause_s)
            pause_s = min(1.5 * pause_s, _LONGEST_LOOK_S)

    async def _follow(self, lines: Lines, take: Callable[[bytes], bool]) -> Ending | None:
        """Hand on what is new in the log; None when it ends before ``take`` is content."""
        came = 0
        lines.again()
        async with self.api.stream(f"{self._path}/log", container=CONTAINER, follow="true") as chunks:
            async for chunk in chunks:
                came += len(chunk)
                if take(lines.new(chunk)):
                    return Ending()
                if came > MOST_BYTES:
                    return Ending("failed", f"sent more than {MOST_BYTES // MIB} MiB")
        return None


async def until_started(api: Api, path: str, wait_s: float, start_s: float = math.inf) -> None:
    """Wait until a pod runs, or has; ``wait_s`` for its place, and then ``start_s`` for its kubelet.

    Raises NotStartedError and ApiError.
    """
    pause_s, waited_s = _FIRST_LOOK_S, 0.0
    while True:
        found = stage(await api.get(path))
        if found.state in ("running", "ended"):
            return
        if found.state == "hopeless":
            raise NotStartedError(found.why)
        if found.state == "unplaced" and waited_s >= wait_s:
            raise NotStartedError(found.why, scarce=_is_scarce(found))
        if found.state == "placed" and waited_s >= wait_s + start_s:
            raise NotStartedError(f"{found.why} within {start_s:g} s")
        await asyncio.sleep(pause_s)
        waited_s += pause_s
        pause_s = min(1.5 * pause_s, _LONGEST_LOOK_S)


class Lines:
    """Tells the lines of a log that are new, however often it is read from its beginning."""

    def __init__(self) -> None:
        self._known: set[bytes] = set()
        self._rest = bytearray()
        self._last: list[bytes] = []
        self.breaks = 0

    def again(self) -> None:
        """Expect the log from its beginning: a line that was cut off will come whole."""
        self._rest.clear()

    @property
    def doubt(self) -> str:
        """Say that a log which was read more than once may have been rotated in between; else nothing."""
        return f"; its log broke off {self.breaks} times, and may have lost lines" if self.breaks else ""

    def new(self, chunk: bytes) -> bytes:
        """Give the whole lines that this chunk completes and that were not there before."""
        self._rest += chunk
        if b"\n" not in chunk:
            return b""
        *lines, self._rest = self._rest.split(b"\n")
        fresh = []
        for line in map(bytes, lines):
            mark = hashlib.blake2b(line, digest_size=16).digest()
            if mark not in self._known:
                self._known.add(mark)
                fresh.append(line + b"\n")
        self._last = [*self._last, *fresh][-5:]
        return b"".join(fresh)

    @property
    def last_words(self) -> str:
        """The last lines, as far as they are words: what an interpreter says before it gives up."""
        return b"".join(line for line in self._last if not line.startswith(b"@")).decode(errors="replace")[
            -4096:
        ]


def _is_scarce(found: Stage) -> bool:
    """Tell whether a scheduler found everything but the devices; its words are the same since 1.20."""
    return "Insufficient " in found.why or "cannot allocate all claims" in found.why
