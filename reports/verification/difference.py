"""Pure: the differences of two JSON values or texts, in words."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from core.errors import DamagedFileError
from core.parsing.untrusted import Keys, key_path
from core.plaintext import one_line

_LONGEST = 80
_MISSING = object()


@dataclass(frozen=True)
class Difference:
    """A file that differs from what is expected."""

    file: Path
    what: str
    unreadable: bool = False

    def line(self, root: Path) -> str:
        """Return one printable line for the user, with the path relative to ``root``."""
        name = (
            self.file.relative_to(root) if self.file.is_relative_to(root) else self.file
        )
        return one_line(f"{name}: {self.what}")


def readable(differences: Iterable[Difference]) -> Iterator[Difference]:
    """Yield ``differences`` up to the first file that cannot be read, which is the last one."""
    try:
        yield from differences
    except DamagedFileError as error:
        yield Difference(error.path, error.words, unreadable=True)


def first_difference(found: Any, expected: Any, keys: Keys = ()) -> str | None:  # noqa: ANN401
    return next(all_differences(found, expected, keys), None)


def all_differences(
    found: Any,  # noqa: ANN401
    expected: Any,  # noqa: ANN401
    keys: Keys = (),
) -> Iterator[str]:
    """Yield every place where ``found`` is not ``expected``, with the path of its keys."""
    if isinstance(found, Mapping) and isinstance(expected, Mapping):
        for key in [*expected, *(key for key in found if key not in expected)]:
            pair = found.get(key, _MISSING), expected.get(key, _MISSING)
            yield from all_differences(*pair, (*keys, key))
    elif isinstance(found, (list, tuple)) and isinstance(expected, (list, tuple)):
        for number, pair in enumerate(zip_longest(found, expected, fillvalue=_MISSING)):
            yield from all_differences(*pair, (*keys, number))
    elif found != expected or isinstance(found, bool) is not isinstance(expected, bool):
        yield f"{key_path(keys) or 'it'} {_compared(found, expected)}"


def first_line(file: Path, found: str, expected: str) -> Iterator[Difference]:
    """Yield the first line of ``found``, the text of ``file``, that is not the expected one."""
    pairs = zip_longest(found.split("\n"), expected.split("\n"), fillvalue=_MISSING)
    for number, (one, other) in enumerate(pairs, 1):
        if one != other:
            yield Difference(file, f"line {number}: it {_compared(one, other)}")
            return


def _compared(found: object, expected: object) -> str:
    return f"is {_shown(found, expected)}, but should be {_shown(expected, found)}"


def _shown(value: object, other: object) -> str:
    """Return ``value`` on one line; for long texts the part around the first difference."""
    if value is _MISSING:
        return "missing"
    text = json.dumps(value, ensure_ascii=True, default=str)
    if len(text) <= _LONGEST:
        return text
    against = (
        json.dumps(other, ensure_ascii=True, default=str)
        if other is not _MISSING
        else ""
    )
    same = next(
        (n for n, (a, b) in enumerate(zip(text, against, strict=False)) if a != b), 0
    )
    start = max(0, min(same, len(text) - 1) - _LONGEST // 4)
    return f"{'…' if start else ''}{text[start : start + _LONGEST]}…"
