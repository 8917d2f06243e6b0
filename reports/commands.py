"""What ``report.py`` does with its options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from agent.atomic import write_json_atomic
from agent.errors import UserError
from bench.checkout import Snapshots
from bench.dataset import Dataset, load_dataset
from bench.environments.engine import engine_answers
from bench.environments.local import LocalEnvironment
from bench.instances import Evaluation, split_row
from bench.mirrors import Mirrors
from bench.store import RunStore
from demo.images import build_images
from demo.setup import DEMO_DATASET, build_mirrors
from reports.evaluators.base import Evaluator, Job, Verdict, VerdictStatus
from reports.evaluators.docker import DockerEvaluator
from reports.evaluators.local import LocalEvaluator
from reports.predictions import Prediction, read_predictions, run_id, write_all_preds
from reports.results import count, leaderboard_lists
from reports.verdicts import known_verdict, save_verdict

Say = Callable[[str], None]


class EvaluatorKind(str, Enum):
    """Who gives the verdicts."""

    DOCKER = "docker"
    LOCAL = "local"
    NONE = "none"


@dataclass(frozen=True)
class ReportOptions:
    """The options of ``report.py``; timeouts in seconds."""

    evaluator: EvaluatorKind | None
    dataset: str
    split: str
    workers: int
    timeout: float
    cache: Path
    repos: Path | None


def report_command(runs: Sequence[Path], options: ReportOptions, say: Say) -> int:
    """Report on each run in turn and return the exit code: 1 when something was not evaluated.

    Raises:
        UserError, InfrastructureError: a run cannot be read or nothing can be evaluated.
    """
    stores = [RunStore.of_folder(run) for run in runs]
    return max([_Report(store, options, say).make() for store in stores])


@dataclass(frozen=True)
class _Report:
    """The report on one run."""

    store: RunStore
    options: ReportOptions
    say: Say

    def make(self) -> int:
        """Write predictions, verdicts and results; print the counts."""
        predictions = read_predictions(self.store)
        path = write_all_preds(self.store, predictions)
        described = self.store.read_run() or {}
        verdicts = self._verdicts(predictions, described)
        results = count(predictions, verdicts, described.get("selected", ()))
        write_json_atomic(
            self.store.folder / "results.json", leaderboard_lists(predictions, verdicts)
        )
        self._print(predictions, verdicts)
        for line in [*results.lines(), f"predictions    {path}"]:
            self.say(line)
        asked = self._kind() is not EvaluatorKind.NONE
        return 1 if asked and results.not_evaluated else 0

    def _print(self, predictions: Sequence[Prediction], verdicts: Mapping[str, Verdict]) -> None:
        for prediction in predictions:
            verdict = verdicts[prediction.instance_id]
            words = [verdict.status.value.replace("_", " "), f"({verdict.evaluator})"]
            words += [verdict.reason] if verdict.reason else []
            self.say(f"{prediction.instance_id:32s} {' '.join(words)}")

    def _kind(self) -> EvaluatorKind:
        if self.options.evaluator is not None:
            return self.options.evaluator
        return EvaluatorKind.DOCKER if engine_answers() else EvaluatorKind.LOCAL

    def _verdicts(
        self, predictions: Sequence[Prediction], described: Mapping[str, Any]
    ) -> dict[str, Verdict]:
        kind = self._kind()
        verdicts = {p.instance_id: _without_evaluation(self.store, p) for p in predictions}
        if kind is EvaluatorKind.NONE:
            return verdicts
        jobs, evaluations = self._jobs(predictions, described)
        if kind is EvaluatorKind.LOCAL:
            official = [j for j in jobs if verdicts[j.instance.instance_id].official]
            jobs = [job for job in jobs if job not in official]
            if official:
                self.say(f"{len(official)} official verdicts on these patches are kept")
        if jobs:
            self.say(f"evaluating {len(jobs)} predictions ({kind.value})")
            evaluator = self._evaluator(kind, described)
            verdicts.update(evaluator.evaluate(jobs, run_id(self.store, predictions)))
        for prediction in predictions:
            name = prediction.instance_id
            save_verdict(self.store, prediction, verdicts[name], evaluations.get(name))
        return verdicts

    def _jobs(
        self, predictions: Sequence[Prediction], described: Mapping[str, Any]
    ) -> tuple[list[Job], dict[str, Evaluation]]:
        """Return what is to be evaluated: every prediction with a patch."""
        dataset = self._dataset(described)
        rows = {row["instance_id"]: row for row in dataset.rows}
        if missing := [p.instance_id for p in predictions if p.instance_id not in rows]:
            raise UserError(
                f"not in the dataset {dataset.name}: {', '.join(missing[:5])}; check --dataset"
            )
        halves = {p.instance_id: split_row(rows[p.instance_id]) for p in predictions}
        jobs = [Job(p, *halves[p.instance_id]) for p in predictions if p.patch.strip()]
        return jobs, {name: evaluation for name, (_, evaluation) in halves.items()}

    def _dataset(self, described: Mapping[str, Any]) -> Dataset:
        recorded = described.get("dataset") or {}
        name = self.options.dataset or recorded.get("name") or "lite"
        split = self.options.split or recorded.get("split") or "test"
        return load_dataset(str(name), str(split), DEMO_DATASET)

    def _is_demo(self, described: Mapping[str, Any]) -> bool:
        name = self.options.dataset or (described.get("dataset") or {}).get("name", "")
        return bool(name == "demo")

    def _evaluator(self, kind: EvaluatorKind, described: Mapping[str, Any]) -> Evaluator:
        demo = self._is_demo(described)
        options = self.options
        if kind is EvaluatorKind.DOCKER:
            if not engine_answers():
                raise UserError("no Docker engine answers: start one, or use --evaluator local")
            return DockerEvaluator(
                folder=self.store.logs / "evaluation",
                workers=options.workers,
                timeout=options.timeout,
                split=options.split or "test",
                prepare=build_images if demo else lambda ids: None,
            )
        if demo:
            mirrors = Mirrors(build_mirrors(options.cache / "demo-mirrors"))
        else:
            mirrors = Mirrors(options.repos or options.cache / "mirrors")
        environment = LocalEnvironment(options.cache / "environments", self.say)
        snapshots = Snapshots(options.cache / "snapshots")
        return LocalEvaluator(
            environment, mirrors, snapshots, options.cache / "work", options.timeout
        )


def _without_evaluation(store: RunStore, prediction: Prediction) -> Verdict:
    """Return what is known of a prediction before anything is evaluated."""
    known = known_verdict(store, prediction)
    if known:
        return known
    empty = not prediction.patch.strip()
    status = VerdictStatus.EMPTY if empty else VerdictStatus.NOT_EVALUATED
    return Verdict(prediction.instance_id, status, "none")
