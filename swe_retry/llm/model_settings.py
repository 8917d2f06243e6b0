"""Settings of models from YAML: a user's file, then the harness's own exceptions and aliases.

This module does not use litellm: settings without a rule are None; ``swe_retry.llm.registry`` fills
them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, field, fields
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    StrictBool,
    TypeAdapter,
    ValidationError,
)
from pydantic.dataclasses import dataclass

from swe_retry.core.errors import UserError
from swe_retry.core.hashing import sha256_of
from swe_retry.core.untrusted import (
    MIB,
    DamagedError,
    OnceOnly,
    ShallowNodes,
    yaml_of,
)
from swe_retry.llm.chat import Reminder

ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
TokenCount = Annotated[int, Field(strict=True, gt=0)]
_OF_THE_HARNESS = {
    *(
        "model",
        "messages",
        "prompt",
        "stream",
        "stream_options",
        "tools",
        "tool_choice",
    ),
    *("n", "temperature", "max_tokens", "max_completion_tokens", "reasoning_effort"),
}


def _check_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    taken = sorted(_OF_THE_HARNESS.intersection(parameters))
    if taken:
        raise ValueError(f"the harness itself sets {', '.join(taken)}; leave it out")
    return parameters


Parameters = Annotated[dict[str, Any], AfterValidator(_check_parameters)]
_CLOSED = ConfigDict(extra="forbid")
_OURS = Path(__file__).with_name("model-settings.yaml")
_FIXES = {
    "unexpected_keyword_argument": "no such key; there are {keys}",
    "bool_type": "give true or false",
    "int_type": "give a whole number of tokens",
    "greater_than": "give a number of tokens above 0",
    "string_type": "give a text, in quotes where YAML sees a number",
    "dict_type": "give keys with values, as `KEY: VALUE`",
    "dataclass_type": "give keys with values, as `KEY: VALUE`",
}


@dataclass(frozen=True, config=_CLOSED)
class ModelSettings:
    """The settings of one model; litellm's map decides for None.

    Attributes:
        temperature: whether the model takes one.
        reasoning_effort: how long the model thinks; None sends nothing.
        cache_markers: whether the provider caches only marked messages.
        prefill: whether the model continues a last message of the role ``assistant``.
        context: tokens of the window.
        max_output: tokens of the longest reply; sent as the limit if a rule sets it.
        parameters: what else is sent with every call, such as ``top_k``; else the server decides.
    """

    edit_format: str | None = None
    reminder: Reminder | None = None
    temperature: StrictBool | None = None
    reasoning_effort: ReasoningEffort | None = None
    cache_markers: StrictBool | None = None
    prefill: StrictBool | None = None
    tools: StrictBool | None = None
    images: StrictBool | None = None
    context: TokenCount | None = None
    max_output: TokenCount | None = None
    # The settings are keys of caches: an object has no hash.
    parameters: Parameters | None = field(default=None, hash=False)

    def or_else(self, other: ModelSettings) -> ModelSettings:
        return ModelSettings(**asdict(other) | self.as_json())

    def as_json(self) -> dict[str, Any]:
        """Return the settings that are not None, for ``run.json``."""
        return {key: value for key, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, config=_CLOSED)
class SettingsFile:
    """One file: names by alias, and settings by exact name or pattern, in its order."""

    aliases: dict[str, str] = field(default_factory=dict)
    models: dict[str, ModelSettings] = field(default_factory=dict)

    def rules(self, name: str) -> Iterator[ModelSettings]:
        """Yield the settings for ``name`` in order of precedence."""
        if name in self.models:
            yield self.models[name]
        for pattern, settings in self.models.items():
            matched_name = name
            if "/" not in pattern:
                matched_name = name.rpartition("/")[2]
            if pattern != name and fnmatchcase(matched_name.lower(), pattern.lower()):
                yield settings


@dataclass(frozen=True)
class SettingsBook:
    """Files in order of precedence; the last is the harness's own."""

    files: tuple[SettingsFile, ...]

    @property
    def aliases(self) -> dict[str, str]:
        """Name or pattern by alias."""
        aliases = {}
        for file in reversed(self.files):
            aliases.update(file.aliases)
        return aliases

    def of(self, name: str) -> ModelSettings:
        """Return the settings of the model with litellm's ``name``."""
        settings = ModelSettings()
        for file in self.files:
            for rule in file.rules(name):
                settings = settings.or_else(rule)
        return settings


def load_settings(path: Path | None, formats: Collection[str]) -> SettingsBook:
    """Return the settings in the file at ``path``, completed by the harness's own.

    Raises:
        UserError: the file has an error; the message names the file, the key and the fix.
    """
    files = [_read(_OURS, formats)]
    if path:
        files.insert(0, _read(path, formats))
    return SettingsBook(tuple(files))


@cache
def our_settings() -> SettingsBook:
    return SettingsBook((_read(_OURS, None),))


def settings_sha256(settings: Mapping[str, ModelSettings]) -> str:
    """Return the hash of the settings of a run's models, by name."""
    content = {name: settings[name].as_json() for name in settings}
    return sha256_of(json.dumps(content, sort_keys=True))


def _read(path: Path, formats: Collection[str] | None) -> SettingsFile:
    try:
        data = yaml_of(path.read_text("utf-8"), StrictLoader, MIB)
        if data is None:
            data = {}
        file = TypeAdapter(SettingsFile).validate_python(data)
    except OSError as error:
        raise _mistake(
            path, f"cannot be read ({error.strerror}); give a YAML file"
        ) from error
    except (DamagedError, UnicodeDecodeError) as error:
        raise _mistake(path, f"is not YAML: {error}") from error
    except ValidationError as error:
        raise _mistake(path, _first(error)) from error
    for pattern, settings in file.models.items():
        name = settings.edit_format
        if formats is not None and name is not None and name not in formats:
            alternatives = ", ".join(formats)
            problem = f"edit_format: {name!r} is none of {alternatives}"
            raise _mistake(path, f"models: {pattern}: {problem}")
    return file


def _mistake(path: Path, problem: str) -> UserError:
    return UserError(f"models.file {path}: {problem}")


def _first(error: ValidationError) -> str:
    first = error.errors()[0]
    keys = [str(part) for part in first["loc"] if part != "[key]"]
    owner: type = SettingsFile
    if keys[:1] == ["models"] and len(keys) > 1:
        owner = ModelSettings
    fix = _FIXES.get(first["type"], first["msg"])
    names = ", ".join(item.name for item in fields(owner))
    return ": ".join([*keys, fix.format(keys=names)])


class StrictLoader(ShallowNodes, OnceOnly, yaml.SafeLoader):
    """Loads YAML without repeated keys."""
