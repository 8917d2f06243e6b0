"""The hash that names and compares things: SHA-256."""

from __future__ import annotations

import hashlib


def sha256_of(data: bytes | str) -> str:
    """Return the hexadecimal SHA-256 of bytes, or of a text in UTF-8."""
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogatepass")
    return hashlib.sha256(data).hexdigest()
