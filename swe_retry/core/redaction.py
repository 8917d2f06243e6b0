"""Redact secrets in all text that is written, shown or raised."""

from __future__ import annotations

import base64
import contextlib
import html
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus, unquote

from swe_retry.core.address import login_secrets
from swe_retry.core.jsontypes import map_texts

DOTENV_VARIABLE = "SWE_RETRY_HARNESS_DOTENV"
"""Names the variables from a file ``.env``, which are secret under any name."""
_HEADERS = ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS")
_ESCAPED = re.compile("%[0-9A-F]{2}")
_SHORTEST = 8
# A value with white space is a sentence, unless it is long enough for a PEM or JSON key.
_LONGEST_SENTENCE = 100
# As "postgres": code has such words, and edits and patches in which they are replaced are wrong.
_WORD = re.compile(r"(?=.{0,19}$)(?:[a-z]+|[A-Z][a-z]+|[A-Z]+)\d{0,4}", re.ASCII)
# Whole words of a name, so that GIT_AUTHOR_NAME, MAX_TOKENS and KEYBOARD do not match.
_WORDS = re.compile(
    r"""(?:^|_)
    (?:KEYS?|PASS|PWD|PASSPHRASE|CREDENTIALS?|AUTH|AUTHORIZATION|BEARER|COOKIE
    |[A-Z0-9]*(?:APIKEY|ACCESSKEY|SECRETKEY|TOKEN|SECRETS?|PASSWORD|PASSWD))
    (?:_|\d*$)""",
    re.IGNORECASE | re.VERBOSE,
)


@dataclass(frozen=True)
class Redactor:
    """Replaces each secret by its name in brackets.

    Attributes:
        secrets: values by name; empty values are left out.
        logins: by name, the secret parts of addresses and headers in a value.
    """

    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    logins: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)

    @classmethod
    def of_environment(cls, environ: Mapping[str, str] = os.environ) -> Redactor:
        """Return the redactor of the variables whose names and values suggest secrets.

        A value counts if it has at least 8 characters, no white space (except above 100 characters)
        and is neither an existing path nor a short word. In addresses, in any variable, user and
        password count, and keys in the headers of OpenTelemetry.
        """
        of_file = environ.get(DOTENV_VARIABLE, "").split(",")
        secrets = {}
        logins = {}
        for name, value in environ.items():
            is_of_file = name in of_file and _may_be_secret(value)
            if is_of_file or holds_secret(name, value):
                secrets[name] = value
            if "://" in value:
                parts = login_secrets(value, _SHORTEST, secret=name in secrets)
                logins[name] = tuple(parts)
        for name in _HEADERS:
            headers = environ.get(name, "")
            of_address = logins.get(name, ())
            of_headers = _header_secrets(headers)
            logins[name] = (*of_address, *of_headers)
        return cls(secrets, logins)

    def __call__(self, text: str) -> str:
        # Separate searches for each form are far faster than an alternation of all.
        forms = [form for form in self._names if form in text]
        if not forms:
            return text
        patterns = map(re.escape, forms)
        pattern = re.compile("|".join(patterns))
        return pattern.sub(lambda match: f"[{self._names[match[0]]}]", text)

    def of(self, value: Any) -> Any:  # noqa: ANN401 - any JSON value
        """Return a JSON value with all texts in it redacted, keys included."""
        return map_texts(value, self)

    def named_in(self, text: str) -> str | None:
        """Return the name of a secret in ``text``, None without one."""
        for form, name in self._names.items():
            if form in text:
                return name
        return None

    @cached_property
    def _names(self) -> dict[str, str]:
        names = {}
        for name, value in self.secrets.items():
            stripped = value.strip()
            if stripped:
                forms = _forms(stripped)
                names.update(dict.fromkeys(forms, name))
        for name, values in self.logins.items():
            for value in values:
                for form in _forms(value):
                    if len(form) >= _SHORTEST:
                        names[form] = name
                names[value] = name
        # A form may be a part of a longer one.
        longest_first = sorted(names, key=len, reverse=True)
        return {form: names[form] for form in longest_first}


class RedactingFormatter(logging.Formatter):
    """Formats records as logging does, and redacts secrets, also in tracebacks."""

    def __init__(self, redact: Redactor, style: str) -> None:
        super().__init__(style)
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        return self._redact(super().format(record))


def holds_secret(name: str, value: str) -> bool:
    return bool(_WORDS.search(name)) and _may_be_secret(value)


def _may_be_secret(value: str) -> bool:
    if len(value.strip()) < _SHORTEST or _WORD.fullmatch(value.strip()):
        return False
    parts = value.split()
    if len(parts) > 1 and len(value) <= _LONGEST_SENTENCE:
        return False
    with contextlib.suppress(OSError, ValueError):
        path = Path(value)
        is_path = path.is_absolute() and path.exists()
        return not is_path
    return True


def _header_secrets(headers: str) -> Iterator[str]:
    """Yield the keys in ``name=value,name=value``, without a word like ``Basic`` before one."""
    for header in headers.split(","):
        plain = unquote(header)
        name, _, value = plain.partition("=")
        variable = name.strip().replace("-", "_")
        for key in value.split()[-1:]:
            if holds_secret(variable, key):
                yield key


def _forms(value: str) -> Iterator[str]:
    yield value
    data = value.encode("utf-8", "surrogateescape")
    for quoted in (quote(data), quote(data, safe=""), quote_plus(data)):
        yield quoted
        yield _ESCAPED.sub(lambda match: match[0].lower(), quoted)
    for literal in (
        json.dumps(value),
        json.dumps(value, ensure_ascii=False),
        repr(value),
    ):
        yield literal[1:-1]
    yield html.escape(value)
    for before in range(3):
        code = _base64_core(data, before)
        yield code
        # As in addresses.
        code = code.replace("+", "-")
        yield code.replace("/", "_")


def _base64_core(data: bytes, before: int) -> str:
    """Return the part of base64 that depends only on ``data``, after ``before`` bytes (modulo 3).

    In ``Basic base64(user:key)`` the key is encoded together with the text around it.
    """
    padded = bytes(before) + data
    code = base64.b64encode(padded).decode()
    # A letter has 6 bits; those with bits of the bytes before are left out.
    start = (0, 2, 3)[before]
    end = len(padded) * 8 // 6
    return code[start:end]
