"""Pure: the report on folders of evaluated completions, as values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from exercises.canitedit.metrics import ProblemScore
from exercises.canitedit.problems import InstructionKind
from exercises.canitedit.reporting.figures import (
    GroupBy,
    GroupFigures,
    figures,
    grouped,
    pass_shares,
)
from exercises.canitedit.reporting.folder import ScoredFolder, describe_problems
from reports.statistics.methods.paired import MeanComparison, compare_means

Column = tuple[str, InstructionKind]
"""The name of a model, and how it was instructed."""


@dataclass(frozen=True)
class ModelReport:
    """The figures of one folder.

    Attributes:
        problems: the set of problems in words.
        temperature, top_p, max_tokens, prompt: None if unknown, or mixed.
        faults: what is incomplete or mixed.
        figures: by instruction; the first over all problems, then by group.
    """

    name: str
    folder: str
    problems: str
    temperature: float | None
    top_p: float | None
    max_tokens: int | None
    prompt: str | None
    faults: tuple[str, ...]
    figures: Mapping[InstructionKind, tuple[GroupFigures, ...]]


@dataclass(frozen=True)
class PassDifference:
    """pass@k of B and of A on the problems of both; None if one has fewer completions than k."""

    a: str
    b: str
    k: int
    means: MeanComparison | None


@dataclass(frozen=True)
class EditingReport:
    """The figures of all models, and the differences between them and between instructions."""

    ks: tuple[int, ...]
    models: tuple[ModelReport, ...]
    differences: tuple[PassDifference, ...]


def editing_report(
    folders: Sequence[ScoredFolder], ks: Sequence[int], by: Sequence[GroupBy]
) -> EditingReport:
    """Return the report on folders; each has at least one score."""
    names = Counter(folder.name for folder in folders)
    named = [
        folder if names[folder.name] == 1 else replace(folder, name=str(folder.path))
        for folder in folders
    ]
    return EditingReport(
        ks=tuple(ks),
        models=tuple(_model(folder, ks, by) for folder in named),
        differences=tuple(_differences(named, ks)),
    )


def _model(folder: ScoredFolder, ks: Sequence[int], by: Sequence[GroupBy]) -> ModelReport:
    found = {kind: folder.of_kind(kind) for kind in InstructionKind}
    one = folder.samplings[0]
    mixed = len(folder.samplings) > 1
    return ModelReport(
        name=folder.name,
        folder=str(folder.path),
        problems=describe_problems(folder.problems),
        temperature=None if mixed else one.temperature,
        top_p=None if mixed else one.top_p,
        max_tokens=None if mixed else one.max_tokens,
        prompt=None if mixed else one.prompt,
        faults=folder.faults,
        figures={kind: tuple(_figures(scores, ks, by)) for kind, scores in found.items() if scores},
    )


def _figures(
    scores: Sequence[ProblemScore], ks: Sequence[int], by: Sequence[GroupBy]
) -> Iterator[GroupFigures]:
    yield figures(scores, ks)
    for one in by:
        for name, group in grouped(scores, one):
            yield figures(group, ks, one.value, name)


def _differences(folders: Sequence[ScoredFolder], ks: Sequence[int]) -> Iterator[PassDifference]:
    columns = {
        (folder.name, kind): scores
        for folder in folders
        for kind in InstructionKind
        if (scores := folder.of_kind(kind))
    }
    for a, b in _pairs([folder.name for folder in folders]):
        if a in columns and b in columns:
            for k in ks:
                one, two = pass_shares(columns[a], k), pass_shares(columns[b], k)
                means = compare_means(one, two) if one and two else None
                yield PassDifference(f"{a[0]}, {a[1].value}", f"{b[0]}, {b[1].value}", k, means)


def _pairs(names: Sequence[str]) -> Iterator[tuple[Column, Column]]:
    for name in names:
        yield (name, InstructionKind.LAZY), (name, InstructionKind.DESCRIPTIVE)
    for kind in InstructionKind:
        for a, b in combinations(names, 2):
            yield (a, kind), (b, kind)
