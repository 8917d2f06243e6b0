"""What ``harness.py`` does with its options: puts a run together and starts it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from agent.agents import load_agent
from agent.catalogue import filled
from agent.errors import UserError
from agent.formats import get_format
from agent.listing import Listed, table
from agent.models import RetryPolicy
from agent.registry import missing_key
from agent.repomap import TagStore
from agent.settings import SettingsBook, our_settings
from bench.checkout import Snapshots
from bench.config import EnvironmentKind, ModelChoice, RunConfig, validated
from bench.dataset import Selection, load_dataset
from bench.environments import Environment
from bench.environments.choice import make_environment
from bench.environments.engine import engine_answers
from bench.instances import Instance
from bench.mirrors import Mirrors
from bench.modelsource import (
    LiveModels,
    ModelSource,
    ReplayedModels,
    recorded_label,
    replay_folder,
)
from bench.preflight import preflight
from bench.prior import plausible_instances
from bench.run import Run, recorded_differences
from bench.services import Services
from bench.store import RunStore
from bench.transcript import dollars
from demo.setup import DEMO_DATASET, build_mirrors

Say = Callable[[str], None]


@dataclass(frozen=True)
class Options:
    """The options of ``harness.py`` that are not part of the run's configuration."""

    dataset: str
    split: str
    selection: Selection
    out: Path
    cache: Path
    repos: Path | None = None
    prior: Sequence[Path] = ()
    dry_run: bool = False
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    settings: SettingsBook = field(default_factory=our_settings)


def default_cache() -> Path:
    """Return the user's cache folder for mirrors, snapshots, environments and baselines."""
    root = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(root).expanduser() / "swe-retry-harness"


def default_environment() -> EnvironmentKind:
    """Return docker when an engine answers, else local."""
    return EnvironmentKind.DOCKER if engine_answers() else EnvironmentKind.LOCAL


def run_command(config: RunConfig, options: Options, say: Say) -> int:
    """Run, or say what a run would do, and return the exit code.

    Raises:
        UserError: something that the user can mend.
        InfrastructureError: the dataset cannot be loaded.
    """
    config = _labelled(validated(config))
    if not options.dry_run:
        # A wrong name is told before a dataset is fetched.
        load_agent(config.agent, config.agent_env, config.agent_timeout)
    dataset = load_dataset(options.dataset, options.split, DEMO_DATASET)
    selected = _recorded(config, options, options.selection.apply(dataset.instances()), say)
    store = RunStore(options.out, config.run_name)
    for option, folder in (("--out", options.out), ("--cache", options.cache)):
        if folder.exists() and not folder.is_dir():
            raise UserError(f"{option} {folder} is not a folder; choose another")
    todo = _todo(store, selected, options.prior, say)
    mirrors = _mirrors(options)
    if options.dry_run:
        for line in preflight(config, todo, mirrors, options.out, options.cache):
            say(line)
        for difference in recorded_differences(store, config, dataset.identity()):
            say(f"refused: the run {store.run} was made otherwise: {difference}")
        return 0
    _check_keys(config)
    _check_tools(config)
    once = Once(say)
    services = _services(config, options, mirrors, once)
    names = [instance.instance_id for instance in selected]
    return _execute(Run(store, dataset.identity(), services, say), todo, names, say)


def list_models(names: Sequence[str], book: SettingsBook, api_base: str | None, say: Say) -> None:
    """Say the table of ``names``, and without any that of all aliases and the default models.

    Raises:
        UserError: litellm knows no provider for a name.
    """

    def parsed(name: str) -> ModelChoice:
        return ModelChoice.parse(name, book=book, any_name=bool(api_base))

    aliases: dict[str, list[str]] = {}
    for alias in book.aliases:
        aliases.setdefault(parsed(alias).name, []).append(alias)
    listed = [
        Listed(
            choice.name,
            tuple(aliases.get(choice.name, ())),
            replace(choice.settings, edit_format=choice.edit_format),
        )
        for choice in map(parsed, names or aliases)
    ]
    for line in table(listed, api_base):
        say(line)


def _labelled(config: RunConfig) -> RunConfig:
    """A replay of a run keeps the model name of that run's predictions."""
    if not config.replay:
        return config
    return replace(config, label=recorded_label(replay_folder(config.replay)))


def _recorded(
    config: RunConfig, options: Options, selected: Sequence[Instance], say: Say
) -> Sequence[Instance]:
    """In a replay, leave out instances without a recording, unless they are asked for by name."""
    if not config.replay or options.selection.ids:
        return selected
    folder = replay_folder(config.replay)
    recorded = [i for i in selected if (folder / f"{i.instance_id}.json").exists()]
    if left_out := len(selected) - len(recorded):
        say(f"{left_out} instances of the dataset have no recording in {folder}: left out")
    return recorded


def _execute(run: Run, todo: Sequence[Instance], selected: Sequence[str], say: Say) -> int:
    summary = run.execute(todo, selected)
    counts = ", ".join(f"{count} {status.value}" for status, count in summary.counts.items())
    say(f"{run.store.folder}: {counts or 'nothing to do'}; cost {dollars(summary.cost)}")
    return summary.exit_code


@dataclass
class Once:
    """Says each thing once."""

    say: Say
    _said: set[str] = field(default_factory=set)

    def __call__(self, text: str) -> None:
        """Say ``text`` unless it was said before."""
        if text not in self._said:
            self._said.add(text)
            self.say(f"note: {text}")


def _todo(
    store: RunStore, selected: Sequence[Instance], prior: Sequence[Path], say: Say
) -> list[Instance]:
    """Return what is neither done in this run nor plausible in an earlier one."""
    done = {store.read_prediction(path)["instance_id"] for path in store.prediction_paths()}
    earlier = plausible_instances(prior)
    todo = [i for i in selected if i.instance_id not in done and i.instance_id not in earlier]
    finished = sum(i.instance_id in done for i in selected)
    say(
        f"{len(selected)} instances selected, {finished} done before, "
        f"{len(selected) - finished - len(todo)} plausible in earlier runs, {len(todo)} to do"
    )
    return todo


def _mirrors(options: Options) -> Mirrors:
    if options.dataset == "demo":
        return Mirrors(build_mirrors(options.cache / "demo-mirrors"))
    return Mirrors(options.repos or options.cache / "mirrors")


def _check_keys(config: RunConfig) -> None:
    if not config.calls_models:
        return
    for model in config.models:
        if missing := missing_key(model.name, config.api_base):
            raise UserError(f"{model.given} needs a key: set the environment variable {missing}")


def _check_tools(config: RunConfig) -> None:
    """Refuse formats of function calls for models that are known to have none."""
    if not config.calls_models:
        return
    for model in config.models:
        known = filled(model.settings, model.name, config.api_base)
        if getattr(get_format(model.edit_format), "tools", ()) and known.tools is False:
            raise UserError(f"{model.given} cannot call functions; use @diff or @whole")


def _services(config: RunConfig, options: Options, mirrors: Mirrors, once: Once) -> Services:
    environment: Environment = make_environment(config.environment, options.cache, once)
    models: ModelSource
    if config.replay:
        models = ReplayedModels(replay_folder(config.replay), options.settings.aliases)
    else:
        models = LiveModels(config, options.retries, once)
    return Services(
        config=config,
        mirrors=mirrors,
        snapshots=Snapshots(options.cache / "snapshots"),
        tags=TagStore(options.cache / "tags.sqlite"),
        environment=environment,
        models=models,
        work=options.cache / "work",
        baselines=options.cache / "baselines",
        agent=load_agent(config.agent, config.agent_env, config.agent_timeout),
        warn_once=once,
    )
