"""Restore the settings of test runners in files that also hold settings of other tools. Pure.

The tests use a candidate's file with the base commit's settings of test runners. A model wrote the
file, so nothing is guessed: if parsers could read it differently, its whole change counts as a
change of test configuration.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath

from bench.regression.configuration.inisettings import with_ini_settings_of
from bench.regression.configuration.tomlsettings import with_toml_settings_of

# Characters. Real files have up to 30,000; longer ones could slow down a parser.
_LARGEST = 100_000
# Parsers differ in where they see settings, so a change may not add these words anywhere.
_TELLING = re.compile(r"ini_options|pytest11|tool:pytest|\[pytest\]")


def with_settings_of(path: str, base: str, new: str) -> str | None:
    """Return ``new`` with the settings that a test runner reads taken from ``base``.

    Args:
        path: a shared file (``is_shared``); its name determines the format.
        base: text of the base commit's file.
        new: text of the candidate's file; empty for a deleted one.

    Returns:
        ``new`` itself if no such setting differs; None if the settings cannot be separated.
    """
    if max(len(base), len(new)) > _LARGEST:
        return None
    try:
        found = _FORMATS[_name(path)](base, new)
    except (ValueError, RecursionError):
        return None
    brought_in = len(_TELLING.findall(found)) > len(_TELLING.findall(base))
    return None if brought_in else found


def is_shared(path: str) -> bool:
    """Tell whether ``path`` may hold settings of test runners beside others."""
    return _name(path) in _FORMATS


def _name(path: str) -> str:
    return PurePosixPath(path).name


def _as_it_is(_: str, new: str) -> str:
    """A ``setup.py`` is code under test, unless its change mentions plugins of pytest."""
    return new


_FORMATS: Mapping[str, Callable[[str, str], str]] = {
    "pyproject.toml": with_toml_settings_of,
    "setup.cfg": with_ini_settings_of,
    "setup.py": _as_it_is,
    "tox.ini": with_ini_settings_of,
}
