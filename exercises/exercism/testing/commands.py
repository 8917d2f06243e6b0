"""The command that tests an exercise, with the files of its folder. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from environments.folders import FOLDER
from exercises.exercism.exercise import Exercise
from exercises.exercism.languages import NAME, PREPARED, PYTHON, Language


def argv_of(exercise: Exercise, unittest: bool, prepared: Path | None) -> tuple[str, ...]:
    """Return the command; ``prepared`` is the folder of the exercise's packages."""
    rules = exercise.rules
    named = {PYTHON: "python", NAME: exercise.name, PREPARED: str(prepared or "/nothing")}
    words = (unittest and rules.unittest_command) or rules.test_command
    return tuple(_filled(word, named) for word in words)


def version_argv(language: Language, unittest: bool) -> tuple[str, ...]:
    """Return the command that prints the versions of a language's tools."""
    words = (unittest and language.unittest_version) or language.version_command
    return tuple(_filled(word, {PYTHON: "python"}) for word in words)


def _filled(word: str, named: Mapping[str, str]) -> str:
    for placeholder, text in named.items():
        word = word.replace(placeholder, text)
    return word


def placed(exercise: Exercise, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files with paths from the folder of the command."""
    below = f"{exercise.name}/" if exercise.rules.own_folder else ""
    return {f"{below}{path}": data for path, data in files.items()}


def seen_folders(exercise: Exercise, prepared: Path | None) -> tuple[str, ...]:
    """Return the paths under which the command sees the folder of the exercise, and packages."""
    own = (f"{FOLDER}/{exercise.name}",) if exercise.rules.own_folder else ()
    packages = (f"..{prepared}", str(prepared)) if prepared else ()
    return (*own, FOLDER, *packages)
