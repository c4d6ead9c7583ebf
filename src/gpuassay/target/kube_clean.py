"""Removes what our runs have made in a cluster, and looks whether it is gone."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from gpuassay.target.kube_api import ApiError
from gpuassay.target.kube_evidence import DRA, dra_version
from gpuassay.target.kube_objects import GRACE_S, MINE

if TYPE_CHECKING:
    from gpuassay.target.kube_api import Api

NAMESPACES = "/api/v1/namespaces"
_ALWAYS = ("pod", "configmap")
_GONE_S = 120.0
_LOOK_S = 0.5


async def remove_namespaces(api: Api, selector: str, gone_s: float = _GONE_S) -> list[str]:
    """Remove the namespaces that a selector finds, with all that is in them; give their names.

    Raises ApiError, also for what is still there after ``gone_s``.
    """
    found = await _names(api, NAMESPACES, selector)
    for name in found:
        await api.delete(f"{NAMESPACES}/{name}")
    await _until_gone(api, NAMESPACES, selector, gone_s)
    return [f"namespace {name}" for name in found]


async def remove_objects(api: Api, namespace: str, selector: str, gone_s: float = _GONE_S) -> list[str]:
    """Remove what a selector finds in a namespace that stays; give its kinds and names. Raises ApiError."""
    found: dict[str, list[str]] = {}
    for kind, path in await _kinds(api, namespace):
        try:
            found[path] = await _names(api, path, selector)
        except ApiError as error:
            if kind in _ALWAYS or error.status != "denied":
                raise
            continue  # who may not list them could make none
        for name in found[path]:
            await api.delete(f"{path}/{name}", GRACE_S if kind == "pod" else None)
    for path in found:
        await _until_gone(api, path, selector, gone_s)
    return [
        f"{path.rpartition('/')[2]} {namespace}/{name}" for path, names in found.items() for name in names
    ]


async def remove_all(api: Api, namespace: str) -> list[str]:
    """Remove what any run of ours has left: in ``namespace``, if one is named, and namespaces of our own.

    Raises ApiError.
    """
    removed = await remove_objects(api, namespace, MINE) if namespace else []
    try:
        return removed + await remove_namespaces(api, MINE)
    except ApiError as error:
        if namespace and error.status == "denied":  # who may not list namespaces could not make any
            return removed
        raise


async def _kinds(api: Api, namespace: str) -> list[tuple[str, str]]:
    """Give the kinds that a run makes, pods first: a claim goes when nobody uses it."""
    kinds = [
        (kind, f"{NAMESPACES}/{namespace}/{kind}s") for kind in (*_ALWAYS, "service", "persistentvolumeclaim")
    ]
    kinds.append(("networkpolicy", f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies"))
    with suppress(ApiError):  # where devices cannot be claimed, there is no claim of ours
        version = await dra_version(api)
        kinds.append(("resourceclaim", f"/apis/{DRA}/{version}/namespaces/{namespace}/resourceclaims"))
    return kinds


async def _names(api: Api, path: str, selector: str) -> list[str]:
    items = await api.pages(path, labelSelector=selector)
    named = (item.get("metadata") for item in items)
    return [str(one["name"]) for one in named if isinstance(one, dict) and "name" in one]


async def _until_gone(api: Api, path: str, selector: str, gone_s: float) -> None:
    try:
        async with asyncio.timeout(gone_s):
            while left := await _names(api, path, selector):  # noqa: ASYNC110 - it is elsewhere
                await asyncio.sleep(_LOOK_S)
    except TimeoutError:
        raise ApiError(0, f"{path}: still there after {gone_s:g} s: {', '.join(left)}", "timed_out") from None
