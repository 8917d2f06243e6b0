"""What runs of several benchmarks share: the flags of ``harness.py``, and what settings mean."""

from __future__ import annotations

from collections.abc import Collection, Mapping

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
