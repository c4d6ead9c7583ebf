"""``--target=ssh``: nodes that are reached with the user's own ssh, its configuration, keys and agent."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from gpuassay.evidence.item import Item
from gpuassay.evidence.meta import is_node_name
from gpuassay.judge.names import folded
from gpuassay.probe import travel
from gpuassay.target import DEADLINE_S, Bound, TargetError
from gpuassay.target.answers import ask_nodes, planned
from gpuassay.target.channel import Command
from gpuassay.target.jobs import run_job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpuassay.evidence.item import Status
    from gpuassay.judge.reach import SshReach
    from gpuassay.target import Job, Progress, Results, Runs, Writer
    from gpuassay.target.channel import Ending
    from gpuassay.watch import Eye

_ASKED_AT_ONCE = 16
_SOON_S = 10.0  # ssh -G connects nowhere

# The first word on an option counts: these hold whatever the site file and ~/.ssh/config say.
_ALWAYS = (
    "BatchMode=yes",
    "StrictHostKeyChecking=yes",
    "UpdateHostKeys=no",  # known_hosts stays as it is
    "ForwardAgent=no",
    "ForwardX11=no",
    "ClearAllForwardings=yes",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
    "ControlMaster=no",  # a connection that is shared outlives us
    "ControlPath=none",
)
_USUALLY = ("LogLevel=ERROR", "ServerAliveInterval=15", "ServerAliveCountMax=4")


class _Failure(NamedTuple):
    """A line by which ssh says that it failed, and what that means."""

    line: str
    meaning: str
    status: Status = "failed"


_FAILURES = (
    _Failure(
        r".*REVOKED HOST KEY DETECTED.*",
        "its host key was revoked: do not go on without its owner",
    ),
    _Failure(
        r"Host key for .* has changed.*",
        "its host key has changed: it was installed anew, or another machine answers in its place. Ask its "
        "owner for the fingerprint of the new key; only if it shows that one, take the old key out of "
        "known_hosts with ssh-keygen -R and put the new one in",
    ),
    _Failure(
        r"No .* host key is known for .*|Host key verification failed.*",
        "its host key is not known. Ask its owner for the fingerprint; if ssh-keygen -l shows the same of "
        "what ssh-keyscan gives, put that into known_hosts",
    ),
    _Failure(r"ssh: Could not resolve hostname .*", "its name cannot be resolved"),
    _Failure(r".*: Connection refused", "it refuses the connection: no sshd listens there"),
    _Failure(
        r".*(?:Connection|Operation) timed out.*|.*No route to host.*|.*Network is unreachable.*",
        "it does not answer: it is down, or the network is",
        "timed_out",
    ),
    _Failure(r"Timeout, server .* not responding\.", "it fell silent while the probe ran", "timed_out"),
    _Failure(
        r".*: Permission denied \(.*\).*|.*Too many authentication failures.*",
        "it does not let us in: is the key in ssh-agent, and is user right in [ssh] of the site file?",
        "denied",
    ),
    _Failure(
        r"kex_exchange_identification: .*|Connection (?:closed|reset) by .*",
        "it closes the connection before anybody could log in (sshd's MaxStartups, or a firewall)",
    ),
)


@dataclass(frozen=True, slots=True)
class Ssh:
    """The nodes that the user named, each reached on its own; ``deadline_s`` bounds each, in seconds."""

    name: ClassVar[str] = "ssh"
    nodes: tuple[str, ...]
    reach: SshReach
    deadline_s: float = DEADLINE_S

    def declared(self) -> tuple[str, ...]:
        """Name the nodes: ssh itself knows of none. Raises TargetError."""
        if not self.nodes:
            raise TargetError(
                "--target=ssh: which nodes? Name them with --nodes or in the pools of a site file"
            )
        wrong = next((node for node in self.nodes if not is_node_name(node)), None)
        if wrong:
            raise TargetError(f"--target=ssh: {wrong} is no name of a node: give it one in ~/.ssh/config")
        return self.nodes

    def gather(self, writer: Writer, progress: Progress) -> None:
        """Ask all nodes. One that cannot be reached has a reason for each question. Raises TargetError."""
        if shutil.which("ssh") is None:
            raise TargetError("--target=ssh: ssh cannot be found here: install OpenSSH's client")
        writer.add_cluster(self._hosts())
        ask_nodes(map(self._connection, self.declared()), writer, progress, self.deadline_s)

    def run(self, job: Job, progress: Progress) -> Results:
        """Run a job on its nodes, which must know each other by the names that we call them."""
        return run_job([*map(self._connection, job.nodes)], job, progress)

    def bound(self, _nodes: Sequence[str]) -> Bound:
        """Give none: by ssh nobody bounds a job."""
        return Bound()

    @contextmanager
    def hold(self, _node: str, _seconds: float) -> Iterator[Runs]:
        """Hold nothing: nobody gives out nodes here."""
        yield self.run

    def eyes(self, _node: str) -> Sequence[Eye]:
        """Give none: there is no scheduler that could take a node out of service."""
        return ()

    def plan(self) -> list[str]:
        """Say what would run where, as whom and for how long. Raises TargetError."""
        nodes = self.declared()
        user = f" as {self.reach.user}" if self.reach.user else ""
        way = f" through {self.reach.jump}" if self.reach.jump else ""
        what = f"the probe on {len(nodes)} nodes by ssh{user}{way}"
        return [
            f"{folded(nodes)}: {what}, {planned(self.deadline_s)}",
            "host keys are checked, no agent is forwarded, nobody is asked for a password",
        ]

    def clean(self) -> list[str]:
        """Give what was removed: nothing, for what ran ends with its connection."""
        return []

    def end(self, _name: str) -> list[str]:
        """Give what was removed: nothing, as above."""
        return []

    def _hosts(self) -> Item:
        """Have ssh say which host its configuration makes of each name: a name may be the user's own."""
        with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
            hosts = dict(zip(self.nodes, pool.map(self._host, self.nodes), strict=True))
        return Item("ssh/hosts", 1, asked={"command": ["ssh", "-G"]}, out=json.dumps(hosts).encode())

    def _host(self, node: str) -> str:
        """Give the host of a name; the name itself where ssh does not say."""
        argv = (*self._ssh(), "-G", "--", node)
        try:
            told = subprocess.run(argv, capture_output=True, timeout=_SOON_S, check=False)  # noqa: S603 - no shell
        except (OSError, subprocess.TimeoutExpired):
            return node
        found = re.search(rb"^hostname (\S+)$", told.stdout, re.MULTILINE)
        return found[1].decode(errors="replace") if found else node

    def _connection(self, node: str) -> Connection:
        remote = shlex.join(travel.argv(self.reach.python))
        # With exec no shell waits on the node. The words mean the same to sh, csh and fish.
        command = Command(node, (*self._ssh(), "--", node, f"exec {remote}"), _environment())
        return Connection(command, self.reach)

    def _ssh(self) -> tuple[str, ...]:
        reach = self.reach
        words = {"-F": reach.config, "-J": reach.jump, "-l": reach.user, "-p": reach.port}
        given = (word for flag, value in words.items() if value for word in (flag, str(value)))
        patience = f"ConnectTimeout={max(1, round(reach.connect_timeout_s))}"
        options = (*_ALWAYS, *reach.options, *_USUALLY, patience)
        return ("ssh", "-T", "-a", "-x", *given, *(f"-o{option}" for option in options))


@dataclass(frozen=True, slots=True)
class Connection:
    """A channel through ssh: where that fails it says why, in words that help, and ssh's own after them."""

    command: Command
    reach: SshReach

    @property
    def node(self) -> str:
        """The node it leads to."""
        return self.command.node

    async def talk(self, feed: bytes, deadline_s: float, take: Callable[[bytes], bool]) -> Ending:
        """Send all of ``feed``, give what comes back to ``take``, and close; see ``Channel``."""
        ending = await self.command.talk(feed, deadline_s, take)
        return ending if ending.status == "ok" else explained(ending, self.reach)


def explained(ending: Ending, reach: SshReach) -> Ending:
    """Say what it means how ssh ended."""
    lines = [line.strip() for line in ending.last_words.splitlines() if line.strip()]
    last = lines[-1] if lines else "no word of it"
    other = "name another with python in [ssh] of the site file"
    if ending.why.endswith(": exit 255"):  # ssh's own failure, not that of what it started
        return _of_ssh(ending, lines, f" through {reach.jump}" if reach.jump else "")
    if ending.why.endswith(": exit 127"):
        return replace(ending, status="not_found", why=f"found no {reach.python} ({last}); {other}")
    old = next((line for line in lines if line.startswith("gpuassay needs Python")), None)
    if old or (ending.why.endswith(": exit 2") and "-I" in ending.last_words):  # Python 2 knows no -I
        return replace(ending, why=f"found a {reach.python} that is too old ({old or last}); {other}")
    return ending


def _of_ssh(ending: Ending, lines: list[str], way: str) -> Ending:
    for failure in _FAILURES:
        told = next((line for line in lines if re.fullmatch(failure.line, line)), None)
        if told:
            why = f"did not reach the node{way}: {failure.meaning} ({told})"
            return replace(ending, status=failure.status, why=why)
    return replace(ending, why=f"lost its ssh: {lines[-1] if lines else 'exit 255, and no word of it'}")


def _environment() -> dict[str, str]:
    """Give ssh what is ours, for it finds the agent there; it shall ask nobody, and speak English to us."""
    return {**os.environ, "SSH_ASKPASS_REQUIRE": "never", "LC_ALL": "C"}
