"""Pure: the numbers of the first page and of the pictures, from a run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from decimal import Decimal

from reports.pages.overview import (
    Card,
    Overview,
    Table,
    notes,
    share,
    table_rows,
    total_attempts,
    verdict_key,
)
from reports.pages.render import dollars
from reports.plots.data import AttemptBar, Confusion, FigureData, RepositoryBar, Score, Step
from reports.rundata import InstanceData, RunData

_Z = 1.959963984540054


def wilson(part: int, whole: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval (1927) of a share."""
    if not whole:
        return 0.0, 1.0
    p, z2 = part / whole, _Z * _Z
    middle = (p + z2 / (2 * whole)) / (1 + z2 / whole)
    reach = _Z * math.sqrt(p * (1 - p) / whole + z2 / (4 * whole**2)) / (1 + z2 / whole)
    return middle - reach, middle + reach


def figure_data(run: RunData, others: Sequence[RunData] = ()) -> FigureData:
    """Return what the pictures show of ``run``, compared with ``others``."""
    judged = [i for i in run.instances if i.resolved is not None]
    return FigureData(
        attempts=tuple(_attempts(run)),
        steps=tuple(_steps(run)),
        repositories=tuple(_repositories(judged, run.models)),
        confusion=_confusion(judged) if judged else None,
        scores=tuple(_score(each) for each in (run, *others)),
    )


def _numbers(run: RunData) -> range:
    given = [i.winner for i in run.instances if i.winner]
    made = [attempt.attempt for i in run.instances for attempt in i.attempts]
    return range(1, max([*given, *made], default=0) + 1)


def _attempts(run: RunData) -> Iterator[AttemptBar]:
    so_far = 0
    for number in _numbers(run):
        keys = [verdict_key(i) for i in run.instances if i.winner == number]
        resolved = keys.count("resolved")
        so_far += resolved
        unknown = keys.count("not_evaluated")
        rest = len(keys) - resolved - unknown
        yield AttemptBar(number, resolved, rest, unknown, so_far / len(run.selected))


def _steps(run: RunData) -> Iterator[Step]:
    spent, resolved = Decimal(), 0
    for number in _numbers(run):
        costs = [a.cost for i in run.instances for a in i.attempts if a.attempt == number]
        if any(cost is None for cost in costs):
            return
        spent += sum((cost for cost in costs if cost is not None), Decimal())
        resolved += sum(bool(i.resolved) for i in run.instances if i.winner == number)
        yield Step(number, spent, resolved / len(run.selected))


def _repositories(judged: Sequence[InstanceData], models: Sequence[str]) -> Iterator[RepositoryBar]:
    places = {model: place for place, model in enumerate(models)}
    pairs = {(i.repo, i.model or "unknown") for i in judged}
    for repo, model in sorted(pairs, key=lambda pair: (places.get(pair[1], len(places)), pair)):
        own = [i for i in judged if i.repo == repo and (i.model or "unknown") == model]
        yield RepositoryBar(repo, model, sum(bool(i.resolved) for i in own), len(own))


def _confusion(judged: Sequence[InstanceData]) -> Confusion:
    def count(plausible: bool, resolved: bool) -> int:
        return sum(i.plausible is plausible and i.resolved is resolved for i in judged)

    return Confusion(count(True, True), count(True, False), count(False, True), count(False, False))


def _score(run: RunData) -> Score:
    resolved = sum(bool(i.resolved) for i in run.instances)
    low, high = wilson(resolved, len(run.selected))
    verdicts = [i.verdict for i in run.instances if i.verdict and i.verdict.status != "empty"]
    official = bool(verdicts) and all(v.official for v in verdicts)
    return Score(run.name, resolved, len(run.selected), low, high, official)


def overview_of(run: RunData) -> Overview:
    """Return the overview of ``run``."""
    return Overview(
        name=run.name,
        models=run.models,
        notes=notes(run),
        cards=tuple(_cards(run)),
        rows=table_rows(run, "instances"),
        tables=(_by_attempt(run),),
    )


def _cards(run: RunData) -> Iterator[Card]:
    score = _score(run)
    judged = sum(i.resolved is not None for i in run.instances)
    plausible = sum(i.plausible for i in run.instances)
    reach = f"{score.resolved} of {score.selected}; 95 %: {score.low:.1%} to {score.high:.1%}"
    yield Card("Resolved", share(score.resolved, score.selected), reach)
    yield Card("Evaluated", str(judged), f"of {len(run.selected)} selected")
    yield Card("Plausible", str(plausible), f"of {len(run.instances)} predictions")
    yield Card("Attempts", str(total_attempts(run.instances)))
    yield Card("Cost", dollars(run.cost))


def _by_attempt(run: RunData) -> Table:
    bars = tuple(_attempts(run))
    rows = tuple(
        (str(b.attempt), str(b.resolved + b.unresolved + b.not_evaluated), str(b.resolved),
         f"{b.score:.1%}")
        for b in bars
    )  # fmt: skip
    return Table("By attempt", ("attempt", "predictions", "resolved", "score so far"), rows)
