"""A trial of admission: pods that reach for the host, put to the API server as a dry run: it makes none."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpuassay.evidence.item import Item
from gpuassay.facts.text import brief
from gpuassay.target import kube_objects
from gpuassay.target.kube_api import Api, ApiError
from gpuassay.target.kube_clean import NAMESPACES
from gpuassay.target.kube_reviews import Act, review
from gpuassay.target.kube_trial import removed

if TYPE_CHECKING:
    from collections.abc import Mapping

_CREATED: Final = 201
_NOT_FOUND: Final = 404
_MADE: Final = "the API server made a pod that it was only to say yes or no to: it knows no dry run"


@dataclass(frozen=True, slots=True)
class AdmissionTrial:
    """Dry runs in the namespace of the run, for a node of the cluster.

    ``demands`` are what each pod wants beyond the first: fields of its spec, and of its container.
    """

    api: Api
    run: kube_objects.Run
    node: str
    demands: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]]

    async def all(self) -> list[Item]:
        """Put each pod to the API server, and tell how it answered."""
        try:
            everything = await review(self.api, Act("*", "*", "*"))
            items = [Item("administrator", 0, out=_json({"allowed": everything.get("allowed")}))]
            for kind, (spec, container) in self.demands.items():
                items.append(await self._tried(kind, spec, container))
                if await self._is_there():  # before anything is asked for that would be harmful
                    return [Item("trial", 0, "failed", why=_MADE)]
        except ApiError as error:
            return [Item("trial", 0, error.status, why=str(error))]
        return items

    async def removed(self) -> Item:
        """Remove what a server has made that knows no dry run, and tell."""
        return await removed(self.api, self.run)

    async def _tried(self, kind: str, spec: Mapping[str, Any], container: Mapping[str, Any]) -> Item:
        pod = kube_objects.alone(self.run, self.run.name, self.node, ("pass",))
        pod["spec"]["containers"][0] |= container
        pod["spec"] |= spec
        try:
            given = await self.api.dry_run(self._pods, pod)
        except ApiError as error:
            if not error.code:
                return Item(f"pod/{kind}", 0, error.status, why=str(error))
            return Item(f"pod/{kind}", 0, out=_json({"code": error.code, "why": brief(str(error))}))
        kept = _within({**spec, "containers": [container]}, given.get("spec"))
        return Item(f"pod/{kind}", 0, out=_json({"code": _CREATED, "kept": kept}))

    async def _is_there(self) -> bool:
        try:
            await self.api.get(f"{self._pods}/{self.run.name}")
        except ApiError as error:
            if error.code == _NOT_FOUND:
                return False
            raise
        return True

    @property
    def _pods(self) -> str:
        return f"{NAMESPACES}/{self.run.namespace}/pods"


def _within(wanted: Any, given: Any) -> bool:
    """Tell whether all that was wanted is in what would be made: some policies take it out instead."""
    if isinstance(wanted, dict):
        return isinstance(given, dict) and all(_within(one, given.get(key)) for key, one in wanted.items())
    if isinstance(wanted, list):
        return isinstance(given, list) and all(any(_within(one, it) for it in given) for one in wanted)
    return bool(wanted == given)


def _json(told: dict[str, Any]) -> bytes:
    return json.dumps(told, ensure_ascii=False).encode()
