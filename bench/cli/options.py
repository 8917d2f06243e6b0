"""The options of ``harness.py``: what they are called, and what ``--help`` says of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agent.formats.base import Matching, OnFailure
from bench.cli.config import TestChoice
from environments.base import AgentSandbox, EnvironmentKind

DEFAULT_MODELS = "gpt-4o,opus"
_MODELS = "Models"
_AGENT = "Agent"
_DATA = "Instances"
_TESTS = "Environment and tests"
_LIMITS = "Limits"
_RUN = "The run"

Models = Annotated[
    str | None,
    typer.Option(
        "-m",
        "--models",
        help=f"Models to alternate, as A,B or A@format,B; default: {DEFAULT_MODELS}.",
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
AgentSandboxKind = Annotated[
    AgentSandbox | None,
    typer.Option(
        "--agent-sandbox",
        help="Shut a command in with bubblewrap, with or without network: it can write to its "
        "checkout alone and sees no home folder (docs/agents.md).",
        rich_help_panel=_AGENT,
    ),
]
AgentSandboxRead = Annotated[
    list[Path] | None,
    typer.Option(
        "--agent-sandbox-read",
        help="Path that a command sees in the sandbox, read-only; repeatable.",
        rich_help_panel=_AGENT,
    ),
]
Tries = Annotated[int, typer.Option("--tries", help="Tries per model.", rich_help_panel=_MODELS)]
Temperature = Annotated[
    str,
    typer.Option(
        "--temperature", help="One value, or one for each try of a model.", rich_help_panel=_MODELS
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
        "-d",
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
        "-r",
        "--run",
        help="Folder under predictions/; default: the models' names.",
        rich_help_panel=_RUN,
    ),
]
Out = Annotated[
    Path,
    typer.Option("-o", "--out", help="Where predictions/ and logs/ lie.", rich_help_panel=_RUN),
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
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="YAML file with option names as keys; the command line takes precedence.",
        rich_help_panel=_RUN,
    ),
]
Continue = Annotated[
    str | None,
    typer.Option(
        "--continue",
        help="Continue this run, by name or folder, with the options it was started with.",
        rich_help_panel=_RUN,
    ),
]
TryAgent = Annotated[
    str | None,
    typer.Option(
        "--try-agent",
        help="Run this agent once on a demo instance and show what it did.",
        rich_help_panel=_AGENT,
    ),
]
InstallCompletion = Annotated[
    bool,
    typer.Option(
        "--install-completion",
        help="Complete options in this shell: bash, zsh or fish.",
        rich_help_panel=_RUN,
    ),
]
Version = Annotated[
    bool, typer.Option("--version", help="Print the version.", rich_help_panel=_RUN)
]
