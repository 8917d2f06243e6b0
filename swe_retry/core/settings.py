"""Settings: all that a command is told, each with a dotted name as ``calls.timeout``.

A section is a frozen model whose fields give type, limit, default and help. The root of a command
has sections as its fields. Settings come from the sources of ``core/sources.py``; pydantic alone
judges their values.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    field_validator,
)
from pydantic.fields import FieldInfo

from swe_retry.core.address import without_logins
from swe_retry.core.jsontypes import map_texts

EVERY = "*"
"""The key of a mapping for all names that it does not have."""
_PAIR = re.compile(r",(?=[^,]*=)")

Root = TypeVar("Root", bound="Section")


def absolute(path: Path) -> Path:
    """Return a path as a command can be called by: absolute, with its links."""
    # pathlib raises an error for an unknown user.
    return Path(os.path.abspath(os.path.expanduser(path)))  # noqa: PTH100, PTH111


class Section(BaseModel):
    """A part of the settings, or the root of all; its paths are absolute, defaults too."""

    model_config = ConfigDict(
        frozen=True,
        validate_default=True,
        extra="forbid",
        allow_inf_nan=False,
        arbitrary_types_allowed=True,
        use_attribute_docstrings=True,
    )

    @field_validator("*")
    @classmethod
    def _make_absolute(cls, value: Any) -> Any:  # noqa: ANN401 - of any field
        if isinstance(value, Path):
            return absolute(value)
        if isinstance(value, tuple):
            return tuple(map(cls._make_absolute, value))
        return value


class WrongValueError(ValueError):
    """A value is wrong; the message begins with as much of it as may be shown."""


def _split(value: Any, parts_of: Callable[[str], list[str]]) -> Any:  # noqa: ANN401
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, (list, tuple)):
        return value
    parts: list[Any] = []
    for item in value:
        if isinstance(item, str):
            stripped = map(str.strip, parts_of(item))
            parts.extend(filter(None, stripped))
        else:
            parts.append(item)
    return parts


def split_commas(value: Any) -> Any:  # noqa: ANN401 - of any source
    """Return the parts of a text with commas, or of several; another value as it is."""
    return _split(value, lambda text: text.split(","))


def split_pairs(value: Any) -> Any:  # noqa: ANN401 - of any source
    """Return the mapping of ``NAME=VALUE,NAME=VALUE``; a bare value is that of ``EVERY`` name."""
    if isinstance(value, (int, float, str)):
        value = [value]
    if not isinstance(value, (list, tuple)):
        return value
    pairs: dict[str, str] = {}
    for text in value:
        for part in _PAIR.split(str(text)):
            name, equals, amount = part.rpartition("=")
            name = name.strip() if equals else EVERY
            if not name:
                raise ValueError("give MODEL=VALUE, as gpt-4o=50")
            if name in pairs:
                raise ValueError(f"{name} stands twice; give it once")
            pairs[name] = amount.strip()
    return pairs


Commas = BeforeValidator(split_commas)
SplitLines = BeforeValidator(lambda value: _split(value, str.splitlines))
Pairs = BeforeValidator(split_pairs)
TextList = Annotated[tuple[str, ...], Commas]
Folder = Annotated[Path, AfterValidator(lambda path: absolute(path).resolve())]
"""A path without links, which can be compared with others; each path is absolute."""


@cache
def settings_of(root: type[Section]) -> Mapping[str, FieldInfo]:
    """Return the fields of all sections by their dotted names."""
    settings = {}
    for section, info in root.model_fields.items():
        model: Any = info.annotation
        for name, field in model.model_fields.items():
            settings[f"{section}.{name}"] = field
    return settings


def chosen_settings(settings: Section) -> dict[str, Any]:
    """Return what any source gave, as JSON by section, without users in addresses."""
    chosen = settings.model_dump(mode="json", exclude_unset=True)
    without_users: dict[str, Any] = map_texts(chosen, without_logins)
    return without_users


def values_of(settings: Section) -> dict[str, Any]:
    """Return the values of all settings as JSON, by their dotted names."""
    values = {}
    for section, fields in settings.model_dump(mode="json").items():
        for name, value in fields.items():
            values[f"{section}.{name}"] = value
    return values
