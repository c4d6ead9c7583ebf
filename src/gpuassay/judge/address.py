"""An address in a site file: of a service, and of nothing that could be a secret."""

from __future__ import annotations

from urllib.parse import urlsplit

from gpuassay.judge.config import TEXT, Kind


def url(value: object) -> str:
    """Read a URL. Whatever could hold a secret is refused, for the site file is passed on: ValueError."""
    text: str = TEXT.read(value)
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        raise ValueError
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError("it may hold neither a user, nor a password, nor a query")
    return text


def _address(value: object) -> str:
    """Read where a service is."""
    return url(value).rstrip("/")


ADDRESS = Kind("an address such as https://prometheus.example.com", _address, "")
