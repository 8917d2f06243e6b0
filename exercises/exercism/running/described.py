"""What ``run.json`` says of a run."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from core.address import without_logins
from exercises.exercism.catalog import Catalog
from exercises.exercism.exercise import Exercise
from exercises.exercism.facts import READER, RunFacts
from exercises.exercism.running.config import ExercismConfig
from runs.storage.manifest import all_versions, timestamp
from runs.storage.store import READ_WITH

_COMMAND = ("python", "-m", "exercises.exercism", "run")


def describe_run(
    config: ExercismConfig, catalog: Catalog, tools: Mapping[str, str]
) -> dict[str, Any]:
    """Return what is said of a new run besides its facts; ``tools`` are versions by language."""
    return {
        "run": config.run_name,
        READ_WITH: READER,
        "config": config.as_json(),
        "deciding": config.deciding(catalog),
        "versions": all_versions(),
        "test_tools": dict(tools),
        "started": timestamp(),
    }


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
