"""What commands of several benchmarks share: options, and checks of settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated

import typer
from pydantic import AfterValidator

from swe_retry.kit import (
    FLAGS,
    Section,
    SettingFlag,
    UserError,
    chosen_settings,
    settings_of,
)

MODELS = "Models and agent"
INSTANCES = "Instances and tests"
"""Headings of the help, which that of ``harness.py`` has too."""
SettingsWord = Annotated[str | None, typer.Argument(metavar="WORD", hidden=True)]
"""What follows ``--settings``, in commands without arguments."""
CHART = "--chart"
Distinct = AfterValidator(lambda values: tuple(dict.fromkeys(values)))
"""For a list that has each value once."""


def among(choices: Collection[str]) -> AfterValidator:
    """Return the check that a word is one of ``choices``."""

    def check(word: str) -> str:
        if word not in choices:
            raise ValueError(f"there are {', '.join(choices)}")
        return word

    return AfterValidator(check)


def shared_flags(
    root: type[Section], lacking: Collection[str] = ()
) -> tuple[SettingFlag, ...]:
    """Return the flags of ``harness.py`` whose settings ``root`` has, without ``lacking``."""
    names = settings_of(root).keys() - set(lacking)
    return tuple(flag for flag in FLAGS if flag.setting in names)


def refuse(settings: Section, reasons: Mapping[str, str]) -> None:
    """Refuse settings that a benchmark does not heed, and whose loss would cost money or results.

    Args:
        settings: of the command.
        reasons: by setting, with what to do instead.
    """
    chosen = chosen_settings(settings)
    for setting, reason in reasons.items():
        section, _, field = setting.partition(".")
        if field in chosen.get(section, {}):
            raise UserError(f"{setting}: {reason}")
