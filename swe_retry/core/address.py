"""Addresses of servers; a user and a password in them are never recorded."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from swe_retry.core.errors import UserError

HIDDEN_USER = "***"
# The text before the last @ of an address's host is its user, in any form.
_LOGIN = re.compile(r"""(?<=://)([^\s/?\#'"<>]+)@([^\s/?\#@'"<>,;:]+)(:\d+)?""")
# A long user without a password is a token; "git" and "postgres" are not.
_SHORTEST_TOKEN = 16


def parse_address(option: str, text: str) -> SplitResult:
    """Return the parts of the HTTP address ``text``.

    Raises:
        UserError: ``text`` is not an address; the message names ``option``.
    """
    try:
        parts = urlsplit(text)
        is_address = bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise _not_an_address(option, text) from None
    # A password with / ? or # in it would be read as a part of the path.
    has_odd_password = "@" in text and "@" not in parts.netloc
    is_http = parts.scheme in ("http", "https")
    if not is_address or not is_http or has_odd_password:
        raise _not_an_address(option, text)
    return parts


def _not_an_address(option: str, text: str) -> UserError:
    _, at, host = text.rpartition("@")
    if at:
        text = f"…@{host}"
    return UserError(f"{option} {text!r}: give an address, as http://127.0.0.1:8000/v1")


def basic_auth(text: str) -> tuple[str, dict[str, str]]:
    """Return an address without its user, and the headers that send user and password.

    HTTP clients refuse a user in the address together with the header of an API key.
    """
    parts = urlsplit(text)
    if parts.username is None:
        return text, {}
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    encoded = base64.b64encode(login.encode()).decode()
    host = parts.netloc.rpartition("@")[2]
    address = parts._replace(netloc=host).geturl()
    return address, {"Authorization": f"Basic {encoded}"}


def without_logins(text: str) -> str:
    """Return ``text`` with ``***`` in place of user and password of every address in it."""
    return _LOGIN.sub(lambda match: f"{HIDDEN_USER}@{match[2]}{match[3] or ''}", text)


def has_password(text: str) -> bool:
    for match in _LOGIN.finditer(text):
        password = match[1].partition(":")[2]
        if password and not password.startswith("$"):
            return True
    return False


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
        yield f"{match[1]}@{match[2]}"
        yield f"{unquote(match[1])}@{match[2]}"
        # HTTP sends a user without a password with a colon.
        login = f"{unquote(user)}:{unquote(password)}"
        yield base64.b64encode(login.encode()).decode()
        key = user
        if colon:
            key = password
        if len(key) >= shortest and (secret or not key.isalpha()):
            yield key
            yield unquote(key)
    if secret and "?" in text:
        for _, value in parse_qsl(urlsplit(text).query):
            if len(value) >= shortest:
                yield value


def recorded_address(text: str | None) -> str | None:
    """Return an address for files, with ``***`` in place of user and password, and of the query."""
    if text is None:
        return None
    parts = urlsplit(text)
    host = parts.netloc.rpartition("@")[2]
    if "@" in parts.netloc:
        host = f"{HIDDEN_USER}@{host}"
    query = parts.query
    if query:  # some servers take their key there
        query = HIDDEN_USER
    return parts._replace(netloc=host, query=query, fragment="").geturl()
