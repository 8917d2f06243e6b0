"""Read folders of evaluated completions, and report on them as values; nothing is executed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from pathlib import Path
from statistics import fmean, pstdev

from core.errors import DamagedFileError, UserError
from core.plaintext import counted, one_line, some
from exercises.canitedit.metrics import ExcessCode, ProblemScore, score
from exercises.canitedit.problems import (
    ALL_PROBLEMS,
    FIRST_PAPER,
    GroupBy,
    InstructionKind,
    expected_problems,
)
from exercises.canitedit.results import COMPLETED, EVALUATED, Decoding, read_file
from reports.statistics.methods import (
    Interval,
    MeanComparison,
    bootstrap_mean,
    compare_means,
    pass_at_k,
)

_SHOWN = 3
_DECODING = ("temperature", "top_p", "max_tokens", "prompt")


@dataclass(frozen=True)
class ScoredFolder:
    """The scores of one folder: those of one model.

    Attributes:
        faults: what is incomplete or mixed; empty for a complete folder.
        samplings: with what the completions were asked for; one if they are not mixed.
    """

    name: str
    path: Path
    scores: tuple[ProblemScore, ...]
    faults: tuple[str, ...]
    samplings: tuple[Decoding, ...]

    def of_kind(self, kind: InstructionKind) -> tuple[ProblemScore, ...]:
        return tuple(one for one in self.scores if one.kind is kind)

    @property
    def problems(self) -> frozenset[str]:
        return frozenset(score.name for score in self.scores)


def model_folders_in(path: Path) -> tuple[Path, ...]:
    """Return the folders with completions in a run of several models, else ``path`` itself."""
    if any(path.glob(f"*{COMPLETED}")):
        return (path,)
    return tuple(sorted({place.parent for place in path.glob(f"*/*{COMPLETED}")})) or (
        path,
    )


def read_folder(path: Path, *, v1: bool, allow_partial: bool) -> ScoredFolder:
    """Score a folder; ``allow_partial`` lists what is incomplete or mixed in ``faults``."""
    if not path.is_dir():
        raise UserError(f"{path} is not a folder; give one with files *{EVALUATED}")
    scores: list[ProblemScore] = []
    samplings: list[Decoding] = []
    damaged: list[DamagedFileError] = []
    for place in sorted(path.glob(f"*{EVALUATED}")):
        try:
            file = read_file(place)
        except DamagedFileError as error:
            damaged.append(error)
            continue
        if not v1 or file.problem.full_name in FIRST_PAPER:
            scores.append(score(file))
            samplings.append(file.sampling)
    faults = tuple(_faults(path, scores, samplings, damaged))
    if not scores:
        reason = "; ".join(faults) or f"it has no file *{EVALUATED} of these problems"
        raise UserError(f"{path}: {reason}; give a folder of completions")
    if faults and not allow_partial:
        words = "; ".join(faults)
        raise UserError(
            f"{path} is incomplete: {words}; report.allow_partial=true reports it so"
        )
    scores.sort(key=lambda one: (one.problem_id, one.name, one.kind.value))
    name = one_line(path.resolve().name) or str(path)
    distinct = {
        (
            *(getattr(one, name) for name in _DECODING),
            str(one.script_args.get("model")),
        ): one
        for one in samplings
    }
    return ScoredFolder(name, path, tuple(scores), faults, tuple(distinct.values()))


def _faults(
    path: Path,
    scores: Sequence[ProblemScore],
    samplings: Sequence[Decoding],
    damaged: Sequence[DamagedFileError],
) -> Iterator[str]:
    if damaged:
        shown = some(
            [f"{one_line(e.path.name)} {one_line(e.problem)}" for e in damaged], _SHOWN
        )
        yield f"{counted(len(damaged), 'file')} cannot be used ({shown})"
    done = {place.name.removesuffix(EVALUATED) for place in path.glob(f"*{EVALUATED}")}
    names = {
        place.name.removesuffix(COMPLETED)
        for place in path.glob(f"*{COMPLETED}")
        if not place.name.endswith(EVALUATED)
    }
    if waiting := sorted(map(one_line, names - done)):
        yield f"{counted(len(waiting), 'file')} not evaluated ({some(waiting, _SHOWN)})"
    expected = expected_problems(score.name for score in scores)
    for kind in InstructionKind:
        found = {score.name for score in scores if score.kind is kind}
        if found and (missing := sorted(expected - found)):
            words = f"{len(found)} of {len(expected)} problems with {kind.value} instructions"
            yield f"{words} (no {some(missing, _SHOWN)})"
    yield from _mixed("completions", Counter(score.completions for score in scores))
    for name in _DECODING:
        values = Counter(getattr(sampling, name) for sampling in samplings)
        yield from _mixed(f"mixed {name}", values)


def _mixed(name: str, values: Counter[object]) -> Iterator[str]:
    if len(values) > 1:
        ordered = sorted(values.items(), key=lambda pair: (-pair[1], str(pair[0])))
        shown = ", ".join(
            f"{value} in {counted(n, 'file')}" for value, n in ordered[:_SHOWN]
        )
        yield f"{name}: {shown}"


def describe_problems(problems: Iterable[str]) -> str:
    """Name a set of problems in a word."""
    found = frozenset(problems)
    if found == ALL_PROBLEMS:
        return "all 105"
    return (
        "the 54 of the first paper"
        if found == FIRST_PAPER
        else counted(len(found), "problem")
    )


@dataclass(frozen=True)
class Estimate:
    """A mean over problems with its bootstrap interval, as shares."""

    mean: float
    interval: Interval | None


@dataclass(frozen=True)
class ExcessMean:
    """An ExcessCode over problems, in per cent.

    Attributes:
        standard_error: population deviation over the problems / √m.
        problems: m, those with a passing completion whose coverage is known.
    """

    mean: float
    standard_error: float
    problems: int


@dataclass(frozen=True)
class GroupFigures:
    """The figures of one model for one instruction over a group of problems.

    Attributes:
        by, group: empty for all problems.
        fewest, most: completions of one problem.
        pass_at_k: None where a problem has fewer completions than k.
        code, changed, v1: None if no completion passed, or no coverage is known.
        lines, distance: means over problems; see ``ProgramMeasures``.
        unchanged, empty, not_parsing, truncated, without_fence: shares of the completions; None
            if a file does not say it.
        unknown_coverage: passing completions without coverage: no ExcessCode counts them.
    """

    by: str
    group: str
    problems: int
    completions: int
    fewest: int
    most: int
    pass_at_k: Mapping[int, Estimate | None]
    code: ExcessMean | None
    changed: ExcessMean | None
    v1: ExcessMean | None
    lines: float | None
    distance: float | None
    unchanged: float
    empty: float
    not_parsing: float
    truncated: float | None
    without_fence: float | None
    unknown_coverage: int
    statuses: Mapping[str, int]


def figures(
    scores: Sequence[ProblemScore], ks: Iterable[int], by: str = "", group: str = ""
) -> GroupFigures:
    """Return the figures of problems; there is at least one."""
    counts = [score.completions for score in scores]
    total = sum(counts)
    statuses = sum((Counter(score.statuses) for score in scores), Counter[str]())
    return GroupFigures(
        by=by,
        group=group,
        problems=len(scores),
        completions=total,
        fewest=min(counts),
        most=max(counts),
        pass_at_k={
            k: Estimate(fmean(shares.values()), bootstrap_mean(shares.values()))
            if shares
            else None
            for k in ks
            for shares in [pass_shares(scores, k)]
        },
        code=_excess(scores, lambda excess: excess.code),
        changed=_excess(scores, lambda excess: excess.changed),
        v1=_excess(scores, lambda excess: excess.v1),
        lines=_mean(score.lines for score in scores),
        distance=_mean(score.distance for score in scores),
        unchanged=sum(score.unchanged for score in scores) / total,
        empty=sum(score.empty for score in scores) / total,
        not_parsing=sum(score.not_parsing for score in scores) / total,
        truncated=_share((score.truncated for score in scores), total),
        without_fence=_share((score.without_fence for score in scores), total),
        unknown_coverage=sum(score.unknown_coverage for score in scores),
        statuses=dict(sorted(statuses.items())),
    )


def pass_shares(scores: Sequence[ProblemScore], k: int) -> dict[str, float] | None:
    """Return pass@k of each problem by name; None where one has fewer completions than ``k``."""
    if any(score.completions < k for score in scores):
        return None
    return {
        score.name: pass_at_k(score.completions, score.passed, k) for score in scores
    }


def _excess(
    scores: Sequence[ProblemScore], part: Callable[[ExcessCode], float]
) -> ExcessMean | None:
    values = [part(score.excess) for score in scores if score.excess]
    if not values:
        return None
    return ExcessMean(
        fmean(values), pstdev(values) / math.sqrt(len(values)), len(values)
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _share(counts: Iterable[int | None], total: int) -> float | None:
    known = list(counts)
    return None if None in known else sum(filter(None, known)) / total


# About a third of the 105 problems each.
_LENGTHS = ("1 to 25 lines", "26 to 55 lines", "56 lines and more")


def grouped(
    scores: Sequence[ProblemScore], by: GroupBy
) -> Iterator[tuple[str, Sequence[ProblemScore]]]:
    """Yield the groups that have problems, by name; lengths from short to long."""
    groups: dict[str, list[ProblemScore]] = {}
    for one in scores:
        libraries = one.taxonomy.libraries
        names = {
            GroupBy.CHANGE_KIND: [one.taxonomy.change_kind.value],
            GroupBy.TOPIC: [one.taxonomy.topic],
            GroupBy.LENGTH: [
                _LENGTHS[(one.before_lines > 25) + (one.before_lines > 55)]
            ],
            GroupBy.LIBRARIES: [
                "with libraries" if libraries else "without libraries",
                *libraries,
            ],
        }
        for name in names[by]:
            groups.setdefault(name, []).append(one)
    order = (
        sorted(groups, key=_LENGTHS.index) if by is GroupBy.LENGTH else sorted(groups)
    )
    for name in order:
        yield name, groups[name]


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


def _model(
    folder: ScoredFolder, ks: Sequence[int], by: Sequence[GroupBy]
) -> ModelReport:
    found = {kind: folder.of_kind(kind) for kind in InstructionKind}
    one = folder.samplings[0]
    mixed = len(folder.samplings) > 1
    return ModelReport(
        name=folder.name,
        folder=str(folder.path),
        problems=describe_problems(folder.problems),
        **{name: None if mixed else getattr(one, name) for name in _DECODING},
        faults=folder.faults,
        figures={
            kind: (
                figures(scores, ks),
                *(
                    figures(group, ks, group_by.value, name)
                    for group_by in by
                    for name, group in grouped(scores, group_by)
                ),
            )
            for kind, scores in found.items()
            if scores
        },
    )


def _differences(
    folders: Sequence[ScoredFolder], ks: Sequence[int]
) -> Iterator[PassDifference]:
    columns = {
        (folder.name, kind): scores
        for folder in folders
        for kind in InstructionKind
        if (scores := folder.of_kind(kind))
    }
    names, kinds = [folder.name for folder in folders], InstructionKind
    pairs = [((name, kinds.LAZY), (name, kinds.DESCRIPTIVE)) for name in names]
    pairs += [
        ((a, kind), (b, kind))
        for kind, (a, b) in product(kinds, combinations(names, 2))
    ]
    for a, b in pairs:
        if a in columns and b in columns:
            for k in ks:
                one, two = pass_shares(columns[a], k), pass_shares(columns[b], k)
                means = compare_means(one, two) if one and two else None
                yield PassDifference(
                    f"{a[0]}, {a[1].value}", f"{b[0]}, {b[1].value}", k, means
                )
