"""What decides a run of exercises, and what ``run.json`` holds of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agent.formats import format_names
from agent.formats.base import Notation
from core.errors import UserError
from environments.base import EnvironmentKind
from exercises.exercism.messages import PROFILES, Profile
from exercises.exercism.results import ColumnName
from exercises.exercism.settings import ExercismSettings
from exercises.exercism.testing.tester import TestSettings
from llm.options import ModelChoice
from runs.options import RunBasics, model_slug

ARCHITECT = "architect"
"""The edit format of a pair in results: the leaderboards' word."""
_PAIR = re.compile(r"(.+?)\+([^@+].*)")


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


@dataclass(frozen=True)
class ExercismConfig(RunBasics):
    """Everything that decides what a run does: its settings, and what they mean here."""

    settings: ExercismSettings = field(default_factory=ExercismSettings)

    @property
    def run_name(self) -> str:
        models = {model.name: model for model in self.called_models}
        return self.run or f"exercism--{model_slug([*models.values()])}"

    @property
    def profile(self) -> Profile:
        return PROFILES[self.settings.exercises.profile]

    @property
    def notation(self) -> Notation:
        return Notation.OF_2023 if self.profile.first_formats else Notation.CURRENT

    @property
    def seconds(self) -> float:
        """The time for the tests of a try."""
        return self.settings.tests.timeout or self.profile.timeout

    @property
    def lines(self) -> int | None:
        """The lines of output that the model gets; None for all."""
        lines = self.settings.exercises.test_lines
        if lines is None:
            return self.profile.test_lines
        return lines or None

    @property
    def test_settings(self) -> TestSettings:
        return TestSettings(self.profile.unittest, self.seconds)

    @property
    def columns(self) -> tuple[RunColumn, ...]:
        return tuple(
            RunColumn(model, repeat)
            for model in self.models
            for repeat in range(1, self.settings.exercises.repeats + 1)
        )

    def as_json(self) -> dict[str, Any]:
        chosen = self.settings.exercises
        return {
            **super().as_json(),
            "run": self.run_name,
            "formats": list(chosen.formats),
            "exercises": chosen.folder and str(chosen.folder.expanduser().resolve()),
            "profile": chosen.profile,
            "tries": self.settings.models.tries,
            "repeats": chosen.repeats,
            "timeout": self.seconds,
            "test_lines": self.lines,
        }

    def deciding(self) -> dict[str, Any]:
        """Return what a continued run must repeat: exercises and repeats may be added."""
        return {
            **super().deciding(),
            "models.max_output_tokens": self.settings.models.max_output_tokens,
            "models.tries": self.settings.models.tries,
            "exercises.profile": self.profile.name,
            "tests.timeout": self.seconds,
            "exercises.test_lines": self.lines,
        }


def model_or_pair(text: str, parse: Callable[[str], ModelChoice]) -> ModelChoice:
    """Return the model ``text``, or the pair ``architect+editor``; ``parse`` reads a model."""
    pair = _PAIR.fullmatch(text)
    if pair is None:
        return parse(text)
    architect = parse(pair[1].strip())
    editor = parse(pair[2].strip())
    given = f"{architect.text}+{editor.text}"
    return replace(editor, text=given, architect=architect)


def in_formats(
    models: Sequence[ModelChoice], names: Sequence[str], formats: Sequence[str]
) -> tuple[ModelChoice, ...]:
    """Return each model in each format.

    A model whose name of ``names`` has ``@FORMAT`` keeps it; without ``formats`` each has its own.
    """
    choices: dict[ModelChoice, None] = {}
    for model, name in zip(models, names, strict=True):
        own_formats = [model.edit_format]
        if name == model.text and formats:
            own_formats = list(formats)
        for edit_format in own_formats:
            choices[replace(model, edit_format=edit_format)] = None
    return tuple(choices)


def validated(config: ExercismConfig) -> ExercismConfig:
    """Return ``config`` when its values fit together."""
    config.check_name()
    if config.environment is EnvironmentKind.NONE:
        raise UserError("--environment none runs no tests; choose local or docker")
    known = format_names(config.notation)
    folders: dict[str, ModelChoice] = {}
    for model in config.models:
        if model.edit_format not in known:
            raise UserError(
                f"{model.text}@{model.edit_format}: exercises.profile={config.profile.name} has "
                f"the formats {', '.join(known)}"
            )
        folder = RunColumn(model, 1).name.folder
        other = folders.setdefault(folder, model)
        if other is not model:
            raise UserError(
                f"--models {other.text} and {model.text} would have one folder, {folder}; run "
                "them one after the other with different --run"
            )
    return config
