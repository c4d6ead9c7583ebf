"""The ROCm Validation Suite, ``rvs``, AMD's open diagnostic: read from what it prints while it runs.

Of each action of a level it prints a name, a module, and results; of some modules ``pass: TRUE`` or
``pass: FALSE`` (user guide, GST and IET), of others a bandwidth on which it gives no verdict. It ends at the
first action that cannot run, and what is behind that is missing. Its JSON goes into a file, and no file is
written on a node.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure.diagnosis import Report, Test, no_report

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.evidence.item import Item
    from gpuassay.judge.fact import Fact, Scalar

PROGRAM = "/opt/rocm/bin/rvs"  # where its package puts it; no PATH has it
# Modules of each level, from RVS's own files (rvs/conf/PRODUCT/levels, read 2026-11-30): level 3 of MI300X,
# MI308X, MI325X, MI350X and MI355X, level 4 of MI300X and MI355X.
MODULES: Mapping[int, tuple[str, ...]] = {
    3: ("babel", "pebb", "pbqt", "gst"),
    4: ("babel", "pebb", "pbqt", "mem", "gst", "iet"),
}
_JUDGING = frozenset({"gst", "iet"})  # of these each GPU's result ends with pass: TRUE or pass: FALSE
_HEAD = r"^\[RESULT\s*\] ?\[[\d. ]+\] "
_ACTION = re.compile(_HEAD + r"Action name ?: ?(\S+)\s*$")
_MODULE = re.compile(_HEAD + r"Module name ?: ?(\w+)\s*$")
_RESULT = re.compile(_HEAD + r"\[?([^\]\s]+)\]? (.*)$")
_ERROR = re.compile(r"^RVS-ERROR((?: \[[^\]]*\])*) (.*)$")
_QUOTED = re.compile(r"[Aa]ction '([^']+)'")
_VERDICT = re.compile(r"\bpass: (TRUE|FALSE)\b", re.IGNORECASE)
_GPU = re.compile(r"\b(\d{1,6})\b")
_NOTHING = "(not measured)"
_TOLD = 8


@dataclass(slots=True)
class _Action:
    """What was printed of one action."""

    module: str = ""
    results: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def judged(self) -> dict[str, str]:
        """The results with a verdict, by the number that AMD's driver has for the GPU."""
        found = ((_GPU.search(line), line) for line in self.results if _VERDICT.search(line))
        return {gpu[1]: line for gpu, line in found if gpu}


class Rvs:
    """``rvs -r LEVEL``."""

    method = 1

    def argv(self, args: Mapping[str, Scalar]) -> tuple[str, ...]:
        """Give the command; ``level`` is 3 or 4."""
        return (PROGRAM, "-r", str(args["level"]))

    def read(self, node: str, args: Mapping[str, Scalar], item: Item | Unread, ref: str) -> Report:
        """Read a report; every module of the level is in it, were it only to say why it is unread."""
        expected = MODULES[int(args["level"])]
        if isinstance(item, Unread):
            return Report(node, tuple(Test(node, module, item) for module in expected))
        actions, loose = _actions(item)
        why = f"it is not in the output: {loose[-1] if loose else item.why or 'it was not run'}"
        lack = Unread("failed", why, ref) if actions else no_report(item, ref, "rvs", "; ".join(loose))
        ended = item.status == "ok" and not item.truncated
        gpus = {gpu for action in actions.values() for gpu in action.judged}
        tests = [
            Test(node, name, _failed(action, gpus, ref, ended=ended)) for name, action in actions.items()
        ]
        missing = [
            module for module in expected if all(action.module != module for action in actions.values())
        ]
        return Report(node, (*tests, *(Test(node, module, lack) for module in missing)))


def _actions(item: Item) -> tuple[dict[str, _Action], list[str]]:
    """Sort lines by action; errors that name none are given apart."""
    actions: dict[str, _Action] = {}
    loose: list[str] = []
    current = _Action()
    for line in f"{item.out.decode('utf-8', 'replace')}\n{item.err}".splitlines():
        if named := _ACTION.match(line):
            current = actions.setdefault(named[1], _Action())
        elif module := _MODULE.match(line):
            current.module = module[1]
        elif error := _ERROR.match(line):
            _blame(error, actions, loose)
        elif (result := _RESULT.match(line)) and result[1] in actions:
            actions[result[1]].results.append(result[2])
    return actions, loose


def _blame(error: re.Match[str], actions: dict[str, _Action], loose: list[str]) -> None:
    """Put an error with the action that it names, in brackets or in quotation marks."""
    quoted = _QUOTED.search(error[2])
    names = [*re.findall(r"\[([^\]]*)\]", error[1]), quoted[1] if quoted else ""]
    action = next((actions[name] for name in names if name in actions), None)
    (loose if action is None else action.errors).append(error[2])


def _failed(action: _Action, gpus: set[str], ref: str, *, ended: bool) -> Fact[bool]:
    """Judge one action by all that was printed of it; ``gpus`` are those that any of them judged."""
    verdicts = [(line, found[1].upper()) for line in action.results if (found := _VERDICT.search(line))]
    if bad := [brief(line) for line, verdict in verdicts if verdict == "FALSE"]:
        return Read(value=True, evidence=ref, note="; ".join(bad[:_TOLD]))
    if lack := _lack(action, gpus, ended=ended):
        return Unread("failed", lack, ref)
    note = f"{len(verdicts)} results" if verdicts else "it ran without an error; rvs gives no verdict on it"
    return Read(value=False, evidence=ref, note=note)


def _lack(action: _Action, gpus: set[str], *, ended: bool) -> str:
    """Say why an action without a fail is no pass; empty if it is one."""
    if action.errors:
        return brief("; ".join(action.errors))
    if any(_NOTHING in line for line in action.results):
        return "a transfer was not measured: the test was too short for it"
    if action.module in _JUDGING:
        silent = sorted(gpus - action.judged.keys(), key=int)
        if not action.judged:
            return "rvs printed no verdict on it"
        return f"no verdict on GPU {', '.join(silent)}" if silent else ""
    return "" if ended else "rvs did not end well, and gives no verdict of its own on this module"
