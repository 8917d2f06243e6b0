"""The settings of a run, and what they mean: exercises, columns, and what decides results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Annotated

from pydantic import Field

from swe_retry.kit import (
    Commas,
    CommonConfig,
    CommonSettings,
    EnvironmentKind,
    ModelChoice,
    ModelNames,
    Models,
    Section,
    TextList,
    UserError,
    format_names,
    model_slug,
    narrow,
    read_ids,
)
from swe_retry_exercises.exercism.catalog import Exercise
from swe_retry_exercises.exercism.languages import LANGUAGES
from swe_retry_exercises.exercism.messages import PROFILES, Profile
from swe_retry_exercises.exercism.results import ColumnName
from swe_retry_exercises.options import among
from swe_retry_exercises.values import JsonObject


class ExercismModels(Models):
    """Which models are asked, and how often."""

    names: ModelNames = Models().names
    """Ask each of these models: NAME, NAME@FORMAT or ARCHITECT+EDITOR."""

    tries: int = Field(default=2, ge=1)
    """Make this many tries at each exercise."""


class Exercises(Section):
    """Which exercises, and how models get them."""

    folder: Path | None = None
    """Take exercises of this checkout of exercism/python or polyglot-benchmark, folder,
    or .tar.gz of one; default: the 133 of the published runs, fetched once."""

    languages: Annotated[tuple[Annotated[str, among(LANGUAGES)], ...], Commas] = Field(
        default=(),
        description=f"Take only exercises in these of {', '.join(LANGUAGES)}; default: in all.",
    )
    ids: TextList = ()
    """Take only these exercises: names, language/name, or @FILE."""

    filter: str = ""
    """Take the exercises whose language/name matches this regular expression."""

    slice: str = ""
    """Take this part of the list, as 0:10."""

    shuffle: int | None = None
    """Shuffle the list; this seed decides the order."""

    formats: Annotated[tuple[Annotated[str, among(format_names())], ...], Commas] = (
        Field(
            default=(),
            description=f"Ask each model in these edit formats: {', '.join(format_names())}; "
            "default: its own. NAME@FORMAT fixes one.",
        )
    )
    profile: Annotated[str, among(PROFILES)] = "current"
    """Do as the benchmark of 2023, or as the current one: test runner, seconds, lines
    of output, markers and functions."""

    repeats: int = Field(default=1, ge=1)
    """Give each exercise this many times."""

    test_lines: int | None = Field(default=None, ge=0)
    """Show the model so many lines of failing tests' output, 0 for all; default: the
    profile's."""

    def select(self, exercises: Sequence[Exercise]) -> tuple[Exercise, ...]:
        """Return the chosen exercises: languages, then ids, pattern, order and slice."""
        by_key = {}
        for exercise in exercises:
            if not self.languages or exercise.language in self.languages:
                by_key[exercise.key] = exercise
        if not by_key:
            languages = ",".join(self.languages)
            raise UserError(f"--languages {languages}: no exercise is in them")
        keys: dict[str, None] = {}
        for name in chain(*(read_ids(text, "exercises.ids") for text in self.ids)):
            matches = []
            for key in by_key:
                own_name = key.partition("/")[2]
                if name in (key, own_name):
                    matches.append(key)
            if not matches:
                raise UserError(f"no exercise is called {name}; check exercises.ids")
            keys |= dict.fromkeys(matches)
        chosen = list(keys or by_key)
        chosen = narrow(chosen, "exercise", self.filter, self.slice, self.shuffle)
        return tuple(by_key[key] for key in chosen)


class ExerciseTests(Section):
    """The tests of exercises; seconds."""

    environment: EnvironmentKind | None = None
    """Run tests in docker or local (a sandbox here); default: docker if an engine
    answers, else local."""

    timeout: float | None = Field(default=None, ge=1)
    """End the tests of a try after these seconds; default: the profile's."""


class ExercismSettings(CommonSettings):
    """All that a run of exercises is told."""

    models: ExercismModels = ExercismModels()
    exercises: Exercises = Exercises()
    tests: ExerciseTests = ExerciseTests()

    @property
    def profile(self) -> Profile:
        """The chosen profile with what is set beside it."""
        profile = PROFILES[self.exercises.profile]
        if self.tests.timeout:
            profile = replace(profile, timeout=self.tests.timeout)
        if self.exercises.test_lines is not None:
            profile = replace(profile, test_lines=self.exercises.test_lines or None)
        return profile


ARCHITECT = "architect"
"""The edit format of a pair in results: the leaderboards' word."""


@dataclass(frozen=True)
class ExercismConfig(CommonConfig):
    """Everything that decides what a run does: its settings, and what they mean here."""

    settings: ExercismSettings = field(default_factory=ExercismSettings)

    @property
    def run_name(self) -> str:
        models = {model.name: model for model in self.called_models}
        return self.run or f"exercism--{model_slug(models.values())}"

    @property
    def columns(self) -> dict[ColumnName, ModelChoice]:
        columns = {}
        for model in self.models:
            for repeat in range(1, self.settings.exercises.repeats + 1):
                columns[column_name(model, repeat)] = model
        return columns

    def as_json(self) -> JsonObject:
        settings = self.settings.exercises
        profile = self.settings.profile
        return {
            **super().as_json(),
            "run": self.run_name,
            "formats": list(settings.formats),
            "exercises": settings.folder and str(settings.folder),
            "profile": profile.name,
            "tries": self.settings.models.tries,
            "repeats": settings.repeats,
            "timeout": profile.timeout,
            "test_lines": profile.test_lines,
        }

    def deciding(self) -> JsonObject:
        """Return what a continued run must repeat: exercises and repeats may be added."""
        profile = self.settings.profile
        return {
            **super().deciding(),
            "models.max_output_tokens": self.settings.models.max_output_tokens,
            "models.tries": self.settings.models.tries,
            "exercises.profile": profile.name,
            "tests.timeout": profile.timeout,
            "exercises.test_lines": profile.test_lines,
        }

    def check(self) -> None:
        """Raise a UserError where values do not fit together."""
        self.check_name()
        if self.environment is EnvironmentKind.NONE:
            raise UserError("--environment none runs no tests; choose local or docker")
        profile = self.settings.profile
        formats = format_names(profile.notation)
        folders: dict[str, ModelChoice] = {}
        for model in self.models:
            if model.edit_format not in formats:
                raise UserError(
                    f"{model.text}@{model.edit_format}: exercises.profile={profile.name} has "
                    f"the formats {', '.join(formats)}"
                )
            folder = column_name(model, 1).folder
            other = folders.setdefault(folder, model)
            if other is not model:
                raise UserError(
                    f"--models {other.text} and {model.text} would have one folder, {folder}; "
                    "run them one after the other with different --run"
                )


def column_name(model: ModelChoice, repeat: int) -> ColumnName:
    edit_format = ARCHITECT if model.architect else model.edit_format
    return ColumnName(
        model=model.label,
        edit_format=edit_format,
        repeat=repeat,
    )


def in_formats(
    models: Sequence[ModelChoice],
    names: Sequence[str],
    formats: Sequence[str],
) -> tuple[ModelChoice, ...]:
    """Return each model in each format.

    A model whose name of ``names`` has ``@FORMAT`` keeps it; without ``formats`` each has its own.
    """
    choices: dict[ModelChoice, None] = {}
    for model, name in zip(
        models,
        names,
        strict=True,
    ):
        model_formats = [model.edit_format]
        if name == model.text and formats:
            model_formats = list(formats)
        for edit_format in model_formats:
            choices[replace(model, edit_format=edit_format)] = None
    return tuple(choices)
