"""Which languages can be tested here, and why the others cannot."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from environments.base import EnvironmentKind
from exercises.exercism.languages import LANGUAGES, missing_tools
from exercises.exercism.testing.tester import TestSettings

_SECONDS = 60.0


def usable(
    languages: Iterable[str],
    settings: TestSettings,
    kind: EnvironmentKind,
    python: Path | None = None,
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the names of the languages that can be tested, and a reason for each other one.

    ``python`` is that of ``make_tester``.
    """
    names = tuple(dict.fromkeys(languages))
    reasons = {name: _problem(name, settings, kind, python) for name in names}
    return (
        tuple(name for name in names if not reasons[name]),
        {name: reason for name, reason in reasons.items() if reason},
    )


def _problem(name: str, settings: TestSettings, kind: EnvironmentKind, python: Path | None) -> str:
    """Return in a line why a language cannot be tested, empty if it can."""
    if name not in LANGUAGES:
        return f"there is no language {name}"
    if kind is EnvironmentKind.LOCAL and (missing := missing_tools(LANGUAGES[name])):
        return f"{', '.join(missing)} not found; install it"
    return ""
