"""Options that give settings, and what a command line says of settings."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, Generic, get_args

import typer
from pydantic.fields import FieldInfo

from swe_retry.core.errors import UserError
from swe_retry.core.settings import Root, Section, settings_of, values_of
from swe_retry.core.sources import (
    Layer,
    SourcedValue,
    check_settings,
    merge_layers,
    of_environment,
)
from swe_retry.core.wording import text_of_value


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
    def name(self) -> str:
        """The name of the parameter that receives the value."""
        return self.setting.replace(".", "__")

    def parameter(self, root: type[Section]) -> Parameter:
        """Return the parameter by which typer knows the option; None and False: not given."""
        field = settings_of(root)[self.setting]
        text = _help_of(field)
        kind: Any = bool
        absent: bool | None = False
        if self.metavar:
            text += _default_of(field)
            kind = str | None
            absent = None
        if self.repeatable:
            kind = list[str] | None
        choices = list(_choices_of(field))

        def complete(start: str) -> list[str]:
            return [choice for choice in choices if choice.startswith(start)]

        option = typer.Option(
            *filter(None, (self.short, self.option)),
            metavar=self.metavar or None,
            help=text,
            show_default=False,
            rich_help_panel=self.panel,
            autocompletion=complete,
        )
        annotation = Annotated[kind, option]
        keyword = Parameter.KEYWORD_ONLY
        return Parameter(self.name, keyword, default=absent, annotation=annotation)


def _help_of(field: FieldInfo) -> str:
    """Return the text below a field in one line."""
    return " ".join(str(field.description).split())


def _default_of(field: FieldInfo) -> str:
    """Return the default as the help shows it; a folder is told by its text."""
    default = field.get_default(call_default_factory=True)
    text = text_of_value(default)
    if text and not isinstance(default, Path):
        return f" [{text}]"
    return ""


def _choices_of(field: FieldInfo) -> Iterator[str]:
    for kind in get_args(field.annotation) or [field.annotation]:
        if isinstance(kind, type) and issubclass(kind, Enum):
            for member in kind:
                yield member.value


def of_flags(
    flags: Sequence[SettingFlag], values: Mapping[str, Any], texts: Layer
) -> Layer:
    """Return the values of flags and those of ``--set`` as one layer.

    Args:
        flags: of the command.
        values: by the flags' parameters; None, False and an empty list were not given.
        texts: what ``--set`` gave.
    """
    layer = dict(texts)
    for flag in flags:
        value = values[flag.name]
        if value is None or value is False or value == []:
            continue
        if flag.setting in texts:
            raise UserError(
                f"--set {flag.setting} and {flag.option} are the same; give one"
            )
        layer[flag.setting] = SourcedValue(flag.option, value)
    return layer


@dataclass(frozen=True)
class CommandLine(Generic[Root]):
    """What a command line says of settings.

    Attributes:
        options: the values of flags and ``--set``.
        files: those of ``--config``.
        asks_for_list: ``--settings`` is given.
    """

    root: type[Root]
    options: Layer
    files: Sequence[Layer] = ()
    flags: Sequence[SettingFlag] = ()
    asks_for_list: bool = False

    @property
    def chosen(self) -> Layer:
        """The values of the command line and the files."""
        return merge_layers(self.root, [*self.files, self.options])

    def load(
        self,
        recorded: Layer | None = None,
        fixed: Layer | None = None,
        word: str | None = None,
    ) -> Root:
        """Return the settings; if ``--settings`` is given, print them and end the command.

        The command line precedes the files, of which a later one precedes; these precede the
        record, and that the environment.

        Args:
            recorded: the settings of a run that is continued.
            fixed: settings that precede all others.
            word: narrows what is printed.

        Raises:
            UserError: a name is unknown or a value is wrong; one line says where it stands.
        """
        environment = of_environment(self.root, os.environ)
        layers = [environment, recorded or {}, *self.files, self.options, fixed or {}]
        settings = check_settings(self.root, merge_layers(self.root, layers))
        if self.asks_for_list:
            for line in setting_lines(settings, self.flags, word):
                print(line)
            raise typer.Exit
        return settings


def setting_lines(
    settings: Section, flags: Sequence[SettingFlag], word: str | None
) -> Iterator[str]:
    """Yield a line for each setting: name, value, help and flag; ``word`` narrows them."""
    options = {flag.setting: f"  ({flag.option})" for flag in flags}
    values = values_of(settings)
    for name, field in settings_of(type(settings)).items():
        value = text_of_value(values[name]) or "-"
        line = f"{name}  {value}  {_help_of(field)}{options.get(name, '')}"
        if word is None or word.lower() in line.lower():
            yield line
