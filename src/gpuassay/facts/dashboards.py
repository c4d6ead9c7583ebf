"""Grafana's dashboards: which of their panels ask for metrics of GPUs, and what each asks for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuassay.facts import gpu_metrics

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_VARIABLE = r"(?:\$\{(?!__)\w+(?::[^}]*)?\}|\$(?!__)\w+|\[\[\w+(?::[^\]]*)?\]\])"
_MATCHER = re.compile(rf"""(=~|!~|!=|=)\s*"[^"]*{_VARIABLE}[^"]*\"""")
_LOOSE = re.compile(_VARIABLE)
_SOME_TIME = "5m"


@dataclass(frozen=True, slots=True)
class Panel:
    """A query of a panel, variables filled in, and the uid of the data source that it is put to, if known."""

    title: str
    query: str
    source: str


def panels(document: object, sources: Sequence[object]) -> list[Panel]:
    """Give the queries of a dashboard that ask for metrics of GPUs; ``sources`` are Grafana's own list."""
    dashboard = _get(document, "dashboard")
    variables = {
        str(_get(one, "name")): _get(_get(one, "current"), "value")
        for one in _list(_get(_get(dashboard, "templating"), "list"))
    }
    found = []
    for panel in _panels(dashboard):
        for target in _list(_get(panel, "targets")):
            query = _get(target, "expr")
            if isinstance(query, str) and gpu_metrics.is_gpu_query(query):
                named = _get(target, "datasource") or _get(panel, "datasource")
                source = _source(named, variables, sources)
                found.append(
                    Panel(str(_get(panel, "title") or "untitled"), _filled(query, variables), source)
                )
    return found


def _panels(dashboard: object) -> Iterator[object]:
    """Walk through the panels, also those in rows that are folded (and those of dashboards before 2017)."""
    left = [*_list(_get(dashboard, "panels")), *_list(_get(dashboard, "rows"))]
    while left:
        panel = left.pop(0)
        yield panel
        left += _list(_get(panel, "panels"))


def _source(named: object, variables: Mapping[str, Any], sources: Sequence[object]) -> str:
    """Find the uid: panels name a data source by uid, by name, by a variable, or not at all."""
    word = _get(named, "uid") if isinstance(named, dict) else named
    if isinstance(word, str) and (name := re.fullmatch(r"\$\{?(\w+)\}?", word)):
        word = variables.get(name[1])
    default = next((str(_get(one, "uid")) for one in sources if _get(one, "isDefault") is True), "")
    if not isinstance(word, str) or word in ("", "default"):
        return default
    by_name = {_get(one, "name"): str(_get(one, "uid")) for one in sources}
    return by_name.get(word, word)


def _filled(query: str, variables: Mapping[str, Any]) -> str:
    """Fill variables in as "All" would be, for what a panel shows of one node says nothing of the others.

    Those of Grafana's own, such as ``$__rate_interval``, it fills in itself.
    """
    query = _MATCHER.sub(lambda one: '!="none"' if one[1].startswith("!") else '=~".*"', query)

    def value(found: re.Match[str]) -> str:
        current = variables.get(re.sub(r"\W+.*", "", found[0].lstrip("$[{")))
        return current if isinstance(current, str) and re.fullmatch(r"\w+", current) else _SOME_TIME

    return _LOOSE.sub(value, query)


def _get(value: object, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
