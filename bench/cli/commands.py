"""What ``harness.py`` does with its options: puts a run together and starts it."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from bench.assembly import Options, Say, make_agent, make_hub, make_mirrors
from bench.attempts.prior import plausible_instances
from bench.cli.config import RunConfig, TestChoice, validated
from bench.cli.preflight import preflight
from bench.instances.dataset import Dataset, load_dataset
from bench.instances.instances import Instance
from core.money import in_words, known_sum
from core.plaintext import counted
from core.redaction import Redactor
from core.stop import Stop
from environments.base import EnvironmentKind
from environments.docker.engine import connect, engine_answers
from environments.docker.images import pull_ahead
from runs.calls.hub import Hub
from runs.calls.modelsource import recorded_label, replay_folder
from runs.checks import check_folder, check_models
from runs.engines.choice import make_engine
from runs.engines.driver import Driver
from runs.leftovers import marked_children, run_key
from runs.manythreads import prepare_process
from runs.progress.board import Board
from runs.progress.display import Display, make_display, stream_of
from runs.progress.summary_json import RunSummary
from runs.redo import Plan, Redo, plan, prepare
from runs.run import Run, changed_address, check_remains, open_run, recorded_differences
from runs.scale import EngineKind
from runs.signals import heeding_signals
from runs.storage.damage import set_damage_aside
from runs.storage.runlock import forget, run_lock
from runs.storage.starts import note_images
from runs.storage.store import RunStore
from runs.storage.story import run_log
from runs.storage.timings import Timings
from runs.upkeep import clean


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
        make_agent(config)
    dataset = load_dataset(options.dataset, options.split)
    notes = (lambda _: None) if options.dry_run and options.as_json else say
    selected = _recorded(config, options, options.selection.apply(dataset.instances()), notes)
    store = RunStore(options.out, config.run_name, Redactor.of_environment(os.environ))
    for option, folder in (("--out", options.out), ("--cache", options.cache)):
        check_folder(option, folder)
    if options.dry_run:
        return _dry_run(config, options, store, dataset, selected, say)
    check_models(config, options.money)
    check_remains(store)
    with run_lock(store.folder) as died:
        if died is not None:
            say(f"{died} did not end this run by itself: continuing from what it left")
        for thing in clean(store, options.cache, config.environment):
            say(f"removed {thing}")
        return _Session(config, options, store, dataset, selected, say).run()


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
        which = counted(left_out, "instance")
        say(f"left out: {which} of the dataset without a recording in {folder}")
    return recorded


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


def _planned(store: RunStore, options: Options, ids: Sequence[str], say: Say) -> Plan:
    """Return what the plain command works on: neither done nor plausible in an earlier run."""
    found = plan(store, options.money.limits, ids)
    earlier = plausible_instances(options.prior)
    todo = tuple(name for name in found.todo if name not in earlier)
    over = {name: option for name, option in found.over_budget.items() if name not in earlier}
    errors = tuple(name for name in found.errors if name not in earlier)
    say(
        f"{counted(len(ids), 'instance')} selected, {found.done} done before, "
        f"{len(found.todo) - len(todo)} plausible in earlier runs, {len(todo)} to do"
    )
    if over:
        say(_over_budget(over))
    for words in found.broken.values():
        say(f"left alone: {words}")
    return replace(found, todo=todo, over_budget=over, errors=errors)


def _over_budget(stopped: Mapping[str, str]) -> str:
    options = ", ".join(sorted({*stopped.values()}))
    return f"{len(stopped)} over budget ({options}): raise the limit and repeat the command"


@dataclass
class _Voice:
    """Says lines, above the bars while a display has the terminal; safe in a signal handler.

    Attributes:
        say: prints a line and logs it.
        log: logs it.
    """

    say: Say
    log: Say
    display: Display | None = None

    def __call__(self, text: str) -> None:
        if self.display is None:
            self.say(text)
        else:
            self.display.note(text)
            self.log(text)


@dataclass(frozen=True)
class _Session:
    """One process's work on a run whose lock it holds."""

    config: RunConfig
    options: Options
    store: RunStore
    dataset: Dataset
    selected: Sequence[Instance]
    say: Say

    def run(self) -> int:
        """Work on what is to do and return the exit code."""
        key = run_key(self.store.folder)
        prepare_process()
        stop = Stop()
        try:
            with marked_children(key), run_log(self.store.story, self.store.redact) as log:
                voice = _Voice(_both(self.say, log.info), log.info)
                if changed := changed_address(self.store, self.config):
                    voice(changed)
                for line in set_damage_aside(self.store):
                    voice(line)
                with heeding_signals(stop, voice, lambda: self._last_rites(voice)):
                    summary = self._execute(stop, key, log, voice)
        finally:
            clean(self.store, self.options.cache, self.config.environment)
        self._tell(summary)
        return summary.exit_code

    def _execute(self, stop: Stop, key: str, log: logging.Logger, say: _Voice) -> RunSummary:
        hub = make_hub(self.config, self.options, self.store, stop, log.warning)
        plan = self._plan(hub, say)
        todo = [i for i in self.selected if i.instance_id in {*plan.todo}]
        hub.ledger.begin()
        board = Board(len(todo))
        hub.called = board.called

        def spent() -> Decimal:
            return known_sum(line.cost for line in hub.ledger.since_begun())

        display = make_display(stream_of(self.say), board, spent)
        warn_once = Once(_both(display.note, log.warning))
        self._pull(todo, say)
        engine = make_engine(
            Driver(self.config, self.options, self.store, hub, stop, board, key, warn_once, log)
        )
        timings = Timings(self.options.cache / "timings.json")
        run = Run(
            self.store,
            self.config,
            hub,
            engine,
            display,
            timings,
            say,
            self.options.money.prices,
        )
        say.display = display
        try:
            return run.execute(todo, plan)
        finally:
            say.display = None
            if self.config.environment is EnvironmentKind.DOCKER:
                note_images(self.store, {instance.image for instance in self.selected})

    def _plan(self, hub: Hub, say: Say) -> Plan:
        ids = [instance.instance_id for instance in self.selected]
        if self.options.redo:
            # Another configuration must not put the files of this run aside.
            self._open(ids)
            redo = Redo.parse(self.options.redo, ids)
            chosen = prepare(self.store, hub, redo, ids)
            say(f"{counted(len(ids), 'instance')} selected, {len(chosen)} to redo")
            rest = [name for name in ids if name not in chosen]
            left = plan(self.store, self.options.money.limits, rest)
            return replace(left, todo=tuple(chosen))
        found = _planned(self.store, self.options, ids, say)
        self._open(ids)
        return found

    def _open(self, ids: Sequence[str]) -> None:
        given = self.options.given
        open_run(self.store, self.config, self.dataset.identity(), ids, given)

    def _pull(self, todo: Sequence[Instance], say: Say) -> None:
        """Have the images before the work begins: a registry's limit is better met now."""
        here = self.options.scale.engine is EngineKind.LOCAL
        if self.config.environment is not EnvironmentKind.DOCKER or not here:
            return
        if (client := connect()) is not None:
            pull_ahead(client, self._images(todo, say), say)
            client.close()

    def _images(self, todo: Sequence[Instance], say: Say) -> set[str]:
        """Return the images of the instances whose tests can run at all."""
        if self.config.tests is TestChoice.NONE:
            return set()
        untestable = sum(instance.test_setup is None for instance in todo)
        if untestable:
            which = counted(untestable, "instance")
            say(f"not pulled: images of {which} whose rows have no usable eval_script")
        return {instance.image for instance in todo if instance.test_setup is not None}

    def _last_rites(self, voice: _Voice) -> None:
        if voice.display is not None:
            voice.display.close()
        clean(self.store, self.options.cache, self.config.environment)
        forget(self.store.folder)

    def _tell(self, summary: RunSummary) -> None:
        if self.options.as_json:
            self.say(summary.text())
            return
        self.say(f"{self.store.folder}: {'; '.join(_outcome(summary))}")


def _outcome(summary: RunSummary) -> Iterator[str]:
    counts = ", ".join(f"{count} {status.value}" for status, count in summary.counts.items())
    yield f"this start: {counts or 'nothing to do'}"
    yield f"run so far: cost {in_words(summary.dollars)}, {_used(summary)}"
    if summary.over_budget:
        yield _over_budget(summary.over_budget)
    if summary.errors:
        yield f"{counted(len(summary.errors), 'error')}: repeat with --redo error"
    if summary.broken:
        yield f"{counted(len(summary.broken), 'broken prediction')}: fix or delete them"
    if summary.stopped:
        yield f"ended early: {summary.stopped}"
    if summary.unfinished:
        yield f"{len(summary.unfinished)} left to do: the same command continues"


def _dry_run(
    config: RunConfig,
    options: Options,
    store: RunStore,
    dataset: Dataset,
    selected: Sequence[Instance],
    say: Say,
) -> int:
    notes: list[str] = []
    plan = _planned(store, options, [i.instance_id for i in selected], notes.append)
    found = preflight(
        config,
        options.money,
        [i for i in selected if i.instance_id in {*plan.todo}],
        make_mirrors(options),
        store.folder,
        options.cache,
        recorded_differences(store, config, dataset.identity()),
    )
    if options.as_json:
        counts = {"selected": len(selected), "done": plan.done, "over_budget": plan.over_budget}
        say(json.dumps({**found.as_json(), **counts}))
    else:
        for line in (*notes, *found.lines()):
            say(line)
    return 2 if found.differences else 0


def _used(summary: RunSummary) -> str:
    used = summary.tokens
    read = f"{used.prompt_tokens:,} tokens in ({used.cached_tokens:,} cached)"
    return f"{counted(summary.calls, 'call')}, {read}, {used.completion_tokens:,} out"


def _both(one: Say, two: Say) -> Say:
    def say(text: str) -> None:
        one(text)
        two(text)

    return say
