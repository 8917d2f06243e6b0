"""Run models in edit formats on exercises: ``python -m exercises.exercism run``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import typer

from agent.formats import format_names
from bench.cli.selection import INSTANCES
from core.options import built, command
from environments.choice import default_environment
from environments.options import TESTS
from exercises.exercism.running.config import (
    ExercismConfig,
    ExercismOptions,
    in_formats,
    model_or_pair,
)
from llm.options import DEFAULT_MODELS, LIMITS, MODELS, ModelChoice, ModelFile, names_of
from llm.settings import load_settings
from runs.calls.budget import MONEY
from runs.calls.rate_limiter import SCALE
from runs.given import address_given, models_given
from runs.options import RUN

GROUPS = (ExercismConfig, ModelFile, ExercismOptions)


@command(*GROUPS, panels=(MODELS, INSTANCES, TESTS, LIMITS, SCALE, MONEY, RUN))
def main(context: typer.Context, values: dict[str, Any]) -> None:
    """Run each model in each edit format on exercises, with tests and a second try."""
    address_given(values["api_base"])
    book = load_settings(values["model_settings"], format_names())
    typed = (values["models"] or DEFAULT_MODELS).split(",")
    replay = values["replay"] is not None
    any_name = bool(values["api_base"])

    def one(name: str) -> ModelChoice:
        return models_given(name, book, any_name=any_name, replay=replay)[0]

    models = tuple(model_or_pair(text.strip(), one) for text in typed)
    values["environment"] = values["environment"] or default_environment()
    config = built(ExercismConfig, {**values, "models": models})
    config = replace(config, models=in_formats(models, typed, config.formats))
    options = built(ExercismOptions, values | {"settings": book}, names_of(config.called.models))
    # Imported here: --help needs nothing of it.
    from exercises.exercism.running.start import run_command

    raise typer.Exit(run_command(config, options, print))
