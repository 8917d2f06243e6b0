"""The settings of CanItEdit's commands."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import Field, FilePath

from swe_retry.kit import (
    Commas,
    CommonSettings,
    EnvironmentKind,
    Folder,
    FolderSettings,
    ModelNames,
    Models,
    Section,
)
from swe_retry_exercises.canitedit.problems import HUB_ID, KINDS, InstructionKind
from swe_retry_exercises.canitedit.prompts import Prompt
from swe_retry_exercises.options import Distinct

_MAX_K = 1000
GroupBy = Literal["change_kind", "topic", "libraries", "length"]
"""By what problems are grouped."""


class CompletionModels(Models):
    """Which models are asked."""

    names: ModelNames = Models().names
    """Ask each of these models: NAME."""

    # Always sent: servers of /v1/completions stop after 16 tokens without it.
    max_output_tokens: int = Field(default=8192, ge=1)
    """Limit a reply to this many tokens."""


class Completions(Section):
    """What each model is asked for, and how it samples."""

    prompt: Prompt = Field(
        default=Prompt.CHAT_SYSTEM,
        description="Ask for whole programs in this prompt (docs/canitedit.md): "
        f"{', '.join(prompt.value for prompt in Prompt)}.",
    )
    each: int = Field(default=20, ge=1)
    """Ask for this many completions of each problem and instruction."""

    temperature: float = Field(default=0.2, ge=0, le=2)
    """Sample at this temperature."""

    top_p: float = Field(default=0.95, gt=0, le=1)
    """Draw each token from this share of the probability."""

    kinds: Annotated[tuple[InstructionKind, ...], Commas, Distinct] = Field(
        default=KINDS, min_length=1
    )
    """Give these instructions: descriptive, lazy."""


class ProblemSource(Section):
    """Which problems."""

    source: str = HUB_ID
    """Read the problems from this .jsonl or .parquet, or from this id on the hub."""

    v1: bool = False
    """Take only the 54 problems of the first paper."""


class DescribedProblems(ProblemSource):
    """Which problems ``stats`` describes."""

    tokenizer: Path | None = None
    """Count tokens by the tokenizer in this folder or tokenizer.json; default: count
    words."""


class ScoredProblems(ProblemSource):
    """Which problems ``report`` scores."""

    source: str = ""
    """Evaluate with the problems of these rows, not with those in the files."""


class ProgramEvaluation(Section):
    """Where programs run with their tests."""

    environment: EnvironmentKind = EnvironmentKind.LOCAL
    """Run programs in local (a sandbox here) or docker; none runs nothing."""

    # More programs would have too little of a processor each.
    workers: int | None = Field(default=None, ge=1, le=4 * (os.cpu_count() or 1))
    """Run this many programs at once; default: one for each core."""

    interpreter: FilePath | None = None
    """Use this Python, with the libraries, for local; default: one made for it."""

    output: Folder | None = None
    """Evaluate all programs of the folder again, into this one; default: beside the
    completions, what is not evaluated."""


class ReportedFigures(Section):
    """Which figures are reported, and of which folders."""

    k: Annotated[
        tuple[Annotated[int, Field(ge=1, le=_MAX_K)], ...], Commas, Distinct
    ] = Field(default=(1, 5, 10), min_length=1)
    """Compute pass@k for these k."""

    by: Annotated[tuple[GroupBy, ...], Commas, Distinct] = Field(
        default=(),
        description="Print the figures by group as well: "
        f"{', '.join(get_args(GroupBy))}.",
    )
    allow_partial: bool = False
    """Report incomplete and mixed folders, and say so."""

    allow_missing: bool = False
    """Leave out problems whose libraries cannot be imported."""


class CompletionSettings(CommonSettings):
    """All that a run of completions is told."""

    models: CompletionModels = CompletionModels()
    completions: Completions = Completions()
    problems: ProblemSource = ProblemSource()


class CompletionReportSettings(Section):
    """What the report is told."""

    report: ReportedFigures = ReportedFigures()
    evaluation: ProgramEvaluation = ProgramEvaluation()
    problems: ScoredProblems = ScoredProblems()
    folders: FolderSettings = FolderSettings()


class ProblemStatsSettings(Section):
    """What the description of the data set is told."""

    problems: DescribedProblems = DescribedProblems()
