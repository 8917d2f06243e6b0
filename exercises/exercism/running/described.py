"""What ``run.json`` says of a run."""

from __future__ import annotations

import platform
import shlex
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from core.address import without_logins
from environments.base import EnvironmentKind
from exercises.exercism.catalog import Catalog
from exercises.exercism.exercise import Exercise
from exercises.exercism.facts import READER, RunFacts
from exercises.exercism.running.config import ExercismConfig
from exercises.exercism.testing.tester import IMAGE
from runs.storage.manifest import all_versions, timestamp
from runs.storage.store import READ_WITH

_COMMAND = ("python", "-m", "exercises.exercism", "run")


def describe_run(config: ExercismConfig, catalog: Catalog) -> dict[str, Any]:
    """Return what is said of a new run besides its facts."""
    return {
        "run": config.run_name,
        READ_WITH: READER,
        "config": config.as_json(),
        "deciding": config.deciding(catalog),
        "versions": all_versions(),
        "test_tools": _tools(config.environment),
        "started": timestamp(),
    }


def _tools(kind: EnvironmentKind) -> dict[str, str]:
    """Return the versions of what runs the tests; ``images`` in ``run.json`` has an image's."""
    if kind is EnvironmentKind.DOCKER:
        return {"image": IMAGE}
    return {"python": platform.python_version(), "pytest": version("pytest")}


def run_facts(config: ExercismConfig, catalog: Catalog, exercises: Sequence[Exercise]) -> RunFacts:
    """Return the facts of one start of a run."""
    return RunFacts(
        columns=tuple(column.name for column in config.columns),
        exercises=tuple(one.key for one in exercises),
        exercises_commit=catalog.commit,
        exercises_sha256=catalog.sha256,
        profile=config.profile.name,
        tries=config.tries,
        timeout=config.seconds,
        test_lines=config.lines,
        command=without_logins(shlex.join([*_COMMAND, *sys.argv[1:]])),
        started=timestamp()[:10],
        version=all_versions()["harness"],
    )


def together(before: RunFacts, now: RunFacts) -> RunFacts:
    """Return the facts of a run with the columns and exercises of two starts."""
    return before.model_copy(
        update={
            "columns": tuple(dict.fromkeys((*before.columns, *now.columns))),
            "exercises": tuple(dict.fromkeys((*before.exercises, *now.exercises))),
        }
    )
