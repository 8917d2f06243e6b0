"""Evaluate completions and score them: ``python -m swe_retry_exercises.canitedit report DIR…``."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, combinations
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from swe_retry.kit import (
    DamagedFileError,
    SettingFlag,
    StoppedError,
    UserError,
    find_run,
    one_line,
    quantity,
    settings_command,
    some,
)
from swe_retry_exercises.canitedit.evaluation import evaluate
from swe_retry_exercises.canitedit.metrics import (
    SAMPLING,
    ScoreRow,
    bounds,
    figures_of,
    pass_shares,
    score,
)
from swe_retry_exercises.canitedit.problems import (
    FIRST_PAPER,
    KINDS,
    describe_problems,
    expected_problems,
)
from swe_retry_exercises.canitedit.results import COMPLETED, EVALUATED, read_file
from swe_retry_exercises.canitedit.settings import CompletionReportSettings, GroupBy
from swe_retry_exercises.canitedit.tables import (
    draw_scores,
    report_csv,
    report_json,
    report_text,
)
from swe_retry_exercises.options import CHART
from swe_retry_exercises.statistics import compare_means
from swe_retry_exercises.values import say_aside, values_of

Columns = dict[tuple[str, str], list[ScoreRow]]
"""The scores of each model and instruction."""
_SHOWN = 3
_PANEL = "Evaluation"
FLAGS = (
    SettingFlag("evaluation.environment", "--environment", "PLACE", _PANEL),
    SettingFlag("evaluation.workers", "--workers", "N", _PANEL, "-w"),
)


@settings_command(CompletionReportSettings, "folders", FLAGS)
def main(
    settings: CompletionReportSettings,
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="DIR",
            parser=find_run,
            help="Score these runs, or folders of files *.json.gz, one for each model.",
        ),
    ] = None,
    chart: Annotated[
        Path | None,
        typer.Option(
            CHART, metavar="FILE", help="Draw a chart of pass@1: .svg or .png."
        ),
    ] = None,
    format: Annotated[
        Literal["text", "markdown", "csv", "json"],
        typer.Option(
            help="Print the report as text, markdown (the first paper's Table 3 first), csv or "
            "json."
        ),
    ] = "text",
) -> int:
    """Run the programs that were not evaluated, and report pass@k, ExcessCode and more."""
    if not folders:
        raise UserError(
            "no folder given; usage: python -m swe_retry_exercises.canitedit report DIR…"
        )
    ks = settings.report.k
    if chart is not None:
        _check_chart(chart, ks)
    paths: Sequence[Path] = list(chain.from_iterable(map(model_folders_in, folders)))
    if len({path.resolve() for path in paths}) < len(paths):
        raise UserError("a folder is given twice; leave one of them out")
    try:
        paths = evaluate(paths, settings)
    except StoppedError as error:
        raise KeyboardInterrupt from error
    folders_scores = []
    for path in paths:
        scores = read_folder(
            path,
            v1=settings.problems.v1,
            allow_partial=settings.report.allow_partial,
        )
        folders_scores.append(scores)
    rows, differences = report_on(folders_scores, ks, settings.report.by)
    if chart is not None:
        # Imported here: matplotlib takes half a second, which only charts need.
        from swe_retry.kit import draw_picture
        from swe_retry_exercises.charts import write_chart

        draw = partial(draw_scores, rows)
        for path in write_chart(draw_picture("scores", "", "", draw), chart):
            say_aside(f"wrote {path}")
    if format == "json":
        print(report_json(rows, differences))
    elif format == "csv":
        print(report_csv(rows))
    else:
        print(report_text(rows, differences, markdown=format == "markdown"))
    return 0


def _check_chart(chart: Path, ks: Sequence[int]) -> None:
    if 1 not in ks:
        raise UserError(f"--chart {chart} shows pass@1; add 1 to report.k")
    if chart.suffix not in (".svg", ".png"):
        raise UserError(f"--chart {chart}: give a name that ends in .svg or .png")


def model_folders_in(path: Path) -> Sequence[Path]:
    """Return the folders with completions in a run of several models, else ``path`` itself."""
    folders = {file.parent for file in path.glob(f"*/*{COMPLETED}")}
    if not folders or any(path.glob(f"*{COMPLETED}")):
        return [path]
    return sorted(folders)


def read_folder(path: Path, *, v1: bool, allow_partial: bool) -> list[ScoreRow]:
    """Return the scores of a folder, each with what is the same for all of them.

    What is incomplete or mixed stands in ``faults`` where it is allowed. Of the sampling, what is
    unknown or mixed is None.
    """
    if not path.is_dir():
        raise UserError(f"{path} is not a folder; give one with files *{EVALUATED}")
    scores = []
    damages = []
    for file_path in sorted(path.glob(f"*{EVALUATED}")):
        try:
            file = read_file(file_path)
        except DamagedFileError as error:
            damages.append(f"{one_line(error.path.name)} {one_line(error.problem)}")
            continue
        if not v1 or file.full_name in FIRST_PAPER:
            scores.append(score(file))
    faults = one_line("; ".join(_faults(path, scores, damages)))
    if not scores:
        reason = faults or f"it has no file *{EVALUATED} of these problems"
        raise UserError(f"{path}: {reason}; give a folder of completions")
    if faults and not allow_partial:
        raise UserError(
            f"{path} is incomplete: {faults}; report.allow_partial=true reports it so"
        )
    scores.sort(key=lambda row: (row["instruction"], row["id"], row["name"]))
    shared = {}
    for name in SAMPLING:
        values = set(values_of(scores, name))
        shared[name] = values.pop() if len(values) == 1 else None
    shared["problem_set"] = describe_problems(values_of(scores, "name"))
    shared["model"] = one_line(path.resolve().name) or str(path)
    shared["folder"] = str(path)
    shared["faults"] = faults
    return [row | shared for row in scores]


def _faults(
    path: Path,
    scores: Sequence[ScoreRow],
    damages: Sequence[str],
) -> Iterator[str]:
    if damages:
        files = quantity(len(damages), "file")
        yield f"{files} cannot be used ({some(damages, _SHOWN)})"
    stems = {file.name.removesuffix(COMPLETED) for file in path.glob(f"*{COMPLETED}")}
    waiting = []
    for stem in sorted(stems):
        if not stem.endswith(".results") and f"{stem}.results" not in stems:
            waiting.append(stem)
    if waiting:
        files = quantity(len(waiting), "file")
        yield f"{files} not evaluated ({some(waiting, _SHOWN)})"
    expected = expected_problems(values_of(scores, "name"))
    for kind in KINDS:
        names = set()
        for row in scores:
            if row["instruction"] == kind:
                names.add(row["name"])
        missing = sorted(expected - names)
        if names and missing:
            problems = f"{len(names)} of {len(expected)} problems"
            instructions = f"{kind} instructions (no {some(missing, _SHOWN)})"
            yield f"{problems} with {instructions}"
    sizes = map(len, values_of(scores, "completions"))
    yield from _mixture("completions", Counter(sizes))
    for name in SAMPLING:
        yield from _mixture(f"mixed {name}", Counter(values_of(scores, name)))


def _mixture(name: str, counts: Counter[Any]) -> Iterator[str]:
    parts = []
    for value, count in counts.most_common(_SHOWN):
        parts.append(f"{value} in {quantity(count, 'file')}")
    if len(counts) > 1:
        yield f"{name}: {', '.join(parts)}"


def report_on(
    folders: Sequence[Sequence[ScoreRow]], ks: Sequence[int], by: Sequence[GroupBy]
) -> tuple[list[ScoreRow], list[ScoreRow]]:
    """Return the rows of a report and its paired differences, from the scores of each model.

    A row is what every form prints of a model and an instruction: over all problems, where ``by``
    and ``group`` are empty, then by group.
    """
    names = Counter(scores[0]["model"] for scores in folders)
    columns = defaultdict(list)
    for row in chain.from_iterable(folders):
        name = row["model"] if names[row["model"]] == 1 else row["folder"]
        columns[name, row["instruction"]].append(row)
    rows = []
    for (name, kind), scores in columns.items():
        groups = {("", ""): scores}
        for name_of_groups in by:
            members = defaultdict(list)
            for row in scores:
                for group in row["groups"][name_of_groups]:
                    members[name_of_groups, group].append(row)
            groups |= sorted(members.items())
        for (grouping, group), grouped in groups.items():
            row = {
                "model": name,
                "instruction": kind,
                "by": grouping,
                "group": group,
                "temperature": scores[0]["temperature"],
                "partial": bool(scores[0]["faults"]),
                **figures_of(grouped, ks),
            }
            for key in (*SAMPLING, "problem_set", "folder", "faults"):
                row[key] = scores[0][key]
            rows.append(row)
    return rows, list(_differences(columns, ks))


def _differences(columns: Columns, ks: Iterable[int]) -> Iterator[ScoreRow]:
    """Yield pass@k of B less that of A on the problems of both.

    Each model's descriptive instructions are compared with its lazy ones, and each model with each
    before it. A row without a difference has a problem with fewer completions than k.
    """
    names = list(dict.fromkeys(name for name, _ in columns))
    pairs = []
    for name in names:
        pairs.append(((name, "lazy"), (name, "descriptive")))
    for kind in KINDS:
        for a, b in combinations(names, 2):
            pairs.append(((a, kind), (b, kind)))
    for first, second in pairs:
        if first not in columns or second not in columns:
            continue
        for k in ks:
            shares_a = pass_shares(columns[first], k)
            shares_b = pass_shares(columns[second], k)
            if not shares_a or not shares_b:
                shares_a = shares_b = {}
            means = compare_means(shares_a, shares_b)
            yield {
                "b": ", ".join(second),
                "a": ", ".join(first),
                "k": k,
                "problems": means.problems,
                "left_out": means.left_out,
                "difference": means.difference,
                **bounds(means.interval),
            }
