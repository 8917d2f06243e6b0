"""Pure: the figures of a group of problems, with their uncertainty."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import fmean, pstdev

from exercises.canitedit.metrics import ExcessCode, ProblemScore
from reports.statistics.methods.intervals import Interval
from reports.statistics.methods.paired import bootstrap_mean
from reports.statistics.methods.passk import pass_at_k


class GroupBy(str, Enum):
    CHANGE_KIND = "change_kind"
    TOPIC = "topic"
    LIBRARIES = "libraries"
    LENGTH = "length"


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
        completions: of all problems together.
        fewest, most: completions of one problem.
        pass_at_k: by k; None where a problem has fewer completions than k.
        code, changed, v1: None if no completion passed, or no coverage is known.
        lines: lines changed, of those that the solution changes; mean over problems.
        distance: from ``before`` in characters; mean over problems.
        unchanged, empty, not_parsing: shares of the completions.
        truncated, without_fence: the same; None if a file does not say it.
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
        pass_at_k={k: pass_estimate(scores, k) for k in ks},
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


def pass_estimate(scores: Sequence[ProblemScore], k: int) -> Estimate | None:
    """Return pass@k; None where a problem has fewer completions than ``k``."""
    shares = pass_shares(scores, k)
    if shares is None:
        return None
    return Estimate(fmean(shares.values()), bootstrap_mean(shares.values()))


def pass_shares(scores: Sequence[ProblemScore], k: int) -> dict[str, float] | None:
    """Return pass@k of each problem by name; None where one has fewer completions than ``k``."""
    if any(score.completions < k for score in scores):
        return None
    return {score.name: pass_at_k(score.completions, score.passed, k) for score in scores}


def _excess(
    scores: Sequence[ProblemScore], part: Callable[[ExcessCode], float]
) -> ExcessMean | None:
    values = [part(score.excess) for score in scores if score.excess]
    if not values:
        return None
    return ExcessMean(fmean(values), pstdev(values) / math.sqrt(len(values)), len(values))


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _share(counts: Iterable[int | None], total: int) -> float | None:
    known = list(counts)
    return None if None in known else sum(filter(None, known)) / total


def grouped(
    scores: Sequence[ProblemScore], by: GroupBy
) -> Iterator[tuple[str, Sequence[ProblemScore]]]:
    """Yield the groups that have problems, by name; lengths from short to long."""
    groups: dict[str, list[ProblemScore]] = {}
    for score in scores:
        for name in _groups(score, by):
            groups.setdefault(name, []).append(score)
    order = sorted(groups, key=_LENGTHS.index) if by is GroupBy.LENGTH else sorted(groups)
    for name in order:
        yield name, groups[name]


# About a third of the 105 problems each.
_LENGTHS = ("1 to 25 lines", "26 to 55 lines", "56 lines and more")


def _groups(score: ProblemScore, by: GroupBy) -> Iterator[str]:
    taxonomy = score.taxonomy
    if by is GroupBy.CHANGE_KIND:
        yield taxonomy.change_kind.value
    elif by is GroupBy.TOPIC:
        yield taxonomy.topic
    elif by is GroupBy.LENGTH:
        yield _LENGTHS[(score.before_lines > 25) + (score.before_lines > 55)]
    else:
        yield "with libraries" if taxonomy.libraries else "without libraries"
        yield from taxonomy.libraries
