"""Commands: started as argument lists, never through a shell, with no more environment than they need."""

from __future__ import annotations

import errno
import os
import re
import time
from functools import partial
from typing import TYPE_CHECKING

from gpuassay.probe.answer import Answer, kind_of
from gpuassay.probe.children import Child

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.probe.items import Question

PASSED_ON = ("PATH", "HOME", "LD_LIBRARY_PATH")
"""The environment names that commands and libraries are given, beside LANG=C. A site may have to say where
the driver's library is; proxies, tokens and what else a session holds stay where they are."""

PASSED_ON_FOR_TESTS = "GPUASSAY_TEST_"
"""Names that begin so are passed on too: by them our tests steer their stand-in for the driver's library."""

_SYSTEM_TOOLS = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"

_BY_EXIT = {126: "denied", 127: "not_found"}  # POSIX, Shell Command Language, "Exit Status for Commands"


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """Choose what is passed on; the folders of system tools are added to a PATH that may lack them."""
    kept = {name: given[name] for name in given if name in PASSED_ON or name.startswith(PASSED_ON_FOR_TESTS)}
    path = ":".join(filter(None, (given.get("PATH"), _SYSTEM_TOOLS)))
    return {**kept, "PATH": path, "LANG": "C", "LC_ALL": "C"}


def run(question: Question) -> Answer:
    """Run the command; what it printed is kept also where it failed or ran past its deadline. Raises Stop."""
    with start(question, environment(os.environ)) as child:
        in_time = child.attend(child.exited, time.monotonic() + question.deadline_s)
    return answer(question, child, in_time)


def start(question: Question, passed_on: Mapping[str, str], feed: bytes = b"") -> Child:
    """Start the command with this environment, and this on its standard input."""
    return Child(partial(_become, question.what, passed_on, feed), question.cap)


def answer(question: Question, child: Child, in_time: bool) -> Answer:  # noqa: FBT001 - as attend gives it
    """Say what came of a command that has been ended."""
    program = question.what[0]
    if child.news.data:
        refusal = OSError(int(child.news.data), "the program was not started")
        return Answer(status=kind_of(refusal), why=f"{program}: {os.strerror(int(child.news.data))}")
    printed = _printed(child, question)
    if not in_time:
        return printed._replace(
            status="timed_out", why=f"no end within {question.deadline_s:g} s; {child.ending}"
        )
    if child.exit in question.fine:
        return printed
    return printed._replace(status=_BY_EXIT.get(child.exit or 0, "failed"), why=child.ending)


def _become(argv: tuple[str, ...], passed_on: Mapping[str, str], feed: bytes, news: int) -> None:
    """Become the command, in the child; or tell the number of the error that prevents it."""
    try:
        if feed:
            _feed(feed)
        os.execvpe(argv[0], argv, passed_on)  # noqa: S606 - no shell, on purpose
    except OSError as error:
        number = error.errno
        places = (os.path.join(folder, argv[0]) for folder in passed_on["PATH"].split(":"))  # noqa: PTH118
        if number == errno.EACCES and not any(map(os.path.lexists, places)):
            number = errno.ENOENT  # what was denied is a folder of the PATH, not the command
        os.write(news, str(number).encode())


def _feed(feed: bytes) -> None:
    """Make memory our standard input: it takes all at once, and nobody has to stand by to write."""
    memory = os.memfd_create("feed")
    with open(os.dup(memory), "wb") as file:  # noqa: PTH123 - there is no path
        file.write(feed)
    os.lseek(memory, 0, os.SEEK_SET)
    os.dup2(memory, 0)


def _printed(child: Child, question: Question) -> Answer:
    out = bytes(child.out.data)
    if question.hide:
        out = re.sub(question.hide.encode(), b"", out)
    err = child.err.data.decode(errors="replace")
    return Answer(out=out, err=err, exit=child.exit, truncated=child.out.truncated)
