"""The settings of a run: which exercises, how they are given, and where they are tested."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated

from pydantic import Field

from agent.formats import format_names
from bench.selection import Selection, read_ids
from core.errors import UserError
from core.settings import Commas, RecordedPath, Section
from environments.base import EnvironmentKind
from exercises.exercism.exercise import Exercise
from exercises.exercism.languages import LANGUAGES
from exercises.exercism.messages import PROFILES
from exercises.settings import among
from llm.options import ModelNames, Models
from runs.settings import CommonSettings


class ExercismModels(Models):
    """Which models are asked, and how often."""

    names: ModelNames = Field(
        default=Models().names,
        description="Ask each of these models: NAME, NAME@FORMAT or ARCHITECT+EDITOR.",
    )
    tries: int = Field(
        default=2, ge=1, description="Make this many tries at each exercise."
    )


class Exercises(Section):
    """Which exercises, and how models get them."""

    folder: RecordedPath | None = Field(
        default=None,
        description="Take exercises of this checkout of exercism/python or polyglot-benchmark, "
        "folder, or .tar.gz of one; default: the 133 of the published runs, fetched once.",
    )
    languages: Annotated[tuple[Annotated[str, among(LANGUAGES)], ...], Commas] = Field(
        default=(),
        description=f"Take only exercises in these of {', '.join(LANGUAGES)}; default: in all.",
    )
    ids: Annotated[tuple[str, ...], Commas] = Field(
        default=(),
        description="Take only these exercises: names, language/name, or @FILE.",
    )
    filter: str = Field(
        default="",
        description="Take the exercises whose language/name matches this regular expression.",
    )
    slice: str = Field(default="", description="Take this part of the list, as 0:10.")
    shuffle: int | None = Field(
        default=None, description="Shuffle the list; this seed decides the order."
    )
    formats: Annotated[tuple[Annotated[str, among(format_names())], ...], Commas] = (
        Field(
            default=(),
            description=f"Ask each model in these edit formats: {', '.join(format_names())}; "
            "default: its own. NAME@FORMAT fixes one.",
        )
    )
    profile: Annotated[str, among(PROFILES)] = Field(
        default="current",
        description="Do as the benchmark of 2023, or as the current one: test runner, seconds, "
        "lines of output, markers and functions.",
    )
    repeats: int = Field(
        default=1, ge=1, description="Give each exercise this many times."
    )
    test_lines: int | None = Field(
        default=None,
        ge=0,
        description="Show the model so many lines of failing tests' output, 0 for all; default: "
        "the profile's.",
    )

    def select(self, exercises: Sequence[Exercise]) -> tuple[Exercise, ...]:
        """Return the chosen exercises: languages, then ids, pattern, order and slice."""
        by_key = {}
        for exercise in exercises:
            if not self.languages or exercise.language in self.languages:
                by_key[exercise.key] = exercise
        if not by_key:
            languages = ",".join(self.languages)
            raise UserError(f"--languages {languages}: no exercise is in them")
        narrowing = Selection(
            pattern=self.filter,
            part=self.slice,
            shuffle=self.shuffle is not None,
            seed=self.shuffle or 0,
        )
        keys = list(self._matches(by_key)) or list(by_key)
        return tuple(by_key[key] for key in narrowing.narrowed(keys, "exercise"))

    def _matches(self, keys: Collection[str]) -> dict[str, None]:
        """Return the keys that ``ids`` name, in their order."""
        named: dict[str, None] = {}
        for text in self.ids:
            for name in read_ids(text, "exercises.ids"):
                matches = [k for k in keys if name in (k, k.partition("/")[2])]
                if not matches:
                    raise UserError(
                        f"no exercise is called {name}; check exercises.ids"
                    )
                named.update(dict.fromkeys(matches))
        return named


class ExerciseTests(Section):
    """The tests of exercises; seconds."""

    environment: EnvironmentKind | None = Field(
        default=None,
        description="Run tests in docker or local (a sandbox here); default: docker if an engine "
        "answers, else local.",
    )
    timeout: float | None = Field(
        default=None,
        ge=1,
        description="End the tests of a try after these seconds; default: the profile's.",
    )


class ExercismSettings(CommonSettings):
    """All that a run of exercises is told."""

    models: ExercismModels = ExercismModels()
    exercises: Exercises = Exercises()
    tests: ExerciseTests = ExerciseTests()
