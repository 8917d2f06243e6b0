"""Attempt SWE-bench instances: ``python harness.py --models gpt-4o,opus``."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from agent.agents import is_command
from agent.conversation.mentions import FileIndex
from agent.conversation.outcomes import ConversationLimits
from agent.formats import format_names
from agent.lint import Linter
from agent.protocol import Task, Transcript, Work
from agent.repomap import RenderedMaps, TagStore
from bench.assembly import make_agent, make_mirrors
from bench.cli.cli import About
from bench.cli.configfile import options_given
from bench.config import RunConfig, validated
from bench.instances.dataset import ALIASES, load_dataset
from bench.instances.instance import Instance
from bench.instances.sets import BUNDLED
from bench.options import Options, TryAgent
from bench.repos.checkout import Checkout, Snapshots, make_checkout
from bench.repos.lefttree import UnusableTreeError, take_over
from bench.repos.patches import submittable_patch, take_patch
from bench.repos.snapshots import Snapshot
from bench.selection import INSTANCES
from core.address import Address, without_logins
from core.errors import UserError
from core.money import in_words, total
from core.options import built, command
from core.plaintext import table
from core.processes import remove_tree
from environments.base import EnvironmentKind
from environments.options import AGENT, TESTS
from llm.gate import OpenGate
from llm.options import LIMITS, MODELS, ModelBook, ModelChoice, names_of
from llm.registry import filled, map_entry, missing_key, takes_temperature, the_litellm
from llm.settings import SettingsBook, load_settings
from runs.calls.budget import MONEY
from runs.calls.rate_limiter import SCALE
from runs.checks import check_models
from runs.given import address_given, models_given
from runs.modelsource import LiveModels
from runs.options import RUN

GROUPS = (RunConfig, ModelBook, TryAgent, Options, About)
PANELS = (MODELS, AGENT, INSTANCES, TESTS, LIMITS, SCALE, MONEY, RUN)


@command(*GROUPS, panels=PANELS)
def main(context: typer.Context, values: dict[str, Any]) -> None:
    """Attempt SWE-bench instances with alternating models until a patch is plausible."""
    address = address_given(values["api_base"])
    book = load_settings(values["model_settings"], format_names())
    if values["list_models"]:
        names = [name.strip() for name in values["models"].split(",")] if values["models"] else []
        list_models(names, book, values["api_base"], print, as_json=values["json"])
        raise typer.Exit(0)
    if values["all"] and not values["clean"]:
        raise UserError("--all is for --clean; give both to remove a run")
    # A run that is named is looked at without litellm, which knows models and takes a second.
    named = bool(values["run"]) and (values["status"] or values["clean"])
    values["models"] = () if named else _models(values, book)
    values["environment"] = values["environment"] or _environment(values)
    config = built(RunConfig, values)
    more = {"settings": book, "given": _given(context, address)}
    options = built(Options, values | more, str if named else names_of(config.models))
    raise typer.Exit(_run(config, options, values))


def _run(config: RunConfig, options: Options, values: dict[str, Any]) -> int:
    # The modules of a command are imported when it runs.
    if values["try_agent"] is not None:
        return try_agent(replace(config, agent=values["try_agent"]), options, print)
    if options.clean:
        from runs.storage.store import RunStore
        from runs.upkeep import clean_command

        store = RunStore(options.out, config.run_name)
        everything, yes = options.clean_all, options.yes
        return clean_command(store, options.cache, print, everything=everything, yes=yes)
    if options.status:
        from bench.attempts.records import status_of
        from runs.storage.store import RunStore
        from runs.upkeep import status_command

        store = RunStore(options.out, config.run_name)
        return status_command(store, print, status_of, as_json=options.as_json)
    from bench.cli.commands import run_command

    return run_command(config, options, print)


def _models(values: dict[str, Any], book: SettingsBook) -> tuple[ModelChoice, ...]:
    any_name = bool(values["api_base"]) or is_command(values["try_agent"] or values["agent"])
    replay = values["replay"] is not None
    return models_given(values["models"], book, any_name=any_name, replay=replay)


def _environment(values: dict[str, Any]) -> EnvironmentKind:
    if values["status"] or values["clean"]:
        return EnvironmentKind.NONE
    from environments.choice import default_environment

    return default_environment()


def _given(context: typer.Context, address: Address | None) -> dict[str, Any]:
    """Return the options as ``run.json`` records them: paths whole, without a password."""
    given = options_given(GROUPS, context)
    given = {k: without_logins(v) if isinstance(v, str) else v for k, v in given.items()}
    if address is not None and "api-base" in given:
        given["api-base"] = address.recorded
    for name, mark in (("dataset", ""), ("instances", "@")):
        path = Path(str(given.get(name, "")).removeprefix(mark)).expanduser()
        named = str(given.get(name, ""))
        known = name == "dataset" and named in (*ALIASES, *BUNDLED)
        if name in given and named.startswith(mark) and not known and path.exists():
            given[name] = f"{mark}{path.resolve()}"
    return given


Say = Callable[[str], None]

_COLUMNS = (
    "model", "alias", "format", "context", "output", "$/M in", "$/M out", "cache markers",
    "temperature", "key",
)  # fmt: skip


def list_models(
    names: Sequence[str],
    book: SettingsBook,
    api_base: str | None,
    say: Say,
    *,
    as_json: bool = False,
) -> None:
    """Say the table of ``names``, and without any that of all aliases and the default models."""

    def parsed(name: str) -> ModelChoice:
        return ModelChoice.parse(name, book=book, any_name=bool(api_base))

    aliases: dict[str, list[str]] = {}
    for alias in book.aliases:
        aliases.setdefault(parsed(alias).name, []).append(alias)
    choices = [parsed(name) for name in names or aliases]
    rows = [_row(choice, aliases.get(choice.name, []), api_base) for choice in choices]
    if as_json:
        say(json.dumps(rows))
        return
    cells = ([_cell(*item) for item in row.items()] for row in rows)
    for line in table(_COLUMNS, cells, numbers=range(3, 7)):
        say(line)


def _row(choice: ModelChoice, aliases: Sequence[str], api_base: str | None) -> dict[str, Any]:
    """Return what is known of a model; None is unknown. Prices are dollars for a million tokens."""
    settings = replace(choice.settings, edit_format=choice.edit_format)
    known, entry = filled(settings, choice.name, api_base), map_entry(choice.name)
    key = None  # the provider wants none
    if missing := missing_key(choice.name, api_base):
        key = f"missing {missing}"
    elif not api_base:
        found = the_litellm().validate_environment(model=choice.name)
        key = "set" if found["keys_in_environment"] else None
    return {
        "model": choice.name,
        "aliases": aliases,
        "edit_format": known.edit_format,
        "context": known.context,
        "output": known.max_output,
        "usd_per_million_in": _price(entry.get("input_cost_per_token")),
        "usd_per_million_out": _price(entry.get("output_cost_per_token")),
        "cache_markers": bool(known.cache_markers),
        "temperature": takes_temperature(known, choice.name, 0.0, api_base),
        "key": key,
    }


def _cell(key: str, value: Any) -> str:  # noqa: ANN401 - any value of a row
    if isinstance(value, bool):
        return "yes" if value else "no"
    if key.startswith("usd") and value is not None:
        return f"{value:.2f}"
    return (",".join(value) if isinstance(value, list) else str(value or "")) or "-"


def _price(dollars: float | None) -> float | None:
    return None if dollars is None else round(dollars * 1_000_000, 6)


_INSTANCE = "demo__textkit-1"


def try_agent(config: RunConfig, options: Options, say: Say) -> int:
    """Run the agent of ``config`` on one demo instance and say how it ended; return the exit code.

    Nothing is tested, and nothing is written but to a folder that is removed.
    """
    config = validated(config)
    check_models(config, options.money)
    agent = make_agent(config)
    rows = load_dataset("demo", "test").instances()
    instance = next(row for row in rows if row.instance_id == _INSTANCE)
    mirrors = make_mirrors(replace(options, dataset="demo"))
    mirror = mirrors.get(instance.repo, instance.base_commit)
    snapshots = Snapshots(options.cache / "snapshots")
    snapshot = snapshots.get(mirror, instance.repo, instance.base_commit)
    folder = Path(tempfile.mkdtemp())
    try:
        checkout = make_checkout(snapshot, folder / "checkout")
        task = _task(config, options, instance, snapshot, checkout, say)
        started = time.monotonic()
        work = agent.work(task)
        seconds = time.monotonic() - started
        patch, notes = _left(checkout, ours=work.result is not None)
    finally:
        remove_tree(folder)
    for line in (*_lines(config, work, task, seconds, patch), *notes):
        say(line)
    return 0 if work.ending is None and patch.strip() else 1


def _left(checkout: Checkout, *, ours: bool) -> tuple[str, tuple[str, ...]]:
    try:
        dropped = () if ours else take_over(checkout)
    except UnusableTreeError as error:
        return "", (str(error),)
    fit = submittable_patch(take_patch(checkout, ignored=ours))
    return fit.patch, tuple(f"dropped: {found}" for found in dropped)


def _task(
    config: RunConfig,
    options: Options,
    instance: Instance,
    snapshot: Snapshot,
    checkout: Checkout,
    say: Say,
) -> Task:
    choice, files = config.models[0], FileIndex.of(snapshot.blobs)
    models = LiveModels(config, options.retries, say, options.money.prices)
    turn = models.turn(_INSTANCE, 1, choice, config.temperature(1), OpenGate())
    repo_map = ""
    if not config.outside_agent:
        maps = RenderedMaps(checkout.snapshot.blobs, TagStore(options.cache / "tags.sqlite"))
        text, counter = instance.problem_statement, turn.counter
        repo_map = maps.render(
            checkout.root, text, config.map_tokens, count=turn.model.count, counter=counter
        )
    return Task(
        root=checkout.root,
        message=instance.problem_statement,
        repo_map=repo_map,
        files=files,
        model=turn.model,
        model_name=turn.name,
        edit_format=turn.edit_format,
        temperature=config.temperature(1),
        limits=ConversationLimits(config.max_reflections),
        run_tests=None,
        transcript=Transcript(),
        log=lambda _: None,
        linter=Linter(),
    )


def _lines(config: RunConfig, work: Work, task: Task, seconds: float, patch: str) -> Iterator[str]:
    replies = [call.reply for call in task.transcript.calls]
    usages = [reply.usage for reply in replies if reply.usage]
    yield f"agent     {config.agent}"
    yield f"instance  {_INSTANCE}"
    yield f"ended     {work.error or ('exit code 0' if config.outside_agent else 'normally')}"
    yield f"time      {seconds:.1f} s"
    yield f"cost      {in_words(total(reply.cost for reply in replies))}"
    into, out = sum(u.prompt_tokens for u in usages), sum(u.completion_tokens for u in usages)
    yield f"tokens    {f'{into:,} in, {out:,} out' if usages else 'unknown'}"
    for message in task.transcript.messages[1:]:
        yield f"\n--- {message.role} ---\n{message.content.rstrip()}"
    yield f"\n--- the predicted patch ---\n{patch.rstrip() or 'none: no change is left'}"
