"""The verdicts of the real suite on recorded clusters, in this process: pytest itself is tested elsewhere."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuassay.judge.observe import Observe
from gpuassay.report.results import assemble
from gpuassay.session import ACCEPTANCE, Request, Session, context, prepare
from gpuassay.suite import PHASES, Suite, check_id, load_suite
from recorded.build import build
from recorded.description import EARLIER, describe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Judged:
    """The results of one run."""

    results: Mapping[str, Any]

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict of each check."""
        return {check: found["verdict"] for check, found in self.results["checks"].items()}

    def message(self, check: str) -> str:
        """Return all that is said about a check that is not as it should be."""
        found = self.results["checks"][check]
        rows = (row for row in found["observations"] if row["verdict"] != "pass")
        return "\n".join([found["reason"], *(f"{row['where']}: {row['reason']}" for row in rows)])


def judge(recording: Path, profile: str = "", earlier: Path | None = None) -> Judged:
    """Judge a recording by every check of the suite, beside an earlier one if there is any."""
    suite, checks = _suite()
    request = Request(ROOT, f"recording:{recording}", profile=profile or ACCEPTANCE, earlier=earlier)
    session = prepare(request, recording, suite)
    outcomes = {check: _outcome(session, check, function) for check, function in checks.items()}
    return Judged(assemble(context(session), outcomes))


def judge_all(names: Iterable[str]) -> Iterator[tuple[str, Judged]]:
    """Judge recorded clusters one by one."""
    for name in names:
        yield name, judge_named(name)


def judge_named(name: str) -> Judged:
    """Judge a recorded cluster as its description wants it judged."""
    description = describe(name)
    earlier = None if description.earlier is None else build(f"{name}{EARLIER}")
    return judge(build(name), description.profile, earlier)


def _outcome(session: Session, check: str, function: Callable[..., None]) -> dict[str, Any]:
    """Run a check with what it asks for, as the plugin does."""
    observe = Observe()
    offered = {"fleet": session.fleet, "measure": session.measure_for(check), "observe": observe}
    asked = {name: offered[name] for name in function.__annotations__ if name in offered}
    failure: BaseException | None = None
    try:
        function(**asked)
    except Exception as error:  # noqa: BLE001 - whatever a check raises is judged
        failure = error
    return session.judge(check, observe, failure)


@cache
def _suite() -> tuple[Suite, Mapping[str, Callable[..., None]]]:
    checks = {}
    for source in sorted(path for phase in PHASES for path in (ROOT / phase).glob("test_*.py")):
        spec = importlib.util.spec_from_file_location(f"recorded_{source.parent.name}_{source.stem}", source)
        if spec is None or spec.loader is None:
            raise ImportError(str(source))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name, function in vars(module).items():
            if name.startswith("test_"):
                checks[check_id(ROOT, source, name) or ""] = function
    return load_suite(ROOT), checks
