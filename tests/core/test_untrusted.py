"""Untrusted JSON and YAML: limits hold before slow parsing, and errors name the line."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from swe_retry.core.errors import DamagedFileError
from swe_retry.core.untrusted import (
    MAX_DEPTH,
    DamagedError,
    json_of,
    object_of,
    read_bytes,
    read_object,
    yaml_of,
)
from swe_retry.llm.model_settings import StrictLoader


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"[\n" * 100_000, "line 101: it is nested more than"),
        (
            b'{"[[[": 1,\n"\\"": ' + b"[" * 500 + b"]" * 500 + b"}",
            "line 2: it is nested",
        ),
        (b'{"a":' * 500 + b"1" + b"}" * 500, "nested more than"),
        (b'{"a": 1,\n "b": }', "line 2, column 7: "),
        (b'{"a": 1,\n "\xff": 1}', "line 2: it is not UTF-8"),
        (b"[1,\n" + b"9" * 5_000 + b"]", "a number is too long"),
        (b"", "line 1, column 1: "),
    ],
)
def test_json_that_cannot_be_read(data: bytes, problem: str) -> None:
    with pytest.raises(DamagedError) as raised:
        json_of(data)
    assert problem in str(raised.value) and "\n" not in str(raised.value)


def test_json_as_deep_as_allowed() -> None:
    deep = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    json_of(deep)
    with pytest.raises(DamagedError):
        json_of(f"[{deep}]")


@pytest.mark.parametrize(
    "text",
    [
        "[" * 32_000,
        "[\n" * 16_000,
        "{a: " * 8_000,
        "- " * 16_000,
        "? " * 16_000,
        "[" * 60_000,
    ],
)
@pytest.mark.parametrize("read", [yaml_of, partial(yaml_of, loader=StrictLoader)])
def test_nested_yaml_is_refused_at_once(
    text: str, read: Callable[[str], object]
) -> None:
    started = time.process_time()
    with pytest.raises(DamagedError) as raised:
        read(text)
    assert time.process_time() - started < 3
    assert "\n" not in str(raised.value)


def test_yaml_errors_name_the_line() -> None:
    with pytest.raises(DamagedError, match="line 2"):
        yaml_of("a: 1\nb: [")
    with pytest.raises(DamagedError, match=r"aliases.*line 2"):
        yaml_of("a: &x 1\nb: *x")
    with pytest.raises(DamagedError, match="line 3: a character"):
        yaml_of("a: 1\n\nb: \v")
    assert yaml_of("a: [1, {b: c}]") == {"a": [1, {"b": "c"}]}


def test_only_regular_files_within_the_limit_are_read(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    path.write_text("{}")
    assert read_object(path, "fix it") == {}
    with pytest.raises(DamagedError, match="2 bytes, and 1 are the most"):
        read_bytes(path, 1)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(
        DamagedFileError, match=r"pipe is broken .* not a regular file.*; fix it"
    ):
        read_object(tmp_path / "pipe", "fix it")
    path.write_text("[]")
    with pytest.raises(DamagedFileError, match="not a JSON object"):
        read_object(path, "fix it")


def test_one_line_holds_an_object() -> None:
    assert object_of(b'{"a": 1}\n') == {"a": 1}
    with pytest.raises(DamagedError, match="it is not a JSON object"):
        object_of("[1]")
