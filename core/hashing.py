"""The hash that names and compares things: SHA-256."""

from __future__ import annotations

import hashlib


def sha256_of(content: bytes | str) -> str:
    """Return the hexadecimal SHA-256 of bytes, or of a text in UTF-8."""
    if isinstance(content, str):
        content = content.encode("utf-8", "surrogatepass")
    return hashlib.sha256(content).hexdigest()
