"""The pictures of a run, drawn from its statistics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator, PercentFormatter

from swe_retry.core.money import column
from swe_retry.core.plaintext import quantity
from swe_retry.core.redaction import Redactor
from swe_retry.report.plots.picture import Picture, PlottedRow, draw_picture, sentence
from swe_retry.report.plots.style import (
    HATCHES,
    Theme,
    dollar_axis,
    label,
    new_figure,
    percent_axis,
)
from swe_retry.report.statistics.attempts import LimitedRun
from swe_retry.report.statistics.breakdown import by, model_of
from swe_retry.report.statistics.collect import Confusion, RunStats
from swe_retry.report.statistics.methods import percent
from swe_retry.results.jsonvalues import values_of
from swe_retry.results.rundata import InstanceData, RunData


def run_pictures(run: RunData, stats: RunStats, redact: Redactor) -> Iterator[Picture]:
    """Yield the pictures of a run for which there are values; names lose secrets."""
    if not run.is_evaluated:
        return
    yield _score_by_attempt(run, stats)
    priced = []
    for step in stats.bought:
        if step.dollars is None:
            break
        priced.append(step)
    if priced and priced[-1].dollars:
        yield _cost_against_score(priced)
    if stats.scores.evaluated.of:
        yield _models_by_repository(run, redact)
        if stats.counts.plausible is not None:
            yield _confusion(stats.plausible)


def _score_by_attempt(run: RunData, stats: RunStats) -> Picture:
    numbers = [row.attempt for row in stats.by_attempt]
    rows = []
    resolved = 0
    for number, part in by(lambda i: i.attempt, run, numbers).items():
        resolved += part.resolved_count
        row = {
            "attempt": number,
            "resolved": part.resolved_count,
            "not resolved": part.outcomes[False],
            "not evaluated": part.outcomes[None],
            "score": resolved / len(run.selected),
        }
        rows.append(row)
    description = sentence(
        "attempt {attempt}: {resolved} resolved, {not resolved} not, "
        "{not evaluated} not evaluated, score so far {score:.1%}",
        rows,
    )
    return draw_picture(
        "score-by-attempt",
        "Score by attempt",
        description,
        _draw_score_by_attempt,
        rows,
    )


def _draw_score_by_attempt(rows: Sequence[PlottedRow], theme: Theme) -> Figure:
    figure, axes = new_figure()
    attempts = values_of(rows, "attempt")
    looks = {
        "resolved": (theme.good, ""),
        "not resolved": (theme.bad, "////"),
        "not evaluated": (theme.unknown, "\\\\\\\\"),
    }
    below = [0] * len(rows)
    for name, (colour, hatch) in looks.items():
        heights = values_of(rows, name)
        if any(heights):
            axes.bar(
                attempts,
                heights,
                0.65,
                below,
                color=colour,
                hatch=hatch,
                label=name,
            )
            below = [low + height for low, height in zip(below, heights, strict=True)]
    axes.set(
        xlabel="attempt that gave the prediction", ylabel="instances", xticks=attempts
    )
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylim(0, max(below) * 1.18 + 0.5)
    scores = values_of(rows, "score")
    line = axes.twinx()
    line.plot(
        attempts,
        scores,
        color=theme.ink,
        marker="o",
        markersize=4,
        label="score so far",
    )
    line.set_ylabel("score so far")
    line.spines["right"].set_visible(True)
    percent_axis(line.yaxis, 0, max(scores) * 1.25)
    _note(
        line,
        percent(scores[-1]),
        attempts[-1],
        scores[-1],
    )
    figure.legend(loc="outside upper center", ncols=4)
    return figure


def _cost_against_score(steps: Sequence[LimitedRun]) -> Picture:
    costs = column([step.dollars for step in steps])
    rows = []
    for step, cost in zip(steps, costs, strict=True):
        row = {
            "limit": step.attempts,
            "attempts": quantity(step.attempts, "attempt"),
            "dollars": float(step.dollars or 0),
            "cost": cost,
            "score": step.resolved.share or 0.0,
        }
        rows.append(row)
    description = sentence("{attempts}: {cost}, {score:.1%}", rows)
    return draw_picture(
        "cost-against-score",
        "Cost against score",
        description,
        _draw_cost_against_score,
        rows,
    )


def _draw_cost_against_score(rows: Sequence[PlottedRow], theme: Theme) -> Figure:
    figure, axes = new_figure()
    dollars = values_of(rows, "dollars")
    scores = values_of(rows, "score")
    axes.plot(
        dollars,
        scores,
        color=theme.good,
        marker="o",
        linewidth=1.6,
    )
    for row in rows:
        _note(
            axes,
            str(row["limit"]),
            row["dollars"],
            row["score"],
        )
    axes.set(
        xlabel="dollars in all (numbers: limit of attempts per instance)",
        ylabel="score",
    )
    axes.set_xlim(0, max(dollars) * 1.08)
    dollar_axis(axes.xaxis)
    percent_axis(axes.yaxis, 0, max(scores) * 1.2)
    axes.grid(visible=True)
    return figure


def _note(axes: Axes, text: str, x: float, y: float) -> None:
    axes.annotate(
        text,
        (x, y),
        xytext=(0, 6),
        textcoords="offset points",
        ha="center",
    )


def _models_by_repository(run: RunData, redact: Redactor) -> Picture:
    turns = {model: number for number, model in enumerate(run.models)}
    evaluated = run.part(i for i in run.instances if i.resolved is not None)

    def key(instance: InstanceData) -> tuple[int, str, str]:
        model = model_of(instance)
        return turns.get(model, len(turns)), instance.repo, model

    rows = []
    for (_, repository, model), part in by(key, evaluated).items():
        row = {
            "repository": repository,
            "model": model,
            "resolved": part.resolved_count,
            "evaluated": len(part.instances),
        }
        rows.append(row)
    description = sentence("{repository}, {model}: {resolved} of {evaluated}", rows)
    return draw_picture(
        "models-by-repository",
        "Models by repository",
        description,
        _draw_models_by_repository,
        rows,
        redact,
    )


def _draw_models_by_repository(
    rows: Sequence[PlottedRow],
    redact: Redactor,
    theme: Theme,
) -> Figure:
    repositories = sorted(set(values_of(rows, "repository")), reverse=True)
    models = list(dict.fromkeys(values_of(rows, "model")))
    height = 1.3 + 0.22 * len(repositories) * max(len(models), 1.6)
    figure, axes = new_figure(height=height)
    # A part of the space of a repository; the rest separates it from the next.
    group = 0.8
    thickness = group / len(models)
    keys = []
    for number, model in enumerate(models):
        colour = theme.series[number % len(theme.series)]
        look: Any = {"facecolor": colour, "hatch": HATCHES[number % len(HATCHES)]}
        keys.append(
            Patch(
                **look,
                label=label(redact(model)),
            )
        )
        shift = group / 2 - thickness * (number + 0.5)
        positions = []
        shares = []
        texts = []
        for row in rows:
            if row["model"] == model:
                positions.append(repositories.index(row["repository"]) + shift)
                shares.append(row["resolved"] / row["evaluated"])
                texts.append("{resolved}/{evaluated}".format_map(row))
        bars = axes.barh(positions, shares, thickness, **look)
        axes.bar_label(
            bars,
            texts,
            padding=3,
            fontsize=7,
        )
    names = [label(redact(name)) for name in repositories]
    axes.set_yticks(range(len(repositories)), names)
    axes.set_xlim(0, 1.12)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
    axes.set_xlabel(
        "resolved, of the model's evaluated predictions there (counts at the bars)"
    )
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    axes.grid(visible=True, axis="x")
    figure.legend(
        handles=keys,
        loc="outside upper center",
        ncols=2,
    )
    return figure


def _confusion(confusion: Confusion) -> Picture:
    description = (
        "plausible: {plausible_resolved} resolved, {plausible_unresolved} not; "
        "not plausible: {implausible_resolved} resolved, {implausible_unresolved} not"
    ).format_map(vars(confusion))
    return draw_picture(
        "plausible-resolved",
        "Plausible against resolved",
        description,
        _draw_confusion,
        confusion,
    )


def _draw_confusion(confusion: Confusion, theme: Theme) -> Figure:
    figure, axes = new_figure(4.4, 3.0)
    rows = (
        (confusion.plausible_resolved, confusion.plausible_unresolved),
        (confusion.implausible_resolved, confusion.implausible_unresolved),
    )
    shades = colormaps[theme.shades]
    scale = Normalize(0, max(map(max, rows)) * 1.3 or 1)
    for y, x in product(range(2), range(2)):
        count = rows[y][x]
        total = sum(rows[y])
        colour = shades(scale(count))
        axes.add_patch(
            Rectangle(
                (x, y),
                1,
                1,
                facecolor=colour,
                edgecolor=theme.paper,
                linewidth=2,
            )
        )
        text = str(count)
        if total:
            text = f"{count}\n{percent(count / total)} of {total}"
        # Weights of Rec. 601 for the brightness of a colour.
        red, green, blue, _ = colour
        is_light = 0.299 * red + 0.587 * green + 0.114 * blue > 0.5
        ink = "#000000" if is_light else "#ffffff"
        axes.text(
            x + 0.5,
            y + 0.5,
            text,
            ha="center",
            va="center",
            color=ink,
        )
    axes.set_xticks([0.5, 1.5], ["resolved", "not resolved"])
    axes.set_yticks([0.5, 1.5], ["plausible", "not plausible"])
    axes.set(
        xlim=(0, 2),
        ylim=(2, 0),
    )
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return figure
