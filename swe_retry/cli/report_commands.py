"""``report.py RUN…`` and the subcommands with few options; each imports its modules late."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from swe_retry.attempts.config import RunSettings
from swe_retry.cli.run import flags_of
from swe_retry.core.atomic import check_folder
from swe_retry.core.errors import UserError
from swe_retry.core.plaintext import say_aside
from swe_retry.core.sources import Layer, SourcedValue, check_settings, of_texts
from swe_retry.launch.flags import CommandLine, SettingFlag
from swe_retry.launch.options import EnvFileOption, JsonFormat, StudyFile, Version
from swe_retry.launch.program import command
from swe_retry.record.places import find_run
from swe_retry.record.store import RunStore
from swe_retry.record.versions import TOP
from swe_retry.report.evaluation.evaluation_settings import (
    EvaluationRoot,
    EvaluatorKind,
    GoldSettings,
    ReportFormat,
    ReportSettings,
    RowKind,
)
from swe_retry.report.named_runs import (
    import_foreign,
    link_run,
    recorded_layer,
    runs_and_filters,
    stores_of,
)

RunArgument = Annotated[
    Path,
    typer.Argument(
        metavar="RUN",
        parser=find_run,
        help="A run: its name, or a folder under predictions/.",
    ),
]
RunArguments = Annotated[
    list[Path],
    typer.Argument(
        metavar="RUN",
        parser=find_run,
        help="Runs: names, folders under predictions/, or those of other harnesses.",
    ),
]


_OPTIONS = "Options"
_EVALUATOR = SettingFlag("evaluation.evaluator", "--evaluator", "NAME", _OPTIONS)
_WORKERS = SettingFlag("evaluation.workers", "--workers", "N", _OPTIONS, "-w")
FLAGS = (
    _EVALUATOR,
    SettingFlag("evaluation.dataset", "--dataset", "NAME", _OPTIONS, "-d"),
    _WORKERS,
    SettingFlag("evaluation.all_attempts", "--all-attempts", "", _OPTIONS),
    SettingFlag("folders.out", "--out", "FOLDER", _OPTIONS, "-o"),
)


@command(ReportSettings, FLAGS)
def report(
    line: CommandLine[ReportSettings],
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="RUN",
            parser=find_run,
            help="Report on these runs: names, folders under predictions/, or those of other "
            "harnesses.",
        ),
    ] = None,
    format: Annotated[
        ReportFormat,
        typer.Option(
            metavar="FORMAT",
            help="Print the result as text, markdown, json or csv. [text]",
            show_default=False,
        ),
    ] = "text",
    rows: Annotated[
        RowKind | None,
        typer.Option(
            metavar="KIND",
            help="Print rows of instances, attempts or calls as csv. [instances]",
            show_default=False,
        ),
    ] = None,
    env_file: EnvFileOption = None,
    version: Version = False,
) -> int:
    """Evaluate runs and report on them: counts, score, costs, and a page with pictures.

    \b
      python report.py predictions/run1
      python report.py predictions/run1 --evaluator local --format json
      python report.py compare predictions/run1 predictions/run2
    """
    if line.asks_for_list:
        runs, filters = runs_and_filters(runs or ())
        line.load(recorded_layer(runs), word=filters)  # ends here
    if not runs:
        raise UserError("no run given; usage: report.py predictions/RUN")
    if rows and format != "csv":
        raise UserError(f"--rows {rows} goes with --format csv; give both")
    settings = line.load(recorded_layer(runs))
    if settings.evaluation.evaluator != EvaluatorKind.NONE:
        check_folder("folders.cache", settings.folders.cache)
    from swe_retry.report.report import report_command

    # Other formats stand alone on standard output, so that they can be sent to a file.
    say = print if format == "text" else say_aside
    out = settings.folders.out
    folders = import_foreign(runs, out, say)
    if "folders.out" in line.chosen:
        folders = [link_run(folder, out) for folder in folders]
    return report_command(folders, settings, say, print, format, rows or "instances")


def compare(runs: RunArguments, format: JsonFormat = "text") -> int:
    """Compare runs, each with each, by what is known of them, and write a page about it."""
    say = say_aside if format == "json" else print
    stores = stores_of(import_foreign(runs, TOP, say))
    if len(stores) < 2:
        raise UserError("compare takes two runs or more")
    from swe_retry.report.compare import compare_command

    return compare_command(stores, say, print, as_json=format == "json")


def combine(
    runs: RunArguments,
    name: Annotated[
        str, typer.Option(help="Name it; by default the runs' names joined by +.")
    ] = "",
) -> int:
    """Write a run that has the best prediction of each instance, and all attempts."""
    from swe_retry.report.combine.combine import combine

    stores = stores_of(import_foreign(runs, TOP, print))
    if len(stores) < 2:
        raise UserError("combine takes two runs or more")
    target = combine(stores, name, print)
    program = Path(sys.argv[0]).name
    print(f"report on it: {program} {shlex.quote(str(target.folder))}")
    return 0


def lab(
    runs: RunArguments,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="Replay under this policy, or under a function of yours, FILE.py:NAME; "
            "repeatable; by default all policies that fit."
        ),
    ] = None,
    samples: Annotated[
        int, typer.Option(min=1, help="Draw this many random orders and samples.")
    ] = 1000,
    format: JsonFormat = "text",
) -> int:
    """Replay runs under other policies, without any call, and draw what they cost and solve."""
    from swe_retry.cli.lab import lab_command

    stores = stores_of(import_foreign(runs, TOP, say_aside))
    as_json = format == "json"
    return lab_command(stores, policy or (), samples, say_aside, print, as_json=as_json)


def study(
    file: StudyFile,
    format: JsonFormat = "text",
) -> int:
    """Evaluate the arms of a study, compare them, and write its page; call no model."""
    from swe_retry.study.armreport import report_study
    from swe_retry.study.studyfile import Study

    say = say_aside if format == "json" else print
    return report_study(Study.read(file), say, print, format)


def verify(runs: RunArguments, format: JsonFormat = "text") -> int:
    """Compute derived files again and say what differs; write nothing."""
    from swe_retry.report.verify import verify_command

    folders = import_foreign(runs, TOP, say_aside)
    if format == "json":
        return verify_command(folders, say_aside, print)
    return verify_command(folders, print)


def package(
    run: RunArgument,
    folder: Annotated[Path, typer.Argument(help="Write the package to this folder.")],
    split: Annotated[
        str, typer.Option(help="The split of the leaderboard: lite, verified, …")
    ],
    meta: Annotated[
        Path,
        typer.Option(
            help="What the leaderboard asks about the run; a template is written if there is "
            "no such file."
        ),
    ],
    dataset: Annotated[
        str, typer.Option(help="The data set of the split, with @ and a revision.")
    ] = "",
    allow_partial: Annotated[
        bool,
        typer.Option(
            "--allow-partial",
            help="Count instances without a prediction or a verdict as unresolved.",
        ),
    ] = False,
) -> int:
    """Write the package of one run for the leaderboard, and validate it."""
    from swe_retry.report.package.commands import package_command

    (run,) = import_foreign([run], TOP, print)
    settings = check_settings(EvaluationRoot, recorded_layer([run]))
    return package_command(
        run,
        folder,
        print,
        split=split,
        meta_file=meta,
        folders=settings.folders,
        dataset_name=dataset,
        allow_partial=allow_partial,
    )


def convert(
    run: RunArgument,
    layout: Annotated[
        Literal["atif", "mini"], typer.Argument(help="Write this layout.")
    ],
    folder: Annotated[Path, typer.Argument(help="Write to this new folder.")],
) -> int:
    """Write a run in the layout of another harness."""
    from swe_retry.foreign.convert import export_command

    return export_command(run, layout, folder, print)


_SELECT_FLAGS = flags_of(
    "--models", "--api-base", "--budget-usd", "--dataset", "--run", "--workers"
)
# Attempts are not made, only chosen from: all of them.
_FIXED = of_texts(RunSettings, ["choice.select=evidence", "choice.stop=all"])


@command(RunSettings, _SELECT_FLAGS)
def select(
    line: CommandLine[RunSettings],
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="RUN",
            parser=find_run,
            help="Choose among the candidates of these runs, of any harness.",
            show_default=False,
        ),
    ] = None,
    matrix: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Choose from the results of scripts in this file of JSON lines; call no model.",
        ),
    ] = None,
    env_file: EnvFileOption = None,
) -> int:
    """Choose among the candidates of runs by scripts that models write for each issue."""
    if line.asks_for_list:
        runs, filters = runs_and_filters(runs or ())
        line.load(_recorded_dataset(runs), _FIXED, filters)  # ends here
    if matrix is not None:
        if runs:
            raise UserError("--matrix takes no run; leave the runs or the option out")
        from swe_retry.study.matrix import matrix_command

        return matrix_command(matrix, line.load({}, _FIXED).choice.right, print)
    if not runs:
        raise UserError("no run given; usage: report.py select RUN… --models NAME,…")
    settings = line.load(_recorded_dataset(runs), _FIXED)
    from swe_retry.cli.configuration import make_configuration
    from swe_retry.study.select import select_command

    config = make_configuration(settings)
    return select_command(runs, config, print)


def _recorded_dataset(runs: Sequence[Path]) -> Layer:
    if not runs or not runs[0].is_dir():
        return {}
    described = RunStore.of_folder(runs[0]).read_run()
    dataset = described.setting("instances.dataset") or ""
    return of_texts(RunSettings, [f"instances.dataset={dataset}"])


_GOLD_FLAGS = (
    _EVALUATOR,
    _WORKERS,
    SettingFlag("instances.ids", "--instances", "ID,ID", _OPTIONS),
    SettingFlag("instances.filter", "--filter", "REGEX", _OPTIONS),
    SettingFlag("instances.slice", "--slice", "A:B", _OPTIONS),
)


@command(GoldSettings, _GOLD_FLAGS)
def evaluate_gold(
    line: CommandLine[GoldSettings],
    dataset: Annotated[
        str | None, typer.Argument(help="Evaluate the patches of this data set.")
    ] = None,
    file: Annotated[
        Path | None, typer.Argument(help="Write what they show to this file.")
    ] = None,
    repeat: Annotated[
        int, typer.Option(min=1, help="Evaluate each patch this often.")
    ] = 3,
    env_file: EnvFileOption = None,
) -> int:
    """Find out which instances this machine can judge, by their gold and empty patches."""
    if line.asks_for_list:
        line.load(word=dataset)  # ends here
    if dataset is None or file is None:
        raise UserError("usage: report.py gold DATASET FILE")
    name = SourcedValue("DATASET", dataset)
    settings = line.load(fixed={"evaluation.dataset": name})
    from swe_retry.study.gold import gold_command

    check_folder("folders.cache", settings.folders.cache)
    # Such a command takes hours, and its lines are often sent to a file.
    say = partial(print, flush=True)
    return gold_command(settings, file, repeat, say)
