"""What a rank says of an error, and of foreign words."""

from __future__ import annotations


def brief(error: Exception) -> str:
    """Give its kind and its first line: libraries of accelerators add pages to it."""
    first = str(error).strip().splitlines()[:1]
    return f"{type(error).__name__}: {first[0][:300] if first else 'no words'}"


def one_line(text: str) -> str:
    """Cut a foreign text down to one printable line."""
    return " ".join("".join(c if c.isprintable() else " " for c in text[:1200]).split())[:300]
