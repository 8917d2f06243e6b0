"""Attempt SWE-bench instances: ``python harness.py --models gpt-4o,opus``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from agent.agents import BUILTIN, is_command
from agent.conversation.reflections import Reflections
from agent.formats import format_names
from agent.formats.base import Matching, OnFailure
from bench.assembly import Options
from bench.attempts.prior import status_of
from bench.cli import options as opt
from bench.cli.commands import default_cache, default_environment, run_command
from bench.cli.completion import install_completion
from bench.cli.config import DEFAULT_TEMPERATURES, ModelChoice, RunConfig, TestChoice
from bench.cli.configfile import options_given
from bench.cli.modellist import list_models
from bench.cli.tryagent import try_agent as demonstrate
from bench.instances.dataset import ALIASES, Selection, read_ids
from core.address import Address, parse_address, without_logins
from core.errors import UserError
from llm.models import RetryPolicy
from llm.settings import load_settings
from runs import scale_options as scale
from runs.calls.limits import read_money, read_rates
from runs.scale import EngineKind, Scale
from runs.storage.store import RunStore
from runs.storage.versions import HARNESS_VERSION
from runs.upkeep import clean_command, status_command

_TOP = Path(__file__).resolve().parents[2]
_REFLECTIONS = str(Reflections())
_TEMPERATURES = ",".join(f"{value:g}" for value in DEFAULT_TEMPERATURES)


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


def _absolute(paths: Sequence[Path]) -> tuple[Path, ...]:
    # Links stay: a command is called by the names that the user gives.
    return tuple(Path(os.path.abspath(path.expanduser())) for path in paths)  # noqa: PTH100


def main(
    context: typer.Context,
    models: opt.Models = None,
    model_settings: opt.Settings = None,
    list_models_only: opt.ListModels = False,
    agent: opt.AgentName = BUILTIN,
    agent_env: opt.AgentEnv = None,
    agent_timeout: opt.AgentTimeout = 1800,
    agent_sandbox: opt.AgentSandboxKind = None,
    agent_sandbox_read: opt.AgentSandboxRead = None,
    try_agent: opt.TryAgent = None,
    tries: opt.Tries = 3,
    temperature: opt.Temperature = _TEMPERATURES,
    api_base: opt.ApiBase = None,
    replay: opt.Replay = None,
    dataset: opt.DatasetName = "lite",
    split: opt.Split = "test",
    instances: opt.Instances = "",
    pattern: opt.Filter = "",
    part: opt.Slice = "",
    shuffle: opt.Shuffle = False,
    seed: opt.Seed = 0,
    prior: opt.Prior = None,
    repos: opt.Repos = None,
    environment: opt.Environment = None,
    tests: opt.Tests = TestChoice.RELATED,
    require_tests: opt.RequireTests = False,
    test_timeout: opt.TestTimeout = 300,
    baseline_timeout: opt.BaselineTimeout = 600,
    matching: opt.MatchingChoice = Matching.TOLERANT,
    on_failed_edit: opt.OnFailedEdit = OnFailure.KEEP,
    max_reflections: opt.MaxReflections = _REFLECTIONS,
    workers: scale.Workers = 4,
    jobs: scale.Jobs = None,
    processes: scale.Processes = None,
    engine: scale.EngineName = EngineKind.LOCAL,
    ray_address: scale.RayAddress = "",
    cpus_per_instance: scale.CpusPerInstance = None,
    rpm: scale.Rpm = "",
    tpm: scale.Tpm = "",
    give_up_after: scale.GiveUpAfter = 1800,
    budget_usd: scale.BudgetUsd = "",
    budget_usd_per_instance: scale.BudgetPerInstance = "",
    budget_usd_per_model: scale.BudgetPerModel = "",
    max_calls: scale.MaxCalls = None,
    max_seconds_per_attempt: scale.MaxSeconds = None,
    price: scale.Prices = None,
    allow_unpriced: scale.AllowUnpriced = False,
    map_tokens: opt.MapTokens = 2048,
    max_output_tokens: opt.MaxOutputTokens = None,
    call_timeout: opt.CallTimeout = 300,
    call_retries: opt.CallRetries = 5,
    config: opt.Config = None,
    continue_: opt.Continue = None,
    run: opt.RunName = "",
    out: opt.Out = _TOP,
    cache: opt.Cache = None,
    all_attempts: opt.AllAttempts = False,
    dry_run: opt.DryRun = False,
    redo: scale.RedoWords = "",
    status: scale.Status = False,
    clean: scale.Clean = False,
    clean_all: scale.CleanAll = False,
    yes: scale.Yes = False,
    as_json: scale.AsJson = False,
    install_completion_only: opt.InstallCompletion = False,
    version_only: opt.Version = False,
) -> None:
    """Attempt SWE-bench instances with alternating models until a patch is plausible."""
    if version_only:
        print(f"swe-retry-harness {HARNESS_VERSION}")
        raise typer.Exit(0)
    if install_completion_only:
        print(install_completion("harness.py"))
        raise typer.Exit(0)
    if processes is not None:
        raise UserError(
            f"--processes {processes}: the harness works in one process; for more interpreters "
            f"give --engine ray --workers {max(workers, processes)}"
        )
    address = parse_address("--api-base", api_base) if api_base else None
    if address is not None and address.secret:
        # As a secret of the environment it is redacted everywhere, also in worker processes.
        os.environ["SWE_RETRY_HARNESS_API_PASSWORD"] = address.given
    book = load_settings(model_settings, format_names())
    if list_models_only:
        names = [name.strip() for name in models.split(",")] if models else []
        list_models(names, book, api_base, print, as_json=as_json)
        raise typer.Exit(0)
    chosen = RunConfig(
        models=tuple(
            ModelChoice.parse(
                name.strip(),
                book=book,
                any_name=bool(api_base) or is_command(try_agent or agent),
                replay=replay is not None,
            )
            for name in (opt.DEFAULT_MODELS if models is None else models).split(",")
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
        agent_sandbox=agent_sandbox,
        agent_sandbox_read=_absolute(agent_sandbox_read or ()),
        max_seconds_per_attempt=max_seconds_per_attempt,
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
        scale=Scale(
            workers=workers,
            jobs=jobs or os.cpu_count() or 1,
            engine=engine,
            ray_address=ray_address,
            cpus_per_instance=cpus_per_instance,
            rates=read_rates(rpm, tpm, chosen.models),
            give_up_after=give_up_after,
        ),
        money=read_money(
            chosen.models,
            usd=budget_usd,
            usd_per_instance=budget_usd_per_instance,
            usd_per_model=budget_usd_per_model,
            calls=max_calls,
            prices=price or (),
            allow_unpriced=allow_unpriced,
        ),
        redo=redo,
        as_json=as_json,
        given=_given(context, address),
    )
    if try_agent is not None:
        raise typer.Exit(demonstrate(replace(chosen, agent=try_agent), options, print))
    if clean_all and not clean:
        raise UserError("--all is for --clean; give both to remove a run")
    store = RunStore(options.out, chosen.run_name)
    if clean:
        raise typer.Exit(clean_command(store, options.cache, print, everything=clean_all, yes=yes))
    raise typer.Exit(
        status_command(store, print, status_of, as_json=as_json)
        if status
        else run_command(chosen, options, print)
    )


def _given(context: typer.Context, address: Address | None) -> dict[str, Any]:
    """Return the options as ``run.json`` records them: paths whole, without a password."""
    source = context.get_parameter_source
    given = options_given(context.command.params, source, context.params)
    given = {k: without_logins(v) if isinstance(v, str) else v for k, v in given.items()}
    if "agent-sandbox-read" in given:
        given["agent-sandbox-read"] = [*map(str, _absolute(context.params["agent_sandbox_read"]))]
    if address is not None and "api-base" in given:
        given["api-base"] = address.recorded
    for name, mark in (("dataset", ""), ("instances", "@")):
        path = Path(str(given.get(name, "")).removeprefix(mark)).expanduser()
        named = str(given.get(name, ""))
        known = name == "dataset" and (named == "demo" or named in ALIASES)
        if name in given and named.startswith(mark) and not known and path.exists():
            given[name] = f"{mark}{path.resolve()}"
    return given
