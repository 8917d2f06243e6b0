"""Choose among the candidates of runs by scripts: ``report.py select RUN…``.

The runs may be of any harness. No verdict is read: what is chosen depends on the issue, the
repository at its base commit, and the patches alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.attempts import (
    Given,
    GivenCandidate,
    GivenModels,
    InstanceJob,
    PatchAgent,
    given_sha256,
)
from bench.benchmark import InstanceBenchmark, make_services
from bench.cli.cli import EnvFileOption
from bench.cli.command_line import (
    BUDGET_FLAG,
    DATASET_FLAG,
    MODEL_FLAGS,
    RUN_FLAG,
    WORKERS_FLAG,
    configured,
)
from bench.config import RunConfig, RunSettings, validated
from bench.instances.dataset import load_dataset
from bench.options import Options
from core.errors import UserError
from core.plaintext import Say, one_line
from core.settings import CommandLine, Layer, command, of_texts
from reports.foreign.recognise import read_any
from reports.named_runs import runs_and_words
from runs.checks import check_folders, check_models
from runs.description import Run
from runs.evidence import Evidence
from runs.jobs import WorkerAccess
from runs.modelsource import ModelSource, ReplayedModels, replay_folder
from runs.records import InstanceResult
from runs.session import start_run
from runs.storage.store import RunStore

_NAME = "selected"


FLAGS = (*MODEL_FLAGS, BUDGET_FLAG, DATASET_FLAG, RUN_FLAG, WORKERS_FLAG)
# Attempts are not made, only chosen from: all of them.
_FIXED = of_texts(RunSettings, ["choice.select=evidence", "choice.stop=all"])


@command(RunSettings, FLAGS)
def main(
    line: CommandLine[RunSettings],
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="RUN",
            help="Choose among the candidates of these runs, of any harness.",
            show_default=False,
        ),
    ] = None,
    env_file: EnvFileOption = None,
) -> int:
    """Choose among the candidates of runs by scripts that models write for each issue."""
    if line.asks_for_list:
        runs, words = runs_and_words(runs or ())
        line.prints(line.load(_recorded_dataset(runs), _FIXED), words)
        return 0
    if not runs:
        raise UserError("no run given; usage: report.py select RUN… --models NAME,…")
    settings = line.load(_recorded_dataset(runs), _FIXED)
    config, options = configured(settings)
    return select_command(runs, config, options, print)


def _recorded_dataset(runs: Sequence[Path]) -> Layer:
    if not runs or not runs[0].is_dir():
        return {}
    described = RunStore.of_folder(runs[0]).read_run() or Run()
    dataset = described.setting("instances.dataset") or ""
    return of_texts(RunSettings, [f"instances.dataset={dataset}"])


def select_command(
    runs: Sequence[Path], config: RunConfig, options: Options, say: Say
) -> int:
    """Write a run whose predictions are chosen from ``runs``; return the exit code."""
    _check(runs, config)
    given = candidates_of(runs)
    chosen = options.settings.instances
    dataset = load_dataset(options.dataset, chosen.split, chosen.config)
    known = [one for one in dataset.instances() if one.instance_id in given]
    if not known:
        raise UserError(
            f"--dataset {options.dataset} has no instance of these runs; give theirs"
        )
    if lost := len(given) - len(known):
        say(
            f"left out: {lost} instances that --dataset {options.dataset} does not have"
        )
    names = tuple(path.name for path in runs)
    made = replace(config, candidates_of=names, run=config.run or _NAME)
    made = replace(made, candidates_sha256=given_sha256(given))
    made = validated(
        replace(made, label=config.label or f"selected--{'+'.join(names)}"[:200])
    )
    store = RunStore(options.out, made.run_name)
    selected = chosen.selection.apply(known)
    benchmark = SelectionBenchmark(
        made, options, store, say, dataset, selected, candidates=given
    )
    check_folders(options)
    check_models(made, options.money)
    code = start_run(benchmark)
    for path in store.prediction_paths():
        for line in candidate_lines(store.read_prediction(path)):
            say(line)
    return code


def _check(runs: Sequence[Path], config: RunConfig) -> None:
    if len({path.expanduser().resolve() for path in runs}) < len(runs):
        raise UserError("a run is given twice; name each once")
    if config.outside_agent:
        raise UserError(
            "agent.name is for attempts that are made; leave it out: the candidates are there"
        )


def candidates_of(runs: Sequence[Path]) -> Given:
    """Return the candidates with a patch, by instance, in the order of runs and attempts."""
    candidates: dict[str, list[GivenCandidate]] = {}
    for path in runs:
        for name, candidate in _candidates(path):
            candidates.setdefault(name, []).append(candidate)
    if not candidates:
        raise UserError(
            f"{', '.join(map(str, runs))}: no patch there; give runs with predictions"
        )
    return candidates


def _candidates(path: Path) -> Iterator[tuple[str, GivenCandidate]]:
    run = read_any(path, labels=False)
    for instance in run.instances:
        for attempt in instance.attempts:
            origin = f"{run.name}, attempt {attempt.attempt}"
            label = instance.model_name_or_path or run.layout.value
            patch = attempt.model_patch
            if patch.strip():
                model = attempt.model or label
                yield instance.instance_id, GivenCandidate(origin, model, patch)


@dataclass
class SelectionBenchmark(InstanceBenchmark):
    """A run that chooses among candidates that are there."""

    candidates: Given = field(default_factory=dict)

    @property
    def jobs(self) -> Mapping[str, InstanceJob]:
        return {one.instance_id: InstanceJob(one) for one in self.selected}

    def services(self) -> Any:  # noqa: ANN401 - as of Benchmark
        return partial(_services, self.config, self.options, self.candidates)


def _services(
    config: RunConfig, options: Options, given: Given, worker: WorkerAccess
) -> Any:  # noqa: ANN401
    made = make_services(config, options, worker)
    writers: ModelSource = made.models
    replay = config.settings.calls.replay
    if replay is not None:
        writers = ReplayedModels(replay_folder(replay), options.book.aliases)
    models = GivenModels(given, writers)
    return replace(made, models=models, agent=PatchAgent(), given=given)


def candidate_lines(result: InstanceResult) -> Iterator[str]:
    """Yield a line for each candidate: instance, candidate, status, class, scripts, choice."""
    evidence = result.evidence or Evidence()
    for attempt in result.attempts:
        same = evidence.class_of(attempt.attempt)
        passed = len(evidence.passed(same.id)) if same else 0
        words = [
            result.instance_id,
            attempt.model,
            attempt.status.replace("_", " "),
            f"class {same.id}" if same else "no class",
            f"passes {passed} of {len(evidence.valid)}",
            "chosen" if attempt is result.winner else "",
        ]
        yield one_line("  ".join(filter(None, words)))
    yield one_line(f"{result.instance_id}  {result.reason}")
