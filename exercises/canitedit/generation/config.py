"""What decides the completions of a run, and what ``run.json`` holds of it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.cli.command_line import MODELS
from core.errors import UserError
from core.hashing import sha256_of
from core.settings import SettingFlag
from exercises.canitedit.problems import HUB_ID, Problem
from exercises.canitedit.prompts import Prompt, edit_request
from exercises.canitedit.settings import CompletionSettings
from exercises.running import refuse, shared_flags
from llm.options import ModelChoice
from llm.settings import SettingsBook
from runs.keys import is_safe_name
from runs.options import RunBasics, model_slug, parse_models

READER = "python -m exercises.canitedit report"
"""The command that ``run.json`` names for a run of completions."""


_UNHEEDED = {
    "models.tries": "completions.each says how many completions each problem gets",
    "models.temperatures": "completions.temperature says how models sample",
    "calls.replay": "completions are not replayed; leave it out",
    "budget.seconds_per_attempt": "a completion is one call; set calls.timeout",
}
FLAGS = (
    *shared_flags(CompletionSettings, _UNHEEDED),
    SettingFlag("completions.prompt", "--prompt", "NAME", MODELS),
    SettingFlag("completions.each", "--completions", "N", MODELS),
)


@dataclass(frozen=True)
class GenerationConfig(RunBasics):
    """Everything that decides the completions of a run: its settings, and what they mean here."""

    settings: CompletionSettings = field(default_factory=CompletionSettings)

    @classmethod
    def of(
        cls, settings: CompletionSettings, models: Sequence[ModelChoice]
    ) -> GenerationConfig:
        """Return the configuration that the settings mean with these models, if all fit together.

        No environment is one of it: nothing is executed.
        """
        refuse(settings, _UNHEEDED)
        # A prompt has no edit format, and the models' defaults may need function calls.
        choices = tuple(replace(model, edit_format="whole") for model in models)
        model_folders(choices)
        config = cls(settings, choices, run=settings.folders.run)
        config.check_name()
        return config

    @property
    def run_name(self) -> str:
        return self.run or f"canitedit--{model_slug(self.models)}"

    def as_json(self) -> dict[str, Any]:
        completions = self.settings.completions
        return {
            **super().as_json(),
            "prompt": completions.prompt.value,
            "kinds": [kind.value for kind in completions.kinds],
            "completions": completions.each,
            "temperature": completions.temperature,
            "top_p": completions.top_p,
        }

    def deciding(self) -> dict[str, Any]:
        """Return what a continued run must repeat; instructions may be added later."""
        completions = self.settings.completions
        requests = []
        for prompt in Prompt:
            requests.append(repr(edit_request(prompt, "{before}", "{instruction}")))
        facts = super().deciding()
        del facts["environment"]
        return {
            **facts,
            "models": [model.name for model in self.models],
            "prompts_sha256": sha256_of("\0".join(requests)),
            "models.max_output_tokens": self.settings.models.max_output_tokens,
            "completions.prompt": completions.prompt.value,
            "completions.each": completions.each,
            "completions.temperature": completions.temperature,
            "completions.top_p": completions.top_p,
        }


def chosen_models(
    settings: CompletionSettings, book: SettingsBook
) -> tuple[ModelChoice, ...]:
    """Return the models that the settings name."""
    names = settings.models.names
    any_name = bool(settings.calls.api_base)
    models = parse_models(names, book, any_name=any_name, replay=False)
    for name, model in zip(names, models, strict=True):
        if name != model.text:
            raise UserError(
                f"--models {name}: completions have no edit format; leave it out"
            )
    return models


def model_folders(models: Sequence[ModelChoice]) -> dict[str, str]:
    """Return each model's folder: the end of its name, or all of it where two agree."""
    short = {model.name: model_slug([model]) for model in models}
    if len(short) < len(models):
        raise UserError("--models names a model twice; leave one of them out")
    ends = list(short.values())
    whole = {name: re.sub(r"[^\w.+-]+", "-", name) for name in short}
    found = {
        name: whole[name] if ends.count(end) > 1 else end for name, end in short.items()
    }
    for folder in found.values():
        if not is_safe_name(folder) or [*found.values()].count(folder) > 1:
            raise UserError(
                f"--models: no folder can be named {folder}; run its model by itself"
            )
    return found


def problems_identity(problems: Iterable[Problem], source: str) -> dict[str, str]:
    """Return what ``run.json`` says of the problems: where they are from, and their hash."""
    digest = hashlib.sha256()
    for problem in problems:
        digest.update(problem.model_dump_json().encode() + b"\n")
    path = Path(source).expanduser()
    name = str(path.resolve()) if source != HUB_ID and path.exists() else source
    return {"name": name, "split": "test", "sha256": digest.hexdigest()}
