"""Choose among the candidates of runs by scripts: ``report.py select RUN…``.

The runs may be of any harness. No verdict is read: what is chosen depends on the issue, the
repository at its base commit, and the patches alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from swe_retry.attempts.benchmark import InstanceBenchmark, make_services
from swe_retry.attempts.config import RunConfig, RunSettings, validate_config
from swe_retry.attempts.recorded import (
    CandidateModels,
    PatchAgent,
    RecordedCandidate,
    RecordedCandidates,
    hash_candidates,
)
from swe_retry.attempts.services import Services
from swe_retry.attempts.solve import InstanceJob
from swe_retry.cli.command_line import flags_of, make_configuration
from swe_retry.core.errors import UserError
from swe_retry.core.plaintext import Say, one_line
from swe_retry.core.settings import CommandLine, Layer, command, of_texts
from swe_retry.foreign.recognise import read_any
from swe_retry.instances.dataset import load_dataset
from swe_retry.launch.cli import EnvFileOption
from swe_retry.record.evidence import Evidence
from swe_retry.record.places import find_run
from swe_retry.record.records import Origin
from swe_retry.record.result import InstanceResult
from swe_retry.record.store import RunStore
from swe_retry.report.named_runs import runs_and_filters
from swe_retry.runner.checks import check_folders, check_models
from swe_retry.runner.jobs import WorkerAccess
from swe_retry.runner.modelsource import ReplayedModels, replay_folder
from swe_retry.runner.session import start_run
from swe_retry.study.matrix import matrix_command

_NAME = "selected"


FLAGS = flags_of(
    "models.names",
    "calls.api_base",
    "budget.usd",
    "instances.dataset",
    "folders.run",
    "scale.workers",
)
# Attempts are not made, only chosen from: all of them.
_FIXED = of_texts(RunSettings, ["choice.select=evidence", "choice.stop=all"])


@command(RunSettings, FLAGS)
def main(
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
        line.prints(line.load(_recorded_dataset(runs), _FIXED), filters)
        return 0
    if matrix is not None:
        if runs:
            raise UserError("--matrix takes no run; leave the runs or the option out")
        return matrix_command(matrix, line.load({}, _FIXED).choice.right, print)
    if not runs:
        raise UserError("no run given; usage: report.py select RUN… --models NAME,…")
    settings = line.load(_recorded_dataset(runs), _FIXED)
    return select_command(runs, make_configuration(settings), print)


def _recorded_dataset(runs: Sequence[Path]) -> Layer:
    if not runs or not runs[0].is_dir():
        return {}
    described = RunStore.of_folder(runs[0]).read_run()
    dataset = described.setting("instances.dataset") or ""
    return of_texts(RunSettings, [f"instances.dataset={dataset}"])


def select_command(runs: Sequence[Path], config: RunConfig, say: Say) -> int:
    """Write a run whose predictions are chosen from ``runs``; return the exit code."""
    _check(runs, config)
    candidates = candidates_of(runs)
    dataset_name = config.dataset
    settings = config.settings.instances
    dataset = load_dataset(dataset_name, settings.split, settings.config)
    instances = []
    for instance in dataset.instances():
        if instance.instance_id in candidates:
            instances.append(instance)
    if not instances:
        raise UserError(
            f"--dataset {dataset_name} has no instance of these runs; give theirs"
        )
    missing = len(candidates) - len(instances)
    if missing:
        say(
            f"left out: {missing} instances that --dataset {dataset_name} does not have"
        )
    names = tuple(path.name for path in runs)
    label = f"selected--{'+'.join(names)}"[:200]
    config = replace(
        config,
        candidates_of=names,
        candidates_sha256=hash_candidates(candidates),
        run=config.run or _NAME,
        label=config.label or label,
    )
    config = validate_config(config)
    store = RunStore(config.out, config.run_name)
    benchmark = SelectionBenchmark(
        config,
        store,
        say,
        dataset,
        selected=settings.selection.apply(instances),
        candidates=candidates,
    )
    check_folders(config)
    check_models(config)
    code = start_run(benchmark)
    for path in store.prediction_paths():
        for line in candidate_lines(store.read_prediction(path)):
            say(line)
    return code


def _check(runs: Sequence[Path], config: RunConfig) -> None:
    folders = {path.expanduser().resolve() for path in runs}
    if len(folders) < len(runs):
        raise UserError("a run is given twice; name each once")
    if config.outside_agent:
        raise UserError(
            "agent.name is for attempts that are made; leave it out: the candidates are there"
        )


def candidates_of(runs: Sequence[Path]) -> RecordedCandidates:
    """Return the candidates with a patch, by instance, in the order of runs and attempts."""
    candidates = defaultdict(list)
    for path in runs:
        run = read_any(path, labels=False)
        for instance in run.instances:
            label = instance.model_name_or_path or run.layout.value
            for attempt in instance.attempts:
                if not attempt.model_patch.strip():
                    continue
                candidate = RecordedCandidate(
                    origin=Origin(
                        run=run.name,
                        attempt=attempt.attempt,
                        harness=run.agent or run.layout.value,
                    ),
                    model=attempt.model or label,
                    patch=attempt.model_patch,
                )
                candidates[instance.instance_id].append(candidate)
    if not candidates:
        paths = ", ".join(map(str, runs))
        raise UserError(f"{paths}: no patch there; give runs with predictions")
    return candidates


@dataclass
class SelectionBenchmark(InstanceBenchmark):
    """A run that chooses among candidates that are there."""

    candidates: RecordedCandidates = field(default_factory=dict)

    @property
    def jobs(self) -> Mapping[str, InstanceJob]:
        # Replies are replayed for the writers of scripts, and not for attempts.
        return {i.instance_id: InstanceJob(i) for i in self.selected}

    def services(self) -> Callable[[WorkerAccess], Services]:
        return partial(_make_services, self.config, self.candidates)


def _make_services(
    config: RunConfig,
    candidates: RecordedCandidates,
    worker: WorkerAccess,
) -> Services:
    services = make_services(config, worker)
    writers = services.models
    replay = config.settings.calls.replay
    if replay is not None:
        writers = ReplayedModels(replay_folder(replay), config.book.aliases)
    return replace(
        services,
        models=CandidateModels(candidates, writers),
        agent=PatchAgent(),
        candidates=candidates,
    )


def candidate_lines(result: InstanceResult) -> Iterator[str]:
    """Yield a line for each candidate: instance, candidate, status, class, scripts, choice."""
    evidence = result.evidence or Evidence()
    for attempt in result.attempts:
        group = evidence.class_of(attempt.attempt)
        passed = 0
        class_text = "no class"
        if group:
            passed = len(evidence.scripts_passed_by(group.id))
            class_text = f"class {group.id}"
        cells = [
            result.instance_id,
            f"{attempt.model} ({attempt.origin})",
            attempt.status.replace("_", " "),
            class_text,
            f"passes {passed} of {len(evidence.valid)}",
        ]
        if attempt is result.winner:
            cells.append("chosen")
        yield one_line("  ".join(filter(None, cells)))
    yield one_line(f"{result.instance_id}  {result.reason}")
