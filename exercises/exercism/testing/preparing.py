"""Packages that exercises need: fetched once with network, and kept below the cache.

Nothing of an exercise's author or of a model runs here but the package manager, on the pristine
files; JavaScript's scripts of installation do not run.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

from filelock import FileLock

from core.atomic import scratch_folder
from core.errors import InfrastructureError
from core.processes import run_limited, without_secrets
from environments.layout import check_path, write_files
from exercises.exercism.exercise import Exercise

_SECONDS = 900.0
_SHOWN = 200


def prepared_root(cache: Path) -> Path:
    return cache / "exercism" / "prepared"


def prepared_folder(cache: Path, exercise: Exercise) -> Path | None:
    """Return where the packages of an exercise lie or will lie, None if it needs none."""
    file, pattern = exercise.rules.packages
    text = exercise.tested_files({}).get(file, b"").decode("utf-8", "replace") if file else ""
    needed = [match[0] for match in re.finditer(pattern, text, re.MULTILINE) if match[0]]
    if not file or not needed:
        return None
    parts = "\0".join((exercise.language, *map(str, exercise.rules.prepare), *needed))
    return prepared_root(cache) / hashlib.sha256(parts.encode()).hexdigest()[:32]


def prepare(exercises: Iterable[Exercise], cache: Path) -> dict[str, str]:
    """Fetch the packages that exercises need and that are not there; needs a network only then.

    Returns:
        A reason in one line for each key of an exercise whose packages cannot be had: it is to be
        skipped.
    """
    problems, reasons = dict[Path, str](), dict[str, str]()
    for exercise in exercises:
        folder = prepared_folder(cache, exercise)
        if folder is None:
            continue
        if folder not in problems:
            problems[folder] = _prepared(folder, exercise)
        if problems[folder]:
            reasons[exercise.key] = problems[folder]
    return reasons


def _prepared(folder: Path, exercise: Exercise) -> str:
    """Return in one line why the packages cannot be had, empty if they can."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    env = {**without_secrets(os.environ), **dict(exercise.rules.environment)}
    with FileLock(f"{folder}.lock"):
        if folder.is_dir():
            return ""
        files = exercise.tested_files({})
        with scratch_folder(folder) as made:
            for path in files:
                check_path(path)
            write_files(made, files)
            for argv in exercise.rules.prepare:
                try:
                    result = run_limited(argv, made, env, _SECONDS)
                except OSError as error:
                    raise InfrastructureError(f"cannot run {argv[0]}: {error}") from error
                if result.exit_code != 0:
                    said = " ".join(result.output.split())[-_SHOWN:]
                    return f"{' '.join(argv)} fails: {said or f'exit code {result.exit_code}'}"
            made.rename(folder)
    return ""
