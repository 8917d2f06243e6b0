"""The pictures of a report: their numbers, and how they are drawn and written as SVG and PNG."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product, takewhile
from pathlib import Path
from typing import Any

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator, PercentFormatter, StrMethodFormatter

from core.atomic import write_bytes_atomic, write_text_atomic
from core.money import column
from core.plaintext import counted
from core.redaction import Redactor
from reports.data.rundata import RunData
from reports.plots.style import (
    DARK,
    HATCHES,
    LIGHT,
    Theme,
    as_png,
    as_svg,
    drawing,
    label,
    new_figure,
    percent_axis,
)
from reports.statistics.breakdown import UNKNOWN
from reports.statistics.collect import Confusion, LimitedRun, RunStats
from reports.statistics.comparing import RunComparison
from reports.statistics.methods import Interval, Share


@dataclass(frozen=True)
class AttemptBar:
    attempt: int
    resolved: int
    unresolved: int
    not_evaluated: int
    score: float


@dataclass(frozen=True)
class RepositoryBar:
    repository: str
    model: str
    resolved: int
    evaluated: int


@dataclass(frozen=True)
class Score:
    run: str
    share: Share
    official: bool


@dataclass(frozen=True)
class FigureData:
    """The data of all pictures of a report; a picture without data is left out."""

    attempts: tuple[AttemptBar, ...] = ()
    steps: tuple[LimitedRun, ...] = ()  # with known costs
    repositories: tuple[RepositoryBar, ...] = ()
    confusion: Confusion | None = None
    scores: tuple[Score, ...] = ()
    differences: tuple[RunComparison, ...] = ()  # with an interval


def figure_data(run: RunData, stats: RunStats) -> FigureData:
    if not run.evaluated:
        return FigureData()
    attempts, so_far = [], 0
    for number in range(
        1, max((row.attempt for row in stats.by_attempt), default=0) + 1
    ):
        found = [i.resolved for i in run.instances if i.attempt == number]
        resolved, unresolved, unknown = map(found.count, (True, False, None))
        so_far += resolved
        score = so_far / len(run.selected)
        attempts.append(AttemptBar(number, resolved, unresolved, unknown, score))
    evaluated = [i for i in run.instances if i.resolved is not None]
    places = {model: place for place, model in enumerate(run.models)}
    pairs = {(i.repo, i.model or UNKNOWN) for i in evaluated}
    bars = []
    for repo, model in sorted(
        pairs, key=lambda pair: (places.get(pair[1], len(places)), pair)
    ):
        own = [
            i.resolved
            for i in evaluated
            if (i.repo, i.model or UNKNOWN) == (repo, model)
        ]
        bars.append(RepositoryBar(repo, model, own.count(True), len(own)))
    return FigureData(
        attempts=tuple(attempts),
        steps=tuple(takewhile(lambda row: row.dollars is not None, stats.bought)),
        repositories=tuple(bars),
        confusion=stats.plausible
        if evaluated and stats.counts.plausible is not None
        else None,
    )


def comparison_data(
    runs: Sequence[RunStats], comparisons: Sequence[RunComparison]
) -> FigureData:
    return FigureData(
        scores=tuple(
            Score(run.run, run.scores.selected, run.official)
            for run in runs
            if run.scores.selected.share is not None
        ),
        differences=tuple(found for found in comparisons if found.interval),
    )


def redacted(data: FigureData, redact: Redactor) -> FigureData:
    """Return ``data`` with secrets removed from all names."""
    return replace(
        data,
        repositories=tuple(
            replace(bar, repository=redact(bar.repository), model=redact(bar.model))
            for bar in data.repositories
        ),
        scores=tuple(replace(score, run=redact(score.run)) for score in data.scores),
        differences=tuple(
            replace(d, a=redact(d.a), b=redact(d.b)) for d in data.differences
        ),
    )


Draw = Callable[[Theme], Figure]


@dataclass(frozen=True)
class Picture:
    """A drawn picture: SVG for paper and for a dark page, PNG for paper, and alternative text."""

    name: str
    title: str
    words: str
    light: str
    dark: str
    png: bytes


def write_figures(
    data: FigureData, folder: Path, redact: Redactor | None = None
) -> tuple[Picture, ...]:
    """Write ``<name>.svg`` and ``<name>.png`` of each picture; names lose secrets."""
    pictures = draw_figures(redacted(data, redact) if redact else data)
    for picture in pictures:
        write_picture(picture, folder)
    return pictures


def write_picture(picture: Picture, folder: Path) -> None:
    write_text_atomic(folder / f"{picture.name}.svg", picture.light)
    write_bytes_atomic(folder / f"{picture.name}.png", picture.png)


def draw_figures(data: FigureData) -> tuple[Picture, ...]:
    return tuple(_drawn(data))


def _drawn(data: FigureData) -> Iterator[Picture]:
    if bars := data.attempts:
        words = "; ".join(
            f"attempt {bar.attempt}: {bar.resolved} resolved, {bar.unresolved} not, "
            f"{bar.not_evaluated} not evaluated, score so far {bar.score:.1%}"
            for bar in bars
        )
        draw = partial(_draw_score_by_attempt, bars)
        yield drawn("score-by-attempt", "Score by attempt", words, draw)
    steps = data.steps
    if steps and steps[-1].dollars:
        words = "; ".join(
            f"{counted(step.attempts, 'attempt')}: {cost}, {step.resolved.share or 0:.1%}"
            for step, cost in zip(
                steps, column([step.dollars for step in steps]), strict=True
            )
        )
        draw = partial(_draw_cost_against_score, steps)
        yield drawn("cost-against-score", "Cost against score", words, draw)
    if own := data.repositories:
        words = "; ".join(
            f"{bar.repository}, {bar.model}: {bar.resolved} of {bar.evaluated}"
            for bar in own
        )
        draw = partial(_draw_models_by_repository, own)
        yield drawn("models-by-repository", "Models by repository", words, draw)
    if known := data.confusion:
        words = (
            f"plausible: {known.plausible_resolved} resolved, "
            f"{known.plausible_unresolved} not; not plausible: "
            f"{known.implausible_resolved} resolved, {known.implausible_unresolved} not"
        )
        draw = partial(_draw_confusion, known)
        yield drawn("plausible-resolved", "Plausible against resolved", words, draw)
    if len(data.scores) > 1:
        parts = [
            f"{one.run}: {_around(one.share.share or 0.0, one.share.interval)}"
            for one in data.scores
        ]
        pairs = data.differences
        parts += [
            f"{d.b} less {d.a}: {_around(d.difference or 0.0, d.interval)}"
            for d in pairs
        ]
        draw = partial(_draw_comparison, data.scores, data.differences)
        yield drawn("comparison", "Comparison of runs", "; ".join(parts), draw)


def _around(value: float, interval: Interval | None) -> str:
    reach = f" ({interval.low:.1%} to {interval.high:.1%})" if interval else ""
    return f"{value:.1%}{reach}"


def drawn(name: str, title: str, words: str, draw: Draw) -> Picture:
    with drawing(LIGHT):
        figure = draw(LIGHT)
        light, png = as_svg(figure), as_png(figure)
    with drawing(DARK):
        dark = as_svg(draw(DARK))
    return Picture(name, title, words, light, dark, png)


def _draw_score_by_attempt(bars: Sequence[AttemptBar], theme: Theme) -> Figure:
    figure, axes = new_figure()
    places = [bar.attempt for bar in bars]
    parts = (
        ("resolved", [bar.resolved for bar in bars], theme.good, ""),
        ("not resolved", [bar.unresolved for bar in bars], theme.bad, "////"),
        (
            "not evaluated",
            [bar.not_evaluated for bar in bars],
            theme.unknown,
            "\\\\\\\\",
        ),
    )
    below = [0] * len(bars)
    for name, heights, colour, hatch in parts:
        if not any(heights):
            continue
        axes.bar(places, heights, 0.65, below, color=colour, hatch=hatch, label=name)
        below = [low + height for low, height in zip(below, heights, strict=True)]
    axes.set(
        xlabel="attempt that gave the prediction", ylabel="instances", xticks=places
    )
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylim(0, max(below, default=0) * 1.18 + 0.5)
    scores, line = [bar.score for bar in bars], axes.twinx()
    line.plot(
        places, scores, color=theme.ink, marker="o", markersize=4, label="score so far"
    )
    line.set_ylabel("score so far")
    line.spines["right"].set_visible(True)
    percent_axis(line.yaxis, 0, max(scores, default=0.0) * 1.25)
    if scores:
        _note(line, f"{scores[-1]:.1%}", (places[-1], scores[-1]), theme)
    figure.legend(loc="outside upper center", ncols=4)
    return figure


def _draw_cost_against_score(steps: Sequence[LimitedRun], theme: Theme) -> Figure:
    figure, axes = new_figure()
    dollars = [float(step.dollars or 0) for step in steps]
    scores = [step.resolved.share or 0.0 for step in steps]
    axes.plot(dollars, scores, color=theme.good, marker="o", linewidth=1.6)
    for each, x, y in zip(steps, dollars, scores, strict=True):
        _note(axes, str(each.attempts), (x, y), theme)
    axes.set(
        xlabel="dollars in all (numbers: limit of attempts per instance)",
        ylabel="score",
    )
    axes.set_xlim(0, max(dollars, default=0.0) * 1.08 or 1.0)
    # With as many decimals as the step of the axis needs.
    ticks = axes.get_xticks()
    step = float(ticks[1] - ticks[0]) if len(ticks) > 1 else 1.0
    decimals = 0 if step >= 1 else max(2, math.ceil(-math.log10(step)))
    axes.xaxis.set_major_formatter(StrMethodFormatter(f"${{x:,.{decimals}f}}"))
    percent_axis(axes.yaxis, 0, max(scores, default=0.0) * 1.2)
    axes.grid(visible=True)
    axes.set_axisbelow(True)
    return figure


def _note(axes: Axes, text: str, place: tuple[float, float], theme: Theme) -> None:
    axes.annotate(
        text,
        place,
        xytext=(0, 6),
        textcoords="offset points",
        ha="center",
        color=theme.ink,
    )


_ROOM = 1.4  # for the text after an interval


def _draw_comparison(
    scores: Sequence[Score], differences: Sequence[RunComparison], theme: Theme
) -> Figure:
    # In inches: an axis and its lines.
    heights = [1.0 + 0.45 * len(lines) for lines in (scores, differences) if lines]
    figure = Figure(figsize=(6.4, sum(heights)), layout="constrained")
    panels = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)
    axes = panels[0][0]
    for y, score in enumerate(scores):
        share = score.share.share or 0.0
        words = f"{share:.1%} ({score.share.count}/{score.share.of})"
        _draw_interval(
            axes, y, share, score.share.interval, words, theme, filled=score.official
        )
    highest = max(
        (s.share.interval.high for s in scores if s.share.interval), default=1.0
    )
    _label_lines(axes, [label(score.run) for score in scores], 0, highest * _ROOM)
    axes.set_xlabel("resolved, of the selected instances; 95 % interval (Wilson)")
    if not differences:
        return figure
    axes = panels[1][0]
    for y, one in enumerate(differences):
        value = one.difference or 0.0
        words = f"{100 * value:+.1f} points"
        _draw_interval(axes, y, value, one.interval, words, theme, filled=True)
    intervals = [one.interval for one in differences if one.interval]
    low = min(0.0, *(interval.low for interval in intervals))
    high = max(0.0, *(interval.high for interval in intervals))
    # Runs that never differ give an interval without width.
    width = high - low or 0.1
    axes.axvline(0, color=theme.ink, linewidth=0.8)
    names = [f"{label(one.b)}\nless {label(one.a)}" for one in differences]
    _label_lines(axes, names, low - 0.05 * width, high + (_ROOM - 1) * width)
    axes.set_xlabel("difference where both have a verdict; 95 % interval (bootstrap)")
    return figure


def _draw_interval(
    axes: Axes,
    y: int,
    value: float,
    interval: Interval | None,
    words: str,
    theme: Theme,
    *,
    filled: bool,
) -> None:
    # A hollow mark means unofficial verdicts.
    around = interval or Interval(value, value)
    axes.errorbar(
        value,
        y,
        xerr=[[max(value - around.low, 0)], [max(around.high - value, 0)]],
        markerfacecolor=theme.good if filled else theme.paper,
        color=theme.good,
        fmt="o",
        capsize=4,
        markersize=7,
    )
    axes.annotate(
        words,
        (around.high, y),
        (8, 0),
        textcoords="offset points",
        va="center",
        fontsize=8,
    )


def _label_lines(axes: Axes, names: Sequence[str], low: float, high: float) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.7)
    percent_axis(axes.xaxis, low, high)
    axes.grid(visible=True, axis="x")
    axes.set_axisbelow(True)


def _draw_confusion(confusion: Confusion, theme: Theme) -> Figure:
    figure, axes = new_figure(4.4, 3.0)
    rows = (
        (confusion.plausible_resolved, confusion.plausible_unresolved),
        (confusion.implausible_resolved, confusion.implausible_unresolved),
    )
    most = max(max(row) for row in rows)
    shades, norm = colormaps[theme.shades], Normalize(0, most * 1.3 or 1)
    for y, x in product(range(2), range(2)):
        count, of, colour = rows[y][x], sum(rows[y]), shades(norm(rows[y][x]))
        # Weights of Rec. 601 for the brightness of a colour.
        light = (
            sum(w * c for w, c in zip((0.299, 0.587, 0.114), colour, strict=False))
            > 0.5
        )
        cell = Rectangle(
            (x, y), 1, 1, facecolor=colour, edgecolor=theme.paper, linewidth=2
        )
        axes.add_patch(cell)
        text = f"{count}\n{count / of:.1%} of {of}" if of else str(count)
        ink = "#000000" if light else "#ffffff"
        axes.text(x + 0.5, y + 0.5, text, ha="center", va="center", color=ink)
    axes.set_xticks([0.5, 1.5], ["resolved", "not resolved"])
    axes.set_yticks([0.5, 1.5], ["plausible", "not plausible"])
    axes.set(xlim=(0, 2), ylim=(2, 0))
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return figure


def _draw_models_by_repository(bars: Sequence[RepositoryBar], theme: Theme) -> Figure:
    repositories = sorted({bar.repository for bar in bars}, reverse=True)
    models = list(dict.fromkeys(bar.model for bar in bars))
    height = 1.3 + 0.22 * len(repositories) * max(len(models), 1.6)
    figure, axes = new_figure(height=height)
    group = (
        0.8  # share of the space of a repository; the rest separates it from the next
    )
    thickness = group / len(models)
    for number, model in enumerate(models):
        own = {
            bar.repository: bar for bar in bars if bar.model == model and bar.evaluated
        }
        found = [own.get(name) for name in repositories]
        shift = group / 2 - thickness * (number + 0.5)
        places = [place + shift for place in range(len(found))]
        shares = [bar.resolved / bar.evaluated if bar else 0.0 for bar in found]
        drawn = axes.barh(places, shares, thickness, **_look(number, theme))
        counts = [f"{bar.resolved}/{bar.evaluated}" if bar else "" for bar in found]
        axes.bar_label(drawn, counts, padding=3, fontsize=7)
    axes.set_yticks(range(len(repositories)), [label(name) for name in repositories])
    axes.set_xlim(0, 1.12)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
    axes.set_xlabel(
        "resolved, of the model's evaluated predictions there (counts at the bars)"
    )
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.grid(visible=True, axis="x")
    axes.set_axisbelow(True)
    keys = [Patch(**_look(number, theme)) for number in range(len(models))]
    figure.legend(
        keys, [label(model) for model in models], loc="outside upper center", ncols=2
    )
    return figure


def _look(number: int, theme: Theme) -> dict[str, Any]:
    colour = theme.series[number % len(theme.series)]
    return {"facecolor": colour, "hatch": HATCHES[number % len(HATCHES)]}
