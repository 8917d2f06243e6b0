"""The subcommands of ``harness.py``; each imports late what it needs, so that help is quick."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from swe_retry.attempts.config import RunSettings
from swe_retry.cli.run import flags_of
from swe_retry.core.errors import StoppedError, UserError
from swe_retry.core.plaintext import say_aside
from swe_retry.core.sources import SourcedValue
from swe_retry.environments.base import EnvironmentKind
from swe_retry.launch.flags import CommandLine, SettingFlag
from swe_retry.launch.options import DryRun, EnvFileOption, JsonFormat, StudyFile
from swe_retry.launch.program import command
from swe_retry.mining.settings import MiningSettings
from swe_retry.record.versions import TOP
from swe_retry.runner.settings import default_cache
from swe_retry.runner.signals import INTERRUPTED

_RUN_HELP = "A run, by its name or its folder."
RunName = Annotated[str, typer.Argument(metavar="RUN", help=_RUN_HELP)]
(_OUT,) = flags_of("--out")
OutOption = Annotated[
    Path,
    typer.Option(
        _OUT.option, _OUT.short, help="The folder that predictions/ and logs/ lie in."
    ),
]


@command(RunSettings, flags_of("--repo", "--setup-cmd", "--test-cmd", "--environment"))
def check(line: CommandLine[RunSettings], env_file: EnvFileOption = None) -> int:
    """Show how a repository (--repo, by default .) is set up and tested; call no model."""
    fixed = {}
    if "project.repo" not in line.chosen:
        fixed["project.repo"] = SourcedValue("check", ".")
    settings = line.load(fixed=fixed)
    from swe_retry.cli.configuration import make_configuration
    from swe_retry.cli.own import NOTHING_TO_TEST
    from swe_retry.own.issues import Issue
    from swe_retry.own.run import prepare
    from swe_retry.own.solve import check_base

    run = prepare(settings, line.chosen, Issue(text="check", title=""))
    config = make_configuration(settings, run.environment, dry_run=True)
    if check_base(run, run.configure(config), print):
        return 0
    return NOTHING_TO_TEST


_COMMITS = "Commits"
_MEASURING = "Measuring"
_MINE_FLAGS = (
    SettingFlag("mine.since", "--since", "DATE", _COMMITS),
    SettingFlag("mine.until", "--until", "DATE", _COMMITS),
    SettingFlag("mine.limit", "--limit", "N", _COMMITS),
    SettingFlag("mine.max_files", "--max-files", "N", _COMMITS),
    SettingFlag("mine.paths", "--paths", "GLOB,GLOB", _COMMITS),
    SettingFlag("mine.issues", "--issues", "FILE", _COMMITS, repeatable=True),
    SettingFlag("mine.titles", "--titles", "", _COMMITS),
    SettingFlag("mine.repeat", "--repeat", "N", _MEASURING),
    SettingFlag("mine.jobs", "--jobs", "N", _MEASURING),
    SettingFlag("mine.minutes", "--minutes", "N", _MEASURING),
    SettingFlag("project.setup", "--setup-cmd", "COMMAND", _MEASURING, repeatable=True),
    SettingFlag("project.test", "--test-cmd", "COMMAND", _MEASURING),
)


@command(MiningSettings, _MINE_FLAGS)
def mine(
    line: CommandLine[MiningSettings],
    repository: Annotated[
        str,
        typer.Argument(metavar="PATH", help="A repository: a folder or an address."),
    ] = "",
    out: Annotated[
        Path | None,
        typer.Argument(metavar="OUT.jsonl", help="Write the rows to this file."),
    ] = None,
    dry_run: DryRun = False,
    env_file: EnvFileOption = None,
) -> int:
    """Make a data set of a repository's fixes that have tests; call no model.

    \b
      retry-harness mine . mine.jsonl --limit 20 --minutes 60
    """
    settings = line.load(word=repository)
    if out is None:
        raise UserError("usage: retry-harness mine PATH OUT.jsonl")
    from swe_retry.mining.mine import mine_command

    say = partial(print, flush=True)
    return mine_command(repository, out, settings, say, dry_run=dry_run)


def status(run: RunName, out: OutOption = TOP, format: JsonFormat = "text") -> int:
    """Print how far a run is; start nothing."""
    from swe_retry.attempts.choose import RESULTS
    from swe_retry.record.store import RunStore
    from swe_retry.runner.housekeeping import status_command

    store = RunStore.find(run, out)
    return status_command(store, print, RESULTS, as_json=format == "json")


def clean(
    run: Annotated[str, typer.Argument(metavar="[RUN]", help=_RUN_HELP)] = "",
    out: OutOption = TOP,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Remove the run, its predictions and logs too."),
    ] = False,
    images: Annotated[
        float | None,
        typer.Option(
            metavar="DAYS",
            min=0,
            help="Remove the images with installed projects that are so old, of all runs.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> int:
    """Remove what a killed process of a run left: processes, containers, folders."""
    from swe_retry.runner.housekeeping import clean_command, clean_images_command

    if images is not None and not run:
        return clean_images_command(images, print, yes=yes)
    if images is not None or not run:
        raise UserError("give a run, or --images DAYS")
    from swe_retry.record.store import RunStore

    store = RunStore.find(run, out)
    cache = store.recorded_setting("folders.cache")
    return clean_command(
        store,
        Path(cache) if cache else default_cache(),
        print,
        everything=everything,
        yes=yes,
    )


def list_known(
    what: Annotated[
        Literal["models", "agents", "images"],
        typer.Argument(help="List models, agents or images with installed projects."),
    ],
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME", help="List these; by default all that have a name."
        ),
    ] = None,
    format: JsonFormat = "text",
) -> None:
    """List models, agents, or the images with installed projects; start nothing."""
    from swe_retry.cli.listing import list_agents, list_images, list_models
    from swe_retry.llm.model_settings import our_settings

    as_json = format == "json"
    if what == "agents":
        list_agents(names or (), print, default_cache(), as_json=as_json)
    elif what == "images":
        list_images(print, as_json=as_json)
    else:
        list_models(names or (), our_settings(), print, as_json=as_json)


@command(RunSettings)
def install(
    line: CommandLine[RunSettings],
    name: Annotated[
        str,
        typer.Argument(
            metavar="AGENT[@VERSION]",
            help="The agent, by name; by default its tested version.",
            show_default=False,
        ),
    ],
) -> int:
    """Install a coding agent of others into the cache, for the runs from now on."""
    settings = line.load()
    from swe_retry.agent.named.installed import install_agent
    from swe_retry.cli.listing import find_agent

    name, _, version = name.partition("@")
    installation = install_agent(find_agent(name), version, settings.folders.cache)
    print(f"{name} {installation.version}: {installation.folder}")
    return 0


@command(RunSettings, flags_of("--models", "--api-base"))
def try_once(
    line: CommandLine[RunSettings],
    agent: Annotated[
        str,
        typer.Argument(
            metavar="AGENT",
            help="The agent: builtin, the name of another, or command:TEMPLATE.",
            show_default=False,
        ),
    ],
    env_file: EnvFileOption = None,
) -> int:
    """Let an agent edit one demo instance and show what it did; test and write nothing."""
    settings = line.load(fixed={"agent.name": SourcedValue("AGENT", agent)})
    from swe_retry.cli.configuration import make_configuration
    from swe_retry.cli.trial import try_agent

    config = make_configuration(settings, EnvironmentKind.NONE)
    return try_agent(config, print)


def study(
    file: StudyFile,
    dry_run: DryRun = False,
    format: JsonFormat = "text",
    env_file: EnvFileOption = None,
) -> int:
    """Run each arm of a study on the same instances under one budget, and compare them."""
    from swe_retry.cli.configuration import make_configuration
    from swe_retry.cli.forecast import forecast_run
    from swe_retry.cli.start import check_run
    from swe_retry.runner.session import check_start
    from swe_retry.study.armreport import report_settings, report_study
    from swe_retry.study.arms import ArmLoop
    from swe_retry.study.studyfile import Study

    say = say_aside if format == "json" else print
    plan = Study.read(file)
    report_settings(plan)  # before anything costs
    arms = {}
    for arm in plan.arms:
        chosen = plan.run_settings(arm)
        try:
            config = make_configuration(chosen, dry_run=dry_run)
            arms[arm] = check_run(config, say)
            if not dry_run:
                check_start(arms[arm])
        except UserError as error:
            raise UserError(
                f"{file}: arm {arm}: {error} (options are settings here; retry-harness "
                "--settings lists both)"
            ) from error
    if dry_run:
        code = 0
        for arm, benchmark in arms.items():
            say(f"\narm {arm}")
            code = max(code, forecast_run(benchmark))
        return code
    try:
        ArmLoop(arms, chosen.budget.usd, say).run()
    except StoppedError:
        say(
            f"the study is stopped; the same command goes on, and `study {file}` of the "
            "report shows what there is"
        )
        return INTERRUPTED
    return report_study(plan, say, print, format)
