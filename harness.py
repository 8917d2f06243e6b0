"""Attempt SWE-bench instances: ``python harness.py --models gpt-4o,opus``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from agent.agents import BUILTIN, is_command
from agent.errors import UserError
from agent.formats import format_names
from agent.formats.base import Matching, OnFailure
from agent.models import RetryPolicy
from agent.reflections import Reflections
from agent.settings import load_settings
from bench.cli import run_cli
from bench.commands import Options, default_cache, default_environment, list_models, run_command
from bench.config import EnvironmentKind, ModelChoice, RunConfig, TestChoice
from bench.dataset import Selection, read_ids

_HERE = Path(__file__).resolve().parent
_REFLECTIONS = str(Reflections())
_DEFAULT_MODELS = "gpt-4o,opus"
_MODELS = "Models"
_AGENT = "Agent"
_DATA = "Instances"
_TESTS = "Environment and tests"
_LIMITS = "Limits"
_RUN = "The run"

Models = Annotated[
    str | None,
    typer.Option(
        "--models",
        help=f"Models to alternate, as A,B or A@format,B; default: {_DEFAULT_MODELS}.",
        rich_help_panel=_MODELS,
    ),
]
Settings = Annotated[
    Path | None,
    typer.Option(
        "--model-settings",
        help="YAML file of settings and aliases that goes before ours (docs/models.md).",
        rich_help_panel=_MODELS,
    ),
]
ListModels = Annotated[
    bool,
    typer.Option(
        "--list-models",
        help="Print what is known of the aliases, or of --models; start nothing.",
        rich_help_panel=_MODELS,
    ),
]
AgentName = Annotated[
    str,
    typer.Option(
        "--agent",
        help="Who edits: builtin, an entry point, MODULE:ATTRIBUTE, or command:TEMPLATE with "
        "{message_file}, {model}, {temperature}, {result_file} (docs/agents.md).",
        rich_help_panel=_AGENT,
    ),
]
AgentEnv = Annotated[
    list[str] | None,
    typer.Option(
        "--agent-env",
        help="Environment variables that reach a command: NAME,NAME; repeatable.",
        rich_help_panel=_AGENT,
    ),
]
AgentTimeout = Annotated[
    float,
    typer.Option(
        "--agent-timeout", help="Seconds that a command has for an attempt.", rich_help_panel=_AGENT
    ),
]
Tries = Annotated[int, typer.Option("--tries", help="Tries per model.", rich_help_panel=_MODELS)]
Temperature = Annotated[
    str,
    typer.Option(
        "--temperature", help="One value, or one per try: 0,0.4,0.8.", rich_help_panel=_MODELS
    ),
]
ApiBase = Annotated[
    str | None,
    typer.Option(
        "--api-base",
        help="Address of a server that speaks the OpenAI protocol.",
        rich_help_panel=_MODELS,
    ),
]
Replay = Annotated[
    Path | None,
    typer.Option(
        "--replay",
        help="Call no model: serve the replies of these trajectories.",
        rich_help_panel=_MODELS,
    ),
]
DatasetName = Annotated[
    str,
    typer.Option(
        "--dataset",
        help="lite, verified, full, demo, a hub id, a file or a folder.",
        rich_help_panel=_DATA,
    ),
]
Split = Annotated[str, typer.Option("--split", help="Split of the dataset.", rich_help_panel=_DATA)]
Instances = Annotated[
    str, typer.Option("--instances", help="Ids: a comma list, or @file.", rich_help_panel=_DATA)
]
Filter = Annotated[
    str,
    typer.Option("--filter", help="Regular expression that ids must match.", rich_help_panel=_DATA),
]
Slice = Annotated[
    str, typer.Option("--slice", help="Part of the list: a:b.", rich_help_panel=_DATA)
]
Shuffle = Annotated[
    bool, typer.Option("--shuffle", help="Shuffle the list.", rich_help_panel=_DATA)
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of --shuffle.", rich_help_panel=_DATA)]
Prior = Annotated[
    list[Path] | None,
    typer.Option(
        "--prior",
        help="Skip what this earlier run has a plausible patch for; repeatable.",
        rich_help_panel=_DATA,
    ),
]
Repos = Annotated[
    Path | None,
    typer.Option(
        "--repos", help="Folder of bare mirrors; default: in the cache.", rich_help_panel=_DATA
    ),
]
Environment = Annotated[
    EnvironmentKind | None,
    typer.Option(
        "--environment",
        help="Where tests run; default: docker when an engine answers, else local.",
        rich_help_panel=_TESTS,
    ),
]
Tests = Annotated[
    TestChoice,
    typer.Option("--tests", help="Which pre-existing tests run.", rich_help_panel=_TESTS),
]
RequireTests = Annotated[
    bool,
    typer.Option(
        "--require-tests",
        help="A candidate that no test could judge does not end the attempts.",
        rich_help_panel=_TESTS,
    ),
]
TestTimeout = Annotated[
    float,
    typer.Option(
        "--test-timeout", help="Seconds for a run of a candidate's tests.", rich_help_panel=_TESTS
    ),
]
BaselineTimeout = Annotated[
    float,
    typer.Option(
        "--baseline-timeout",
        help="Seconds for the tests at the base commit.",
        rich_help_panel=_TESTS,
    ),
]
MatchingChoice = Annotated[
    Matching,
    typer.Option(
        "--matching",
        help="How the lines of an edit are looked for; reference: as in the run of May 2024.",
        rich_help_panel=_MODELS,
    ),
]
OnFailedEdit = Annotated[
    OnFailure,
    typer.Option(
        "--on-failed-edit",
        help="What becomes of a reply's good edits when others of it fail.",
        rich_help_panel=_MODELS,
    ),
]
MaxReflections = Annotated[
    str,
    typer.Option(
        "--max-reflections",
        help="Messages that may follow the first of an attempt, by topic; one number: in all.",
        rich_help_panel=_LIMITS,
    ),
]
MapTokens = Annotated[
    int, typer.Option("--map-tokens", help="Size of the repository map.", rich_help_panel=_LIMITS)
]
MaxOutputTokens = Annotated[
    int | None,
    typer.Option(
        "--max-output-tokens",
        help="Output limit of a call; default: the model's.",
        rich_help_panel=_LIMITS,
    ),
]
CallTimeout = Annotated[
    float,
    typer.Option("--call-timeout", help="Seconds for a call to a model.", rich_help_panel=_LIMITS),
]
CallRetries = Annotated[
    int,
    typer.Option(
        "--call-retries",
        min=0,
        help="Calls again after a transient error.",
        rich_help_panel=_LIMITS,
    ),
]
RunName = Annotated[
    str,
    typer.Option(
        "--run", help="Folder under predictions/; default: the models' names.", rich_help_panel=_RUN
    ),
]
Out = Annotated[
    Path, typer.Option("--out", help="Where predictions/ and logs/ lie.", rich_help_panel=_RUN)
]
Cache = Annotated[
    Path | None,
    typer.Option(
        "--cache", help="Folder for mirrors, environments and baselines.", rich_help_panel=_RUN
    ),
]
AllAttempts = Annotated[
    bool,
    typer.Option(
        "--all-attempts",
        help="Go on after a plausible attempt (for studies).",
        rich_help_panel=_RUN,
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Say what would run and what is missing; start nothing.",
        rich_help_panel=_RUN,
    ),
]


def _temperatures(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise UserError(f"--temperature {text!r}: give numbers, as 0 or 0,0.4,0.8") from None


def _reflections(text: str) -> Reflections:
    try:
        return Reflections.parse(text)
    except ValueError as error:
        raise UserError(f"--max-reflections: {error}") from None


def _names(given: Sequence[str]) -> tuple[str, ...]:
    return tuple(name.strip() for words in given for name in words.split(",") if name.strip())


def main(
    models: Models = None,
    model_settings: Settings = None,
    list_models_only: ListModels = False,
    agent: AgentName = BUILTIN,
    agent_env: AgentEnv = None,
    agent_timeout: AgentTimeout = 1800,
    tries: Tries = 3,
    temperature: Temperature = "0",
    api_base: ApiBase = None,
    replay: Replay = None,
    dataset: DatasetName = "lite",
    split: Split = "test",
    instances: Instances = "",
    pattern: Filter = "",
    part: Slice = "",
    shuffle: Shuffle = False,
    seed: Seed = 0,
    prior: Prior = None,
    repos: Repos = None,
    environment: Environment = None,
    tests: Tests = TestChoice.RELATED,
    require_tests: RequireTests = False,
    test_timeout: TestTimeout = 300,
    baseline_timeout: BaselineTimeout = 600,
    matching: MatchingChoice = Matching.TOLERANT,
    on_failed_edit: OnFailedEdit = OnFailure.KEEP,
    max_reflections: MaxReflections = _REFLECTIONS,
    map_tokens: MapTokens = 2048,
    max_output_tokens: MaxOutputTokens = None,
    call_timeout: CallTimeout = 300,
    call_retries: CallRetries = 5,
    run: RunName = "",
    out: Out = _HERE,
    cache: Cache = None,
    all_attempts: AllAttempts = False,
    dry_run: DryRun = False,
) -> None:
    """Attempt SWE-bench instances with alternating models until a patch is plausible."""
    book = load_settings(model_settings, format_names())
    if list_models_only:
        names = [name.strip() for name in models.split(",")] if models else []
        list_models(names, book, api_base, print)
        raise typer.Exit(0)
    config = RunConfig(
        models=tuple(
            ModelChoice.parse(
                name.strip(),
                book=book,
                any_name=bool(api_base) or is_command(agent),
                replay=replay is not None,
            )
            for name in (_DEFAULT_MODELS if models is None else models).split(",")
        ),
        tries=tries,
        run=run,
        environment=environment or default_environment(),
        tests=tests,
        temperatures=_temperatures(temperature),
        matching=matching,
        on_failed_edit=on_failed_edit,
        max_reflections=_reflections(max_reflections),
        map_tokens=map_tokens,
        max_output_tokens=max_output_tokens,
        api_base=api_base,
        call_timeout=call_timeout,
        test_timeout=test_timeout,
        baseline_timeout=baseline_timeout,
        replay=replay,
        all_attempts=all_attempts,
        require_tests=require_tests,
        agent=agent,
        agent_env=_names(agent_env or ()),
        agent_timeout=agent_timeout,
    )
    options = Options(
        dataset=dataset,
        split=split,
        selection=Selection(read_ids(instances), pattern, part, shuffle, seed),
        out=out.expanduser().resolve(),
        cache=(cache or default_cache()).expanduser().resolve(),
        repos=repos.expanduser().resolve() if repos else None,
        prior=tuple(prior or ()),
        dry_run=dry_run,
        retries=RetryPolicy(attempts=1 + call_retries),
        settings=book,
    )
    raise typer.Exit(run_command(config, options, print))


if __name__ == "__main__":
    sys.exit(run_cli(main))
