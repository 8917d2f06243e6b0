"""Pure: the report on folders of evaluated completions, as values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean

from exercises.canitedit.metrics import ProblemScore
from exercises.canitedit.problems import InstructionKind
from exercises.canitedit.reporting.figures import (
    GroupBy,
    GroupFigures,
    figures,
    grouped,
    mean_interval,
    pass_values,
)
from exercises.canitedit.reporting.folder import ScoredFolder, describe_problems
from reports.statistics.methods.intervals import Interval

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
    """pass@k of B minus that of A, by the paired bootstrap over the problems of both.

    Attributes:
        problems: that both have; ``left_out`` are those of only one.
        difference: a share; None, as the interval, if a problem has fewer completions than k.
    """

    a: str
    b: str
    k: int
    problems: int
    left_out: int
    difference: float | None
    interval: Interval | None


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
    named = _distinctly_named(folders)
    return EditingReport(
        ks=tuple(ks),
        models=tuple(_model(folder, ks, by) for folder in named),
        differences=tuple(_differences(named, ks)),
    )


def _distinctly_named(folders: Sequence[ScoredFolder]) -> list[ScoredFolder]:
    """Name folders of equal names by their paths."""
    names = Counter(folder.name for folder in folders)
    return [
        folder if names[folder.name] == 1 else replace(folder, name=str(folder.path))
        for folder in folders
    ]


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
    lazy, descriptive = InstructionKind.LAZY, InstructionKind.DESCRIPTIVE
    columns = {
        (folder.name, kind): {score.name: score for score in scores}
        for folder in folders
        for kind in InstructionKind
        if (scores := folder.of_kind(kind))
    }
    pairs = [((f.name, lazy), (f.name, descriptive)) for f in folders]
    pairs += [
        ((a.name, kind), (b.name, kind)) for kind in InstructionKind
        for a, b in combinations(folders, 2)
    ]  # fmt: skip
    for a, b in pairs:
        if a in columns and b in columns:
            yield from (_difference(a, b, columns[a], columns[b], k) for k in ks)


def _difference(
    a: Column, b: Column, of_a: Mapping[str, ProblemScore], of_b: Mapping[str, ProblemScore], k: int
) -> PassDifference:
    common = sorted({*of_a} & {*of_b})
    values_a = pass_values([of_a[name] for name in common], k)
    values_b = pass_values([of_b[name] for name in common], k)
    changes = None
    if common and values_a is not None and values_b is not None:
        changes = [two - one for one, two in zip(values_a, values_b, strict=True)]
    return PassDifference(
        a=f"{a[0]}, {a[1].value}",
        b=f"{b[0]}, {b[1].value}",
        k=k,
        problems=len(common),
        left_out=len({*of_a} ^ {*of_b}),
        difference=fmean(changes) if changes else None,
        interval=mean_interval(changes) if changes else None,
    )
