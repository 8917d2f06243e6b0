"""What ``report.py select`` does: choose among the candidates of runs by scripts.

The runs may be of any harness. No verdict is read: what is chosen depends on the issue, the
repository at its base commit, and the patches alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from swe_retry.attempts.benchmark import InstanceBenchmark, make_services
from swe_retry.attempts.config import RunConfig, validate_config
from swe_retry.attempts.recorded import (
    CandidateModels,
    PatchAgent,
    RecordedCandidate,
    RecordedCandidates,
    hash_candidates,
)
from swe_retry.attempts.services import Services
from swe_retry.attempts.solve import InstanceJob
from swe_retry.core.errors import UserError
from swe_retry.core.plaintext import Say, one_line
from swe_retry.foreign.recognise import read_any
from swe_retry.instances.dataset import load_dataset
from swe_retry.record.evidence import Evidence
from swe_retry.record.records import Origin
from swe_retry.record.result import InstanceResult
from swe_retry.record.store import RunStore
from swe_retry.runner.checks import check_folders, check_models
from swe_retry.runner.jobs import WorkerAccess
from swe_retry.runner.modelsource import ReplayedModels, replay_folder
from swe_retry.runner.session import start_run

_NAME = "selected"


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
        selected=settings.select(instances),
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
