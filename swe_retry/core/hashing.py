"""The hash that names and compares things: SHA-256, and names that fit into a file system."""

from __future__ import annotations

import hashlib

LONGEST_NAME = 200
"""Bytes of the name of a file without its ending; file systems take 255 with it."""
_HASH = 12


def sha256_of(content: bytes | str) -> str:
    """Return the hexadecimal SHA-256 of bytes, or of a text in UTF-8."""
    if isinstance(content, str):
        content = content.encode("utf-8", "surrogatepass")
    return hashlib.sha256(content).hexdigest()


def fitting_name(name: str, limit: int = LONGEST_NAME) -> str:
    """Return ``name``, or its beginning with a hash where it has more than ``limit`` bytes."""
    data = name.encode("utf-8", "surrogateescape")
    if len(data) <= limit:
        return name
    beginning = data[: limit - _HASH - 1].decode("utf-8", "ignore")
    return f"{beginning}-{sha256_of(data)[:_HASH]}"
