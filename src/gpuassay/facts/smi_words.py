"""What ``nvidia-smi -q -x`` says at one place of its log: a word, a number, or why there is none."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from gpuassay.facts.text import brief, no_value

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

TOOL: Final = "nvidia-smi"

_TRUTHS: Final = {"Yes": True, "No": False, "Enabled": True, "Disabled": False}


def said(element: Element, path: str) -> str | None:
    """Find what is said at a path; a part may say one word for all that is below: ``GPU is lost``."""
    for tag in path.split("/"):
        child = element.find(tag)
        if child is None:
            return (element.text or "").strip() or None
        element = child
    return (element.text or "").strip()


def word(text: str | None) -> Any:
    """Give a text as it is, or why there is none."""
    if text is None:
        return {"unread": "not_found", "why": f"this {TOOL} does not print it"}
    absent = no_value(text)
    return {"unread": absent, "why": f"{TOOL} says {text}"} if absent else text


def number(text: str | None, pattern: str = r"(\d{1,18})") -> Any:
    """Read the whole number that a pattern finds in a text."""
    given = word(text)
    match = re.fullmatch(pattern, given, re.ASCII) if isinstance(given, str) else None
    return int(match[1]) if match else odd(given)


def truth(text: str | None) -> Any:
    """Read yes or no."""
    given = word(text)
    return _TRUTHS.get(given, odd(given)) if isinstance(given, str) else given


def odd(given: Any) -> Any:
    """Say that a text is no value of its kind, unless it is said already why there is none."""
    return {"unread": "garbled", "why": f"{TOOL} says '{brief(given)}'"} if isinstance(given, str) else given
