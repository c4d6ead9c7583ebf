"""Answers of the API server that are no objects: its version, its groups, and every way to say no."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubeapi.store import Object


class Refusal(Exception):  # noqa: N818 - it is an answer
    """A ``Status``, or plain text for one without a reason, as the body of an answer."""

    def __init__(self, code: int, reason: str, message: str, details: Any = None, wait_s: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.headers = {"Retry-After": str(wait_s)} if wait_s else {}
        if not reason:
            self.body: Object | bytes = f"{message}\n".encode()
            return
        self.body = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            **({"details": details} if details else {}),
            "code": code,
        }


def unauthorized() -> Refusal:
    """Refuse who is not known."""
    return Refusal(401, "Unauthorized", "Unauthorized")


def forbidden(message: str, plural: str, name: str = "") -> Refusal:
    """Refuse what is not allowed."""
    return Refusal(403, "Forbidden", message, {**({"name": name} if name else {}), "kind": plural})


def not_allowed(verb: str, resource: str, group: str, namespace: str) -> Refusal:
    """Refuse what the user's roles do not allow."""
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    what = f'{verb} resource "{resource}" in API group "{group}"'
    message = f'{resource} is forbidden: User "bob" cannot {what} {where}'
    return forbidden(message, resource.partition("/")[0])


def missing(plural: str, name: str) -> Refusal:
    """Say that there is no such object."""
    return Refusal(404, "NotFound", f'{plural} "{name}" not found', {"name": name, "kind": plural})


def exists(plural: str, name: str) -> Refusal:
    """Say that there is such an object already."""
    return Refusal(409, "AlreadyExists", f'{plural} "{name}" already exists', {"name": name, "kind": plural})


def expired() -> Refusal:
    """Say that a list has gone on too long."""
    return Refusal(
        410, "Expired", "The provided continue parameter is too old to display a consistent list result."
    )


def invalid(kind: str, name: str) -> Refusal:
    """Refuse an object for its name."""
    why = f'Invalid value: "{name}": a lowercase RFC 1123 subdomain must consist of …'
    cause = {"reason": "FieldValueInvalid", "message": why, "field": "metadata.name"}
    details = {"name": name, "kind": kind, "causes": [cause]}
    return Refusal(422, "Invalid", f'{kind} "{name}" is invalid: metadata.name: {why}', details)


def overloaded(wait_s: int) -> Refusal:
    """Ask to come again."""
    return Refusal(429, "TooManyRequests", "too many requests, please try again later", wait_s=wait_s)


def version(minor: int) -> Object:
    """Say which server this is."""
    newer = {
        "emulationMajor": "1",
        "emulationMinor": str(minor),
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": str(minor - 1),
    }
    return {
        "major": "1",
        "minor": str(minor),
        **(newer if minor > 32 else {}),
        "gitVersion": f"v1.{minor}.2",
        "gitCommit": "synthetic",
        "gitTreeState": "clean",
        "buildDate": "2026-11-30T00:00:00Z",
        "goVersion": "go1.26.6" if minor > 32 else "go1.19.8",
        "compiler": "gc",
        "platform": "linux/amd64",
    }


def group(name: str, versions: tuple[str, ...]) -> Object:
    """Describe a group."""
    served = [{"groupVersion": f"{name}/{one}", "version": one} for one in versions]
    return {"name": name, "versions": served, "preferredVersion": served[0]}
