"""The address of a judge, as people write it."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

API = "/api/v1"
"""Below which address the API lives."""


def server_url(text: str) -> str:
    """The judge's base URL without a trailing slash or API path; ValueError says what is wrong."""
    url = text.strip().rstrip("/").removesuffix(API)
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(
            f'the server must be a whole address such as https://judge.example.org, got "{text}"'
        )
    return url


def is_loopback(server: str) -> bool:
    """Whether the address is this machine by name or number."""
    host = urlsplit(server).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
