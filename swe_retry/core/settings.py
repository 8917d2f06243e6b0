"""Settings: all that a command is told, each with a dotted name as ``calls.timeout``.

A section is a frozen model whose fields give type, limit, default and help. The root of a command
has sections as its fields. Settings come from the command line, files, the record of a run and
the environment; pydantic alone judges their values. A flag is a short way to give one of them.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar, get_args, get_origin

import typer
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationError,
    field_validator,
)
from pydantic.fields import FieldInfo

from swe_retry.core.address import without_logins
from swe_retry.core.errors import UserError
from swe_retry.core.jsontypes import map_texts
from swe_retry.core.untrusted import MIB, DamagedError, TextLoader, yaml_of

SETTINGS = "Everything else"
EVERY = "*"
"""The key of a mapping for all names that it does not have."""
_ENVIRONMENT = "RETRY_"
_SEPARATOR = "__"
_HINTS = 3
_CLOSE = 0.8
# As YAML is read, where every scalar is a text.
_NULLS = ("null", "~")
_PAIR = re.compile(r",(?=[^,]*=)")
# What pydantic adds to "should be a valid number".
_PARSING = re.compile(r", unable to (parse string as an? \w+|interpret input)")
_WORDING = {
    "Value error, ": "",
    "Input should be greater than or equal to": "must be at least",
    "Input should be less than or equal to": "must be at most",
    "Input should be": "must be",
}

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


class NoSuchSettingError(UserError):
    """A name is not one of a setting.

    Attributes:
        name: as it was written.
        source: the option, file or variable that it stands in.
    """

    def __init__(self, name: str, source: str, hint: str) -> None:
        super().__init__(f"{source}: there is no setting {name}{hint}")
        self.name = name
        self.source = source


class WrongValueError(ValueError):
    """A value is wrong; the message begins with as much of it as may be shown."""


@dataclass(frozen=True)
class SettingFlag:
    """An option of the command line that gives a setting.

    Attributes:
        setting: its dotted name, from which type, default and help come.
        metavar: the value as ``--help`` shows it; empty for an option without one.
    """

    setting: str
    option: str
    metavar: str
    panel: str
    short: str = ""
    repeatable: bool = False

    @property
    def names(self) -> list[str]:
        return [name for name in (self.short, self.option) if name]

    @property
    def parameter(self) -> str:
        return self.setting.replace(".", _SEPARATOR)


@dataclass(frozen=True)
class SourcedValue:
    """A value from one source, and the name for it in messages."""

    label: str
    value: Any


Layer = dict[str, SourcedValue]
"""Values by the dotted names of their settings."""


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


def _help_of(field: FieldInfo) -> str:
    """Return the text below a field in one line."""
    return " ".join(str(field.description).split())


def no_such_setting(root: type[Section], name: str, source: str) -> NoSuchSettingError:
    """Return the error for a name that no setting has, with the names that may be meant."""
    names = list(settings_of(root))
    field = name.rpartition(".")[2]
    same_field = [setting for setting in names if setting.endswith(f".{field}")]
    hints = [setting for setting in names if setting.startswith(f"{name}.")][:_HINTS]
    if not hints:
        hints = get_close_matches(name, same_field, 1, _CLOSE) or same_field
    if not hints:
        hints = get_close_matches(name, names, 1)
    hint = ""
    if hints:
        hint = f"; did you mean {' or '.join(hints)}?"
    return NoSuchSettingError(name, source, hint)


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
            raise no_such_setting(root, name, f"--set {text}")
        kind = get_origin(settings[name].annotation)
        if name in layer and kind in (tuple, dict):
            earlier = layer[name].value
            parts = earlier if isinstance(earlier, list) else [earlier]
            layer[name] = SourcedValue(name, [*parts, value])
        else:
            layer[name] = SourcedValue(name, value)
    return layer


def of_flags(
    flags: Sequence[SettingFlag],
    values: Mapping[str, Any],
    texts: Layer,
) -> Layer:
    """Return the values of flags and those of ``--set`` as one layer.

    Args:
        flags: of the command.
        values: by the flags' parameters; None, False and an empty list were not given.
        texts: what ``--set`` gave.
    """
    layer = dict(texts)
    for flag in flags:
        value = values.get(flag.parameter)
        if value is None or value is False or value == []:
            continue
        if flag.setting in texts:
            raise UserError(
                f"--set {flag.setting} and {flag.option} are the same; give one"
            )
        layer[flag.setting] = SourcedValue(flag.option, value)
    return layer


def of_file(root: type[Section], path: Path) -> Layer:
    """Return the settings of a YAML file: nested by section, or with dotted names.

    Raises:
        UserError: the file cannot be read, or has an unknown name.
    """
    where = f"--config {path}"
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
    return of_mapping(root, data, where)


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
                raise no_such_setting(root, name, where)
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
            raise no_such_setting(root, name, f"{variable} in the environment")
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
    return f"{label} {_text(value)}: {message}"


def plain_wording(message: str) -> str:
    """Return a message of pydantic in the wording of all messages."""
    message = _PARSING.sub("", message)
    for before, after in _WORDING.items():
        message = message.replace(before, after)
    return message


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


def setting_lines(
    settings: Section,
    flags: Sequence[SettingFlag],
    word: str | None,
) -> Iterator[str]:
    """Yield a line for each setting: name, value, help and flag; ``word`` narrows them."""
    options = {flag.setting: flag.option for flag in flags}
    values = values_of(settings)
    for name, field in settings_of(type(settings)).items():
        option = ""
        if name in options:
            option = f"  ({options[name]})"
        help = _help_of(field)
        line = f"{name}  {_text(values[name]) or '-'}  {help}{option}"
        if word is None or word.lower() in line.lower():
            yield line


def _text(value: Any) -> str:  # noqa: ANN401 - any JSON value
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, Mapping):
        pairs = [f"{key}={_text(item)}" for key, item in value.items()]
        return ",".join(pairs)
    if isinstance(value, (list, tuple)):
        return ",".join(map(_text, value))
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


@dataclass(frozen=True)
class CommandLine(Generic[Root]):
    """What a command line says of settings.

    Attributes:
        layer: the values of flags and ``--set``.
        files: those of ``--config``.
        asks_for_list: ``--settings`` is given.
    """

    root: type[Root]
    flags: Sequence[SettingFlag]
    layer: Layer
    files: tuple[Path, ...]
    asks_for_list: bool

    @property
    def chosen(self) -> Layer:
        """The values of the command line and the files."""
        of_files = [of_file(self.root, path) for path in self.files]
        return merge_layers(self.root, [*of_files, self.layer])

    def load(self, recorded: Layer | None = None, fixed: Layer | None = None) -> Root:
        """Return the settings.

        The command line precedes the files, of which a later one precedes; these precede the
        record, and that the environment.

        Args:
            recorded: the settings of a run that is continued.
            fixed: settings that precede all others.

        Raises:
            UserError: a name is unknown or a value is wrong; one line says where it stands.
        """
        environment = of_environment(self.root, os.environ)
        files = [of_file(self.root, path) for path in self.files]
        layers = [environment, recorded or {}, *files, self.layer, fixed or {}]
        return check_settings(self.root, merge_layers(self.root, layers))

    def prints(self, settings: Section, word: str | None = None) -> bool:
        """Print the settings with ``word`` if ``--settings`` is given; return whether it is."""
        if self.asks_for_list:
            for line in setting_lines(settings, self.flags, word):
                print(line)
        return self.asks_for_list


def command(
    root: type[Section], flags: Sequence[SettingFlag]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function such that typer gives it settings beside the options of its own.

    Its first parameter receives a ``CommandLine``. The options are the flags, those of the function
    and ``--config``, ``--set`` and ``--settings``.
    """

    def decorate(run: Callable[..., Any]) -> Callable[..., Any]:
        _, *others = inspect.signature(run, eval_str=True).parameters.values()
        parameters = [_flag_parameter(root, flag) for flag in flags]
        parameters += [other.replace(kind=_KEYWORD) for other in others]
        parameters += _source_parameters(root)

        def main(**values: Any) -> Any:  # noqa: ANN401
            flag_values = {flag.parameter: values.pop(flag.parameter) for flag in flags}
            texts = of_texts(root, values.pop(_SET) or ())
            line = CommandLine(
                root=root,
                flags=flags,
                layer=of_flags(flags, flag_values, texts),
                files=tuple(values.pop(_CONFIG) or ()),
                asks_for_list=values.pop(_SETTINGS),
            )
            return run(line, **values)

        function: Any = main
        function.__signature__ = inspect.Signature(parameters)
        function.__annotations__ = {item.name: item.annotation for item in parameters}
        function.__doc__ = run.__doc__
        return main

    return decorate


_KEYWORD = inspect.Parameter.KEYWORD_ONLY
_SET = "set_"
_CONFIG = "config"
_SETTINGS = "settings"


def _flag_parameter(root: type[Section], flag: SettingFlag) -> inspect.Parameter:
    field = settings_of(root)[flag.setting]
    text = _help_of(field)
    if not flag.metavar:
        return _parameter(flag.parameter, bool, False, flag.names, text, flag.panel)
    default = field.get_default(call_default_factory=True)
    if not isinstance(default, Path) and _text(default):
        text = f"{text} [{_text(default)}]"
    kind: Any = list[str] if flag.repeatable else str
    choices = _choices_of(field)

    def completion(start: str) -> list[str]:
        return [choice for choice in choices if choice.startswith(start)]

    return _parameter(
        flag.parameter,
        kind | None,
        None,
        flag.names,
        text,
        flag.panel,
        flag.metavar,
        completion,
    )


def _choices_of(field: FieldInfo) -> list[str]:
    choices: list[str] = []
    for kind in get_args(field.annotation) or [field.annotation]:
        if isinstance(kind, type) and issubclass(kind, Enum):
            choices.extend(member.value for member in kind)
    return choices


def _source_parameters(root: type[Section]) -> list[inspect.Parameter]:
    def names(start: str) -> list[str]:
        return [name for name in settings_of(root) if name.startswith(start)]

    return [
        _parameter(
            _CONFIG,
            list[Path] | None,
            None,
            ["--config"],
            "Read settings from this YAML file; repeatable.",
            SETTINGS,
            "FILE",
        ),
        _parameter(
            _SET,
            list[str] | None,
            None,
            ["--set"],
            "Change a setting; repeatable.",
            SETTINGS,
            "NAME=VALUE",
            names,
        ),
        _parameter(
            _SETTINGS,
            bool,
            False,
            ["--settings"],
            "List the settings and their values, those with a WORD that follows alone.",
            SETTINGS,
        ),
    ]


def _parameter(
    name: str,
    kind: Any,  # noqa: ANN401 - a type
    default: Any,  # noqa: ANN401
    options: Sequence[str],
    text: str,
    panel: str,
    metavar: str | None = None,
    completion: Callable[[str], list[str]] | None = None,
) -> inspect.Parameter:
    option = typer.Option(
        *options,
        metavar=metavar,
        help=text,
        show_default=False,
        rich_help_panel=panel,
        autocompletion=completion,
    )
    annotation = Annotated[kind, option]
    return inspect.Parameter(name, _KEYWORD, default=default, annotation=annotation)
