"""The options of a run, and what ``run.json`` holds of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agent.formats import format_names
from agent.formats.base import Notation
from bench.selection import INSTANCES
from core.errors import UserError
from core.options import option, option_group
from environments.base import EnvironmentKind
from environments.options import TESTS
from exercises.exercism.catalog import ExerciseSelection
from exercises.exercism.messages import PROFILES, Profile
from exercises.exercism.results import ColumnName
from exercises.exercism.testing.tester import TestSettings
from exercises.options import listed
from llm.options import MODELS, ModelChoice
from reports.cli.options import timeout_option
from runs.options import RunBasics, RunResources, model_slug

_CURRENT = "current"
ARCHITECT = "architect"
"""The edit format of a pair in results: the leaderboards' word."""
_PAIR = re.compile(r"(.+?)\+([^@+].*)")


def _profile(name: str, text: str, _: object) -> Profile:
    if text not in PROFILES:
        raise UserError(f"{name} {text}: there are {', '.join(PROFILES)}")
    return PROFILES[text]


@dataclass(frozen=True)
class RunColumn:
    """A column of a run: a model in the edit format of ``choice``, and the number of the repeat."""

    choice: ModelChoice
    repeat: int

    @property
    def name(self) -> ColumnName:
        choice = self.choice
        form = ARCHITECT if choice.architect else choice.edit_format
        return ColumnName(model=choice.label, edit_format=form, repeat=self.repeat)


@option_group
class ExercismConfig(RunBasics):
    """Everything that decides what a run does.

    ``timeout`` and ``test_lines`` are the profile's where they are None; 0 lines are all.
    """

    formats: tuple[str, ...] = option(
        (),
        f"Edit formats of each model: {', '.join(format_names())}; default: the model's own. "
        "MODEL@FORMAT fixes one.",
        "--formats",
        panel=MODELS,
        given=str,
        read=lambda name, text, _: listed(name, text, format_names()),
    )
    exercises: Path | None = option(
        None,
        "Checkout of exercism/python or polyglot-benchmark, folder of exercises, or .tar.gz of "
        "one; default: the 133 of the published runs, fetched once.",
        "--exercises",
        "-e",
        panel=INSTANCES,
    )
    profile: Profile = option(
        PROFILES[_CURRENT],
        "2023 or current: test runner, seconds, lines of output, markers and functions.",
        "--profile",
        panel=MODELS,
        decides=True,
        shown=_CURRENT,
        given=str,
        read=_profile,
    )
    tries: int = option(
        2, "Tries for each exercise.", "--tries", panel=MODELS, least=1, decides=True
    )
    repeats: int = option(1, "Times that each exercise is given.", "--repeats", least=1)
    timeout: float | None = timeout_option(
        None, "Seconds for the tests of a try; default: the profile's."
    )
    test_lines: int | None = option(
        None,
        "Lines of failing tests' output that the model gets, 0 for all; default: the profile's.",
        "--test-lines",
        panel=TESTS,
        least=0,
    )

    @property
    def run_name(self) -> str:
        models = {model.name: model for model in self.called_models}
        return self.run or f"exercism--{model_slug([*models.values()])}"

    @property
    def notation(self) -> Notation:
        return Notation.OF_2023 if self.profile.first_formats else Notation.CURRENT

    @property
    def seconds(self) -> float:
        return self.profile.timeout if self.timeout is None else self.timeout

    @property
    def lines(self) -> int | None:
        """The lines of output that the model gets; None for all."""
        return (
            self.profile.test_lines
            if self.test_lines is None
            else self.test_lines or None
        )

    @property
    def test_settings(self) -> TestSettings:
        return TestSettings(self.profile.unittest, self.seconds)

    @property
    def columns(self) -> tuple[RunColumn, ...]:
        return tuple(
            RunColumn(model, repeat)
            for model in self.models
            for repeat in range(1, self.repeats + 1)
        )

    def as_json(self) -> dict[str, Any]:
        exercises = self.exercises and str(self.exercises.expanduser().resolve())
        return (
            super().as_json()
            | self._profiled
            | {"run": self.run_name, "exercises": exercises}
        )

    def deciding(self) -> dict[str, Any]:
        """Return what a continued run must repeat: exercises and repeats may be added."""
        return super().deciding() | self._profiled

    @property
    def _profiled(self) -> dict[str, Any]:
        return {
            "profile": self.profile.name,
            "timeout": self.seconds,
            "test_lines": self.lines,
        }


@option_group
class ExercismOptions(RunResources):
    """The options that decide no result, and the choice of exercises."""

    selection: ExerciseSelection = field(default_factory=ExerciseSelection)


def model_or_pair(text: str, one: Callable[[str], ModelChoice]) -> ModelChoice:
    """Return the model ``text``, or the pair ``architect+editor``; ``one`` reads a model."""
    if not (pair := _PAIR.fullmatch(text)):
        return one(text)
    architect, editor = one(pair[1]), one(pair[2])
    given = f"{architect.given}+{editor.given}"
    return replace(editor, given=given, architect=architect)


def in_formats(
    models: Sequence[ModelChoice], given: Sequence[str], formats: Sequence[str]
) -> tuple[ModelChoice, ...]:
    """Return each model in each format.

    A model that was typed (``given``) with ``@FORMAT`` keeps it; without ``formats`` each has its
    own.
    """
    return tuple(
        dict.fromkeys(
            replace(model, edit_format=form)
            for model, text in zip(models, given, strict=True)
            for form in (
                [model.edit_format] if text.strip() != model.given else formats
            )
            or [model.edit_format]
        )
    )


def validated(config: ExercismConfig) -> ExercismConfig:
    config.check_name()
    if config.environment is EnvironmentKind.NONE:
        raise UserError("--environment none runs no tests; choose local or docker")
    known = format_names(config.notation)
    if wrong := [m for m in config.models if m.edit_format not in known]:
        raise UserError(
            f"{wrong[0].given}@{wrong[0].edit_format}: --profile {config.profile.name} has the "
            f"formats {', '.join(known)}"
        )
    folders: dict[str, ModelChoice] = {}
    for model in config.models:
        name = RunColumn(model, 1).name.folder
        if (other := folders.setdefault(name, model)) is not model:
            raise UserError(
                f"--models {other.given} and {model.given} would have one folder, {name}; run "
                "them one after the other with different --run"
            )
    return config
