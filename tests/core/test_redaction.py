"""Secrets are redacted in all output, in every form."""

from __future__ import annotations

import base64
import html
import io
import json
import logging
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from swe_retry.core.redaction import (
    DOTENV_VARIABLE,
    RedactingFormatter,
    Redactor,
    holds_secret,
)

KEY = 'sk-"Zq9/+é&<x>\\7%f'
REDACT = Redactor({"MY_API_KEY": KEY})


@pytest.mark.parametrize(
    "form",
    [
        KEY,
        json.dumps(KEY)[1:-1],
        json.dumps(KEY, ensure_ascii=False)[1:-1],
        repr(KEY)[1:-1],
        quote(KEY),
        quote(KEY, safe=""),
        quote(KEY, safe="").replace("%2F", "%2f").replace("%2B", "%2b").lower(),
        quote_plus(KEY),
        html.escape(KEY),
    ],
)
def test_each_form_is_redacted(form: str) -> None:
    if form.islower():
        redact = Redactor({"MY_API_KEY": KEY.lower()})
        assert redact(f"a {form} b") == "a [MY_API_KEY] b"
    else:
        assert REDACT(f"a {form} b") == "a [MY_API_KEY] b"


@pytest.mark.parametrize("user", ["", "u", "me", "you", "user name"])
@pytest.mark.parametrize("after", ["", "x", "\n", " and more"])
def test_it_is_found_in_base64_wherever_it_begins(user: str, after: str) -> None:
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        code = encode(f"{user}{KEY}{after}".encode()).decode()
        redacted = REDACT(f"Authorization: Basic {code}")
        assert "[MY_API_KEY]" in redacted
        rest = redacted.removeprefix("Authorization: Basic ").split("[MY_API_KEY]")
        # Of the key itself only a few bits at its ends may remain.
        assert sum(map(len, rest)) <= (len(user) + len(after.encode())) * 4 // 3 + 7


def test_the_longest_secret_is_replaced_first_and_names_are_no_text_to_search() -> None:
    redact = Redactor(
        {"SHORT_KEY": "abcdefgh", "LONG_KEY": "abcdefgh-ijkl", "T": "LONG_KEY"}
    )
    assert redact("abcdefgh-ijkl abcdefgh-i") == "[LONG_KEY] [SHORT_KEY]-i"


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY", "OPENAI_APIKEY", "GITHUB_TOKEN", "GH_TOKEN", "AWS_SECRET_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID", "PGPASSWORD", "MYSQL_PWD", "NPM_CONFIG__AUTH", "my_secret",
        "SESSION_COOKIE", "API_KEY_2", "API_KEY2", "apiToken", "SMTP_PASS", "AZURE_CLIENT_SECRET",
    ],
)  # fmt: skip
def test_names_that_say_a_secret(name: str) -> None:
    assert holds_secret(name, "0123456789abcdef")


@pytest.mark.parametrize(
    "name",
    [
        "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "MAX_TOKENS", "TOKENIZERS_PARALLELISM", "KEYBOARD",
        "MONKEY", "PATH", "AWS_REGION", "GOOGLE_CLOUD_PROJECT", "HOME", "XAUTHORITY", "COMPASS",
    ],
)  # fmt: skip
def test_names_that_say_none(name: str) -> None:
    assert not holds_secret(name, "0123456789abcdef")


def test_values_that_are_no_secrets(tmp_path: Path) -> None:
    assert not holds_secret("API_KEY", "short")
    assert not holds_secret("API_KEY", "a few ordinary words")
    assert not holds_secret("SSH_AUTH_SOCK", str(tmp_path))
    assert holds_secret("SSH_AUTH_SOCK", str(tmp_path / "none"))
    assert holds_secret("API_KEY", "x" * 100_000), "too long for a path"
    assert holds_secret("API_KEY", "0123456789\n"), "as from a file"
    assert holds_secret(
        "PRIVATE_KEY", "-----BEGIN RSA PRIVATE KEY-----\n" + "QUJD" * 30
    )


@pytest.mark.parametrize(
    "word",
    ["postgres", "changeme", "PASSWORD", "Password", "postgres123", "mysecretpassword"],
)
def test_a_word_is_no_secret(word: str) -> None:
    """Code has it as well, and edits and patches without it would be wrong ones."""
    redact = Redactor.of_environment(
        {"POSTGRES_PASSWORD": word, "KEY_OF_FILE": word, DOTENV_VARIABLE: "KEY_OF_FILE"}
    )
    code = f'vendor == "{word}"'
    assert redact(code) == code


@pytest.mark.parametrize(
    "secret", ["kXqZpWmBv", "hunter2hunter2", "postgres12345", "sk-abcdefgh", "a" * 20]
)
def test_what_is_no_word_is_a_secret(secret: str) -> None:
    assert holds_secret("POSTGRES_PASSWORD", secret)


def test_values_read_from_files_are_found_without_their_line_ends() -> None:
    redact = Redactor.of_environment(
        {"API_KEY": "0123456789\n", "PATH": "/bin:/usr/bin"}
    )
    assert redact("key 0123456789, /bin:/usr/bin") == "key [API_KEY], /bin:/usr/bin"


def test_values_of_json_are_walked_and_its_types_kept() -> None:
    value = {"a": [KEY, 1, None, True, {KEY: (f"<{KEY}>", 1.5)}]}
    walked = {
        "a": ["[MY_API_KEY]", 1, None, True, {"[MY_API_KEY]": ["<[MY_API_KEY]>", 1.5]}]
    }
    assert REDACT.of(value) == walked


def test_an_empty_value_replaces_nothing() -> None:
    assert Redactor({"A_KEY": "", "B_KEY": " "})("some text") == "some text"
    assert Redactor()("some text") == "some text"


def test_a_secret_is_named_without_being_shown() -> None:
    assert REDACT.named_in(f"my-agent --key {KEY}") == "MY_API_KEY"
    assert REDACT.named_in("my-agent") is None
    assert KEY not in repr(REDACT)


def test_log_records_lose_secrets_in_message_arguments_and_tracebacks() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(RedactingFormatter(REDACT, "%(levelname)s %(message)s"))
    log = logging.Logger("x")
    log.addHandler(handler)
    try:
        raise ValueError(f"refused: {KEY}")
    except ValueError:
        log.exception("with %s and %r", KEY, {"key": KEY})
    text = stream.getvalue()
    assert text.startswith("ERROR with [MY_API_KEY] and {'key': '[MY_API_KEY]'}\n")
    assert "ValueError: refused: [MY_API_KEY]" in text
    assert "Zq9" not in text


@pytest.mark.parametrize(
    ("value", "text", "redacted"),
    [
        (
            "http://me:pw@host:80/v1",
            "to http://me:pw@host:80/v1!",
            "to http://[A_URL]:80/v1!",
        ),
        ("http://me:pw@host:80/v1", "me:pw and host", "me:pw and host"),
        (
            "http://me:p%40ss%2Fword1@host",
            "p@ss/word1 p%40ss%2Fword1",
            "[A_URL] [A_URL]",
        ),
        ("http://me:pa@ss-word@host", "pa@ss-word", "[A_URL]"),
        ("postgres://postgres:password@db/x", "a password", "a password"),
        ("postgres://postgres:password@db/x", "postgres:password@db", "[A_URL]"),
        ("http://tok-0123456789abcdef@host", "tok-0123456789abcdef", "[A_URL]"),
        ("ssh://git@github.com/x/y", "git@github.com git", "git@github.com git"),
        (
            "http://me:pw-0123@a,http://me:pw-4567@b",
            "me:pw-4567@b me:pw-0123@a",
            "[A_URL] [A_URL]",
        ),
    ],
)
def test_logins_in_addresses_of_any_variable(
    value: str, text: str, redacted: str
) -> None:
    assert Redactor.of_environment({"A_URL": value})(text) == redacted


def test_a_login_is_found_as_a_header() -> None:
    redact = Redactor.of_environment({"A_URL": "http://me:a%2Fb@host"})
    assert redact("Basic " + base64.b64encode(b"me:a/b").decode()) == "Basic [A_URL]"


@pytest.mark.parametrize("blank", [" ", "%20"])
def test_keys_in_the_headers_of_opentelemetry(blank: str) -> None:
    headers = f"Authorization=Basic{blank}cGstbGY6c2stbGY=, x-project-name=astropy-runs,api_key=k-1"
    redact = Redactor.of_environment({"OTEL_EXPORTER_OTLP_HEADERS": headers})
    assert redact("Basic cGstbGY6c2stbGY= of astropy-runs, k-1") == (
        "Basic [OTEL_EXPORTER_OTLP_HEADERS] of astropy-runs, k-1"
    )
    redact = Redactor.of_environment(
        {"OTEL_EXPORTER_OTLP_TRACES_HEADERS": "x-api-key=0123456789"}
    )
    assert redact("0123456789") == "[OTEL_EXPORTER_OTLP_TRACES_HEADERS]"
