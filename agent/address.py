"""Addresses of servers, which may hold a user and a password that nothing may record."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from agent.errors import UserError

HIDDEN_USER = "***"


@dataclass(frozen=True)
class Address:
    """An HTTP address.

    Attributes:
        given: as the user wrote it.
        recorded: with ``***`` in place of user and password.
        password: empty where there is none.
    """

    given: str
    recorded: str
    password: str = ""


def parse_address(option: str, text: str) -> Address:
    """Return the address that ``text`` says.

    Raises:
        UserError: it is none, naming ``option``.
    """
    try:
        parts = urlsplit(text)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        shown = "…@" + text.rpartition("@")[2] if "@" in text else text
        raise UserError(f"{option} {shown!r}: give an address, as http://127.0.0.1:8000/v1")
    return Address(text, _without_user(parts), parts.password or "")


def basic_auth(text: str) -> tuple[str, dict[str, str]]:
    """Return an address without its user, and the headers that send user and password instead.

    HTTP clients refuse a user in the address beside the header of an API key.
    """
    parts = urlsplit(text)
    if parts.username is None:
        return text, {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    plain = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return plain, {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def _without_user(parts: SplitResult) -> str:
    _, at, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{HIDDEN_USER}@{host}" if at else host).geturl()


def recorded_address(text: str | None) -> str | None:
    """Return an address without its user and password, as files hold it."""
    return None if text is None else _without_user(urlsplit(text))
