"""How messages write settings: names that are unknown, values that are wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from enum import Enum
from typing import Any

from swe_retry.core.errors import UserError
from swe_retry.core.settings import Section, settings_of

_HINTS = 3
_CLOSE = 0.8
_A_LETTER = 0.95
# What pydantic adds to "should be a valid number".
_PARSING = re.compile(r", unable to (parse string as an? \w+|interpret input)")
_WORDING = {
    "Value error, ": "",
    "Input should be greater than or equal to": "must be at least",
    "Input should be less than or equal to": "must be at most",
    "Input should be": "must be",
}


class NoSuchSettingError(UserError):
    """A name is not one of a setting; the message has the names that may be meant.

    Attributes:
        name: as it was written.
        source: the option, file or variable that it stands in.
    """

    def __init__(self, root: type[Section], name: str, source: str) -> None:
        hint = ""
        similar = _similar_names(list(settings_of(root)), name)
        if similar:
            hint = f"; did you mean {' or '.join(similar)}?"
        super().__init__(f"{source}: there is no setting {name}{hint}")
        self.name = name
        self.source = source


def _similar_names(names: list[str], name: str) -> list[str]:
    of_section = [setting for setting in names if setting.startswith(f"{name}.")]
    if of_section:
        return of_section[:_HINTS]
    section, _, field = name.rpartition(".")
    beside = [setting for setting in names if setting.startswith(f"{section}.")]
    similar = get_close_matches(name, beside, 1, _A_LETTER)
    if similar:
        return similar
    same_field = [setting for setting in names if setting.endswith(f".{field}")]
    similar = get_close_matches(name, same_field, 1, _CLOSE) or same_field
    return similar or get_close_matches(name, names, 1)


def plain_wording(message: str) -> str:
    """Return a message of pydantic in the wording of all messages."""
    message = _PARSING.sub("", message)
    for before, after in _WORDING.items():
        message = message.replace(before, after)
    return message


def text_of_value(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return a value as ``--set`` takes it; empty for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, Mapping):
        pairs = [f"{key}={text_of_value(item)}" for key, item in value.items()]
        return ",".join(pairs)
    if isinstance(value, (list, tuple)):
        return ",".join(map(text_of_value, value))
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)
