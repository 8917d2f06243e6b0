"""Addresses of servers; a user and a password in them are never recorded."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from core.errors import UserError

HIDDEN_USER = "***"
# The text before the last @ of an address's host is its user, in any form.
_LOGIN = re.compile(r"""(?<=://)([^\s/?\#'"<>]+)@([^\s/?\#@'"<>,;:]+)(:\d+)?""")
# A long user without a password is a token; "git" and "postgres" are not.
_SHORTEST_TOKEN = 16


@dataclass(frozen=True)
class Address:
    """An HTTP address.

    Attributes:
        given: as the user wrote it.
        recorded: with ``***`` in place of user and password, and of the query.
    """

    given: str
    recorded: str

    @property
    def secret(self) -> bool:
        """Whether the address has a part that is not recorded."""
        return self.given != self.recorded


def parse_address(option: str, text: str) -> Address:
    """Return the address in ``text``.

    Raises:
        UserError: ``text`` is not an address; the message names ``option``.
    """
    try:
        parts = urlsplit(text)
        valid = (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and parts.port != 0
        )
        # A password with / ? or # in it would be read as a part of the path.
        valid = valid and ("@" not in text or "@" in parts.netloc)
    except ValueError:
        valid = False
    if not valid:
        shown = "…@" + text.rpartition("@")[2] if "@" in text else text
        raise UserError(
            f"{option} {shown!r}: give an address, as http://127.0.0.1:8000/v1"
        )
    return Address(text, _without_user(parts))


def basic_auth(text: str) -> tuple[str, dict[str, str]]:
    """Return an address without its user, and the headers that send user and password.

    HTTP clients refuse a user in the address together with the header of an API key.
    """
    parts = urlsplit(text)
    if parts.username is None:
        return text, {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    plain = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return plain, {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def _without_user(parts: SplitResult) -> str:
    _, at, host = parts.netloc.rpartition("@")
    netloc = f"{HIDDEN_USER}@{host}" if at else host
    # Some servers take their key in the query.
    return parts._replace(
        netloc=netloc, query=HIDDEN_USER if parts.query else ""
    ).geturl()


def without_logins(text: str) -> str:
    """Return ``text`` with ``***`` in place of user and password of every address in it."""
    return _LOGIN.sub(lambda match: f"{HIDDEN_USER}@{match[2]}{match[3] or ''}", text)


def has_password(text: str) -> bool:
    found = (match[1].partition(":")[2] for match in _LOGIN.finditer(text))
    return any(password and not password.startswith("$") for password in found)


def login_secrets(text: str, shortest: int, *, secret: bool) -> Iterator[str]:
    """Yield the parts of addresses in ``text`` that must not be shown.

    A password alone counts from ``shortest`` characters on, and without ``secret`` only if it does
    not consist of letters: a word such as "password" is common, and a redacted patch is broken.
    With ``secret`` the values of a query count as well.
    """
    for match in _LOGIN.finditer(text):
        user, colon, password = match[1].partition(":")
        if not colon and len(user) < _SHORTEST_TOKEN:
            continue
        pair = f"{unquote(user)}:{unquote(password)}" if colon else unquote(user)
        for login in (match[1], pair):
            yield f"{login}@{match[2]}"
        yield base64.b64encode((pair if colon else f"{pair}:").encode()).decode()
        word = password if colon else user
        if len(word) >= shortest and (secret or not word.isalpha()):
            yield word
            yield unquote(word)
    if secret and "?" in text:
        for _, value in parse_qsl(urlsplit(text).query):
            if len(value) >= shortest:
                yield value


def recorded_address(text: str | None) -> str | None:
    """Return an address without its user and password, for files."""
    return None if text is None else _without_user(urlsplit(text))
