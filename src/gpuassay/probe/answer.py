"""What came back for one question, and the words for what did not."""

from __future__ import annotations

import base64
import errno
import json
import os
from typing import Any, NamedTuple, Optional

_KINDS = {
    errno.ENOENT: "not_found",
    errno.ENOTDIR: "not_found",
    errno.ENODEV: "not_found",
    errno.ENXIO: "not_found",
    errno.EACCES: "denied",
    errno.EPERM: "denied",
}


class Answer(NamedTuple):
    """The raw answer; ``status`` other than ok says how it is absent and ``why`` says it in words."""

    status: str = "ok"
    out: bytes = b""
    exit: Optional[int] = None
    err: str = ""
    why: str = ""
    truncated: bool = False

    def parts(self) -> dict[str, Any]:
        """Give it in the form of a recording's line, without what is absent."""
        parts = self._asdict()
        out = parts.pop("out")
        try:
            parts["out"] = out.decode()
        except UnicodeDecodeError:
            parts["out_b64"] = base64.b64encode(out).decode()
        for key in ("err", "why"):  # a file's name may hold what is no text
            parts[key] = parts[key].encode(errors="replace").decode()
        return {key: value for key, value in parts.items() if value or (key == "exit" and value == 0)}


def document(value: Any) -> bytes:
    """Write a JSON document the way items carry it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def kind_of(error: OSError) -> str:
    """Tell in which of the recording's words the system refused."""
    return _KINDS.get(error.errno or 0, "failed")


def words_of(error: OSError) -> str:
    """Say what the system said, e.g. ``/dev/kmsg: Operation not permitted``."""
    text = os.strerror(error.errno) if error.errno else str(error)
    return f"{error.filename}: {text}" if error.filename else text


def unread(kind: str, why: str, **more: Any) -> dict[str, Any]:
    """Stand in a document for a value that could not be read."""
    return {"unread": kind, "why": why, **more}


def unread_because(error: OSError) -> dict[str, Any]:
    """Stand in a document for a value that the system refused."""
    return unread(kind_of(error), words_of(error))
