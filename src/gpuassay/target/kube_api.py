"""The Kubernetes API as raw JSON: no model stands between, for a model rejects what it does not know."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx2 as httpx

from gpuassay.facts.text import brief

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from gpuassay.evidence.item import Status

PAGE = 500
"""Objects a page: what the server's own tools ask for."""

_MOST_PAGES = 2000  # a million objects: more than a cluster is meant to hold
_REQUEST_S = 120.0
_ATTEMPTS = 4
_LONGEST_WAIT_S = 10.0
_RESTARTS = 3
_OVERLOADED = (429, 500, 502, 503, 504)
_STATUS: dict[int, Status] = {
    401: "denied",
    403: "denied",
    404: "not_found",
    405: "unsupported",
    408: "timed_out",
    504: "timed_out",
}
_GLOSSES = {
    401: "the API server does not know who asks (401): the token or certificate is wrong or has expired",
    403: "not allowed (403)",
    404: "there is no such thing (404)",
    409: "it is there already, or has changed (409)",
    410: "the list changed faster than it could be read (410)",
    422: "the API server does not accept the object (422)",
    429: "the API server is overloaded (429)",
}


class ApiError(Exception):
    """The API server said no, or nothing: ``code`` is the HTTP status, 0 without an answer."""

    def __init__(self, code: int, message: str, status: Status | None = None) -> None:
        gloss = _GLOSSES.get(code, f"the API server answered {code}" if code else "no answer")
        super().__init__(f"{gloss}: {message}" if message else gloss)
        self.code = code
        self.status: Status = status or _STATUS.get(code, "failed")


class Api:
    """Requests to one API server, each bounded; reading is tried again where that may help."""

    def __init__(self, client: httpx.AsyncClient, pause_s: float = 0.5) -> None:
        self._client = client
        self._pause_s = pause_s

    async def get(self, path: str, **query: str | int) -> dict[str, Any]:
        """Read one object, or one page of a list. Raises ApiError."""
        return await self._json("GET", path, query=query, again=True)

    async def ask(self, path: str, question: dict[str, Any]) -> dict[str, Any]:
        """Put a question that is written as an object, of which none is made. Raises ApiError."""
        return await self._json("POST", path, body=question, again=True)

    async def dry_run(self, path: str, item: dict[str, Any]) -> dict[str, Any]:
        """Have an object made up to the last step, and give what it would be. Raises ApiError."""
        return await self._json("POST", path, query={"dryRun": "All"}, body=item)

    async def pages(self, path: str, **query: str | int) -> list[dict[str, Any]]:
        """Read a whole list, page by page; a list that expires in between is begun again. Raises ApiError."""
        for left in reversed(range(_RESTARTS)):
            try:
                return await self._pages(path, query)
            except ApiError as error:
                if error.code != httpx.codes.GONE or not left:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def _pages(self, path: str, query: dict[str, str | int]) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        more = ""
        for _ in range(_MOST_PAGES):
            page = await self.get(path, limit=PAGE, **query, **({"continue": more} if more else {}))
            came, metadata = page.get("items"), page.get("metadata")
            if not isinstance(came, list) or not isinstance(metadata, dict):
                raise ApiError(httpx.codes.OK, f"{path}: this is no list")
            items += (item for item in came if isinstance(item, dict))
            more = metadata.get("continue") or ""
            if not more:
                return items
        raise ApiError(httpx.codes.OK, f"{path}: this is no list: it does not end")

    async def create(self, path: str, item: dict[str, Any]) -> None:
        """Make an object whose name nobody else uses. Raises ApiError."""
        try:
            await self._json("POST", path, body=item)
        except ApiError as error:
            if error.code:
                raise
            # The connection was lost: if it was made all the same, it is there already.
            await asyncio.sleep(self._pause_s)
            try:
                await self._json("POST", path, body=item)
            except ApiError as second:
                if second.code != httpx.codes.CONFLICT:
                    raise

    async def delete(self, path: str, grace_s: int | None = None) -> None:
        """Have an object removed; one that is not there is fine. Raises ApiError."""
        body: dict[str, Any] = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": "Background",
        }
        if grace_s is not None:
            body["gracePeriodSeconds"] = grace_s
        try:
            await self._json("DELETE", path, body=body, again=True)
        except ApiError as error:
            if error.code != httpx.codes.NOT_FOUND:
                raise

    @asynccontextmanager
    async def stream(self, path: str, **query: str | int) -> AsyncIterator[AsyncIterator[bytes]]:
        """Read what comes, as it comes. Raises ApiError, also when the connection is lost."""
        try:
            # A log that is silent may have lost its connection on the way: who follows it asks again.
            async with self._client.stream("GET", path, params=query) as response:
                if response.is_error:
                    raise _refusal(response.status_code, await response.aread())
                yield response.aiter_bytes()
        except httpx.HTTPError as error:
            raise _lost(path, error) from error

    async def _json(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, str | int] | None = None,
        body: dict[str, Any] | None = None,
        again: bool = False,
    ) -> dict[str, Any]:
        for left in reversed(range(_ATTEMPTS)):
            try:
                response = await self._send(method, path, query, body)
            except ApiError:
                if not again or not left:
                    raise
                await asyncio.sleep(self._pause_s * (_ATTEMPTS - left))
                continue
            # What is refused for its number was not begun, so that even making an object may be tried again.
            hopeful = response.status_code == httpx.codes.TOO_MANY_REQUESTS or (
                again and response.status_code in _OVERLOADED
            )
            if not (hopeful and left):
                return _parsed(path, response)
            await asyncio.sleep(self._asked_to_wait(response, _ATTEMPTS - left))
        raise AssertionError("the last attempt returns or raises")

    async def _send(
        self, method: str, path: str, query: dict[str, str | int] | None, body: dict[str, Any] | None
    ) -> httpx.Response:
        try:
            async with asyncio.timeout(_REQUEST_S):
                return await self._client.request(method, path, params=query, json=body)
        except TimeoutError as error:
            raise ApiError(0, f"{path}: not whole within {_REQUEST_S:g} s", "timed_out") from error
        except httpx.HTTPError as error:
            raise _lost(path, error) from error

    def _asked_to_wait(self, response: httpx.Response, attempt: int) -> float:
        asked = response.headers.get("Retry-After", "")
        wait_s = float(asked) if asked.isdecimal() else self._pause_s * attempt
        return min(wait_s, _LONGEST_WAIT_S)


def _parsed(path: str, response: httpx.Response) -> dict[str, Any]:
    if response.is_error:
        raise _refusal(response.status_code, response.content)
    try:
        document = json.loads(response.content)
    except (ValueError, RecursionError) as error:
        raise ApiError(response.status_code, f"{path}: this is no JSON: {brief(response.text)}") from error
    if not isinstance(document, dict):
        raise ApiError(response.status_code, f"{path}: this is no JSON object: {brief(response.text)}")
    return document


def _refusal(code: int, body: bytes) -> ApiError:
    """Read a Status, or whatever else a server or something before it has answered."""
    text = body.decode(errors="replace")
    try:
        status = json.loads(text)
    except (ValueError, RecursionError):
        status = None
    message = status.get("message") if isinstance(status, dict) else text
    return ApiError(code, message.strip()[:2000] if isinstance(message, str) else brief(text))


def _lost(path: str, error: httpx.HTTPError) -> ApiError:
    late = isinstance(error, httpx.TimeoutException)
    words = str(error) or type(error).__name__
    return ApiError(0, f"{path}: {words}", "timed_out" if late else "failed")
