"""The sources of settings: texts, files, mappings and the environment, and their order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_origin

from pydantic import ValidationError

from swe_retry.core.errors import UserError
from swe_retry.core.settings import (
    EVERY,
    Root,
    Section,
    WrongValueError,
    settings_of,
    split_pairs,
)
from swe_retry.core.untrusted import MIB, DamagedError, TextLoader, yaml_of
from swe_retry.core.wording import NoSuchSettingError, plain_wording, text_of_value

_ENVIRONMENT = "RETRY_"
_SEPARATOR = "__"
# As YAML is read, where every scalar is a text.
_NULLS = ("null", "~")


@dataclass(frozen=True)
class SourcedValue:
    """A value from one source, and the name for it in messages."""

    label: str
    value: Any


Layer = dict[str, SourcedValue]
"""Values by the dotted names of their settings."""


def of_texts(root: type[Section], texts: Iterable[str]) -> Layer:
    """Return the values of ``--set NAME=VALUE``: lists in parts, of others the last counts.

    Raises:
        UserError: a text has another form, or an unknown name.
    """
    settings = settings_of(root)
    layer: Layer = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals:
            raise UserError(
                f"--set {text}: give NAME=VALUE, as {next(iter(settings))}=…"
            )
        if name not in settings:
            raise NoSuchSettingError(root, name, f"--set {text}")
        kind = get_origin(settings[name].annotation)
        if name in layer and kind in (tuple, dict):
            earlier = layer[name].value
            parts = earlier if isinstance(earlier, list) else [earlier]
            layer[name] = SourcedValue(name, [*parts, value])
        else:
            layer[name] = SourcedValue(name, value)
    return layer


def of_file(root: type[Section], path: Path) -> Layer:
    """Return the settings of a YAML file: nested by section, or with dotted names.

    Raises:
        UserError: the file cannot be read, or has an unknown name.
    """
    where = f"--config {path}"
    return of_mapping(root, read_mapping(path, where), where)


def read_mapping(path: Path, where: str) -> dict[Any, Any]:
    """Return the mapping of a YAML file, every scalar as a text; raises as ``of_file``."""
    try:
        text = path.expanduser().read_text(encoding="utf-8-sig")
        data = yaml_of(text, TextLoader, MIB)
    except OSError as error:
        raise UserError(f"{where}: cannot be read ({error.strerror})") from error
    except (DamagedError, UnicodeDecodeError) as error:
        raise UserError(f"{where}: is not YAML: {error}") from error
    if data in (None, ""):
        return {}
    if not isinstance(data, dict):
        raise UserError(f"{where}: give settings, as `models: {{tries: 5}}`")
    return data


def of_mapping(root: type[Section], data: Mapping[Any, Any], where: str) -> Layer:
    """Return the settings of a mapping: nested by section, or with dotted names."""
    settings = settings_of(root)
    layer: Layer = {}
    for key, value in data.items():
        values = {str(key): value}
        if key not in settings and isinstance(value, Mapping):
            values = {f"{key}.{name}": item for name, item in value.items()}
        for name, item in values.items():
            if name not in settings:
                raise NoSuchSettingError(root, name, where)
            if name in layer:
                raise UserError(f"{where}: {name} stands twice; give it once")
            if item in _NULLS:
                item = ""
            layer[name] = SourcedValue(f"{where}: {name}", item)
    return layer


def of_environment(root: type[Section], environment: Mapping[str, str]) -> Layer:
    """Return the settings of variables such as ``RETRY_CALLS__TIMEOUT``.

    Variables of sections that the command does not have are for other commands.
    """
    settings = settings_of(root)
    layer: Layer = {}
    for variable, value in environment.items():
        key = variable.removeprefix(_ENVIRONMENT)
        section, separator, field = key.lower().partition(_SEPARATOR)
        if key == variable or not separator:
            continue
        name = f"{section}.{field}"
        if name in settings:
            layer[name] = SourcedValue(variable, value)
        elif get_close_matches(section, root.model_fields, 1):
            raise NoSuchSettingError(root, name, f"{variable} in the environment")
    return layer


def merge_layers(root: type[Section], layers: Iterable[Layer]) -> Layer:
    """Return one layer of several, of which a later one precedes.

    A list is replaced, a mapping is united, and an empty text sets the default again.
    """
    settings = settings_of(root)
    result: Layer = {}
    for layer in layers:
        for name, sourced in layer.items():
            value = sourced.value
            if value is None or value == "":
                result.pop(name, None)
                continue
            if get_origin(settings[name].annotation) is dict:
                try:
                    value = split_pairs(value)
                except ValueError as error:
                    raise UserError(f"{sourced.label}: {error}") from None
                earlier = result.get(name)
                if earlier is not None and isinstance(value, dict):
                    value = {**earlier.value, **value}
            result[name] = SourcedValue(sourced.label, value)
    return result


def check_settings(root: type[Root], layer: Layer) -> Root:
    """Return the settings that a layer gives; what it lacks has its default.

    Raises:
        UserError: a value is wrong; names the source of it.
    """
    data: dict[str, dict[str, Any]] = {}
    for name, sourced in layer.items():
        section, _, field = name.partition(".")
        data.setdefault(section, {})[field] = sourced.value
    try:
        return root.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        sourced = layer[".".join(map(str, first["loc"][:2]))]
        raise UserError(_problem(sourced, first)) from error


def _problem(sourced: SourcedValue, error: Any) -> str:  # noqa: ANN401 - pydantic's
    value = error["input"]
    label = sourced.label
    keys = [key for key in error["loc"][2:] if isinstance(key, str)]
    if isinstance(sourced.value, dict) and keys and keys[0] != EVERY:
        label = f"{label} {keys[0]}"
    if not isinstance(value, (str, int, float)):
        value = sourced.value
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, WrongValueError):
        return f"{label} {cause}"
    message = plain_wording(error["msg"])
    return f"{label} {text_of_value(value)}: {message}"
