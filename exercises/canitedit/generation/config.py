"""The options of ``generate``, and what decides its results."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent.formats import format_names
from core.errors import UserError
from core.options import option, option_group
from environments.base import EnvironmentKind
from exercises.canitedit.problems import HUB_ID, InstructionKind, Problem, ProblemSource
from exercises.canitedit.prompts import Prompt, edit_request
from exercises.options import listed
from llm.options import DEFAULT_MODELS, LIMITS, MODELS, ModelChoice
from llm.settings import load_settings
from runs.keys import is_safe_name
from runs.options import (
    RunActions,
    RunBasics,
    RunResources,
    model_slug,
    models_given,
)

READER = "python -m exercises.canitedit report"
"""The command that ``run.json`` names for a run of completions."""


def _kinds(name: str, text: str, _: object) -> tuple[InstructionKind, ...]:
    return tuple(
        map(
            InstructionKind,
            listed(name, text, [kind.value for kind in InstructionKind]),
        )
    )


@option_group
class GenerationConfig(RunBasics):
    """Everything that decides the completions of a run.

    Attributes:
        environment, replay, max_seconds_per_attempt: no options here: nothing runs, models are
            called, and a completion is one call.
    """

    environment: EnvironmentKind = EnvironmentKind.NONE
    replay: Path | None = None
    max_seconds_per_attempt: float | None = None
    prompt: Prompt = option(
        Prompt.CHAT,
        "How whole programs are asked for (docs/canitedit.md).",
        "--prompt",
        panel=MODELS,
    )
    kinds: tuple[InstructionKind, ...] = option(
        tuple(InstructionKind),
        "Which instructions: descriptive, lazy or both.",
        "--instruction",
        panel=MODELS,
        given=str,
        shown="descriptive,lazy",
        read=_kinds,
    )
    completions: int = option(
        20,
        "Completions per problem, instruction and model.",
        "--completions",
        panel=MODELS,
        least=1,
        decides=True,
    )
    temperature: float = option(
        0.2,
        "Sampling temperature.",
        "--temperature",
        panel=MODELS,
        least=0,
        decides=True,
    )
    top_p: float = option(
        0.95, "Sampling top-p, up to 1.", "--top-p", panel=MODELS, least=0, decides=True
    )
    max_output_tokens: int = option(
        8192,
        "Output limit of a call.",
        "--max-tokens",
        panel=LIMITS,
        least=1,
        decides=True,
    )

    @property
    def run_name(self) -> str:
        return self.run or f"canitedit--{model_slug(self.models)}"

    def deciding(self) -> dict[str, Any]:
        """Return what a continued run must repeat; instructions may be added later."""
        prompts = [
            repr(edit_request(prompt, "{before}", "{instruction}")) for prompt in Prompt
        ]
        sha256 = hashlib.sha256("\0".join(prompts).encode()).hexdigest()
        names = [model.name for model in self.models]
        own = {"models": names, "prompt": self.prompt.value, "prompts_sha256": sha256}
        return super().deciding() | own


@option_group
class GenerationOptions(RunActions, RunResources, ProblemSource):
    """The options of ``generate`` that decide no result."""


def checked_config(config: GenerationConfig) -> GenerationConfig:
    """Return ``config`` with the edit format of its models, if its values fit together."""
    config.check_name()
    if config.temperature > 2:
        raise UserError(
            f"--temperature {config.temperature:g}: must lie between 0 and 2"
        )
    if not 0 < config.top_p <= 1:
        raise UserError(f"--top-p {config.top_p:g}: must lie above 0 and up to 1")
    # A prompt has no edit format, and the models' defaults may need function calls.
    models = tuple(replace(model, edit_format="whole") for model in config.models)
    model_folders(models)
    return replace(config, models=models)


def chosen_models(values: Mapping[str, Any]) -> tuple[ModelChoice, ...]:
    book = load_settings(values["model_settings"], format_names())
    any_name = bool(values["api_base"])
    names = (values["models"] or DEFAULT_MODELS).split(",")
    found = models_given(names, book, any_name=any_name, replay=False)
    for text, model in zip(names, found, strict=True):
        if text.strip() != model.given:
            raise UserError(
                f"--models {text.strip()}: completions have no edit format; leave it out"
            )
    return found


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
