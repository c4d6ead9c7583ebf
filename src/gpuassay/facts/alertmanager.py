"""Alertmanager as a subject."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuassay.facts import web
from gpuassay.facts.source import document
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact


class Alertmanager:
    """All that Alertmanager answered."""

    where = "alertmanager"
    node = ""
    models: tuple[str, ...] = ()

    def __init__(self, evidence: Evidence) -> None:
        """Take what the survey brought."""
        self._evidence = evidence

    @property
    def answers_anyone(self) -> Fact[bool]:
        """Whether it answers without a login: then it can be silenced without one."""
        return web.answers_anyone(self._evidence, "anonymous")

    @property
    def receivers(self) -> Fact[int]:
        """How many receivers have a means by which somebody is told, such as e-mail."""
        found = document(self._evidence, "receivers").record("receivers")
        if found.unread:
            return found.unread
        values = {} if isinstance(found.values, Unread) else found.values
        told = [name for name, means in values.items() if isinstance(means, list) and means]
        note = f"{', '.join(values) or 'no receiver'}: " + (
            f"{', '.join(told)} would tell somebody" if told else "none of them tells anybody"
        )
        return Read(len(told), found.evidence, note)
