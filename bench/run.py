"""A run: the instances that are still to do, one after the other, each saved when it is done."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tqdm import tqdm

from agent.errors import InfrastructureError, UserError
from agent.registry import price_map_version
from bench.attempts import Solved, Solver
from bench.checkout import LeakError
from bench.config import RunConfig
from bench.dataset import DatasetIdentity
from bench.instances import Instance
from bench.records import total_cost
from bench.services import Services
from bench.statuses import InstanceStatus
from bench.store import RunStore, differences
from bench.transcript import dollars, transcript
from bench.versions import versions


@dataclass(frozen=True)
class Summary:
    """How a run ended: instances by status, and what it cost (None: a price is unknown)."""

    counts: dict[InstanceStatus, int]
    cost: float | None

    @property
    def exit_code(self) -> int:
        """130 when interrupted, 1 when an instance failed for infrastructure, else 0."""
        if self.counts.get(InstanceStatus.INTERRUPTED):
            return 130
        return 1 if self.counts.get(InstanceStatus.INFRA_ERROR) else 0


@dataclass
class Run:
    """Runs instances and saves them.

    Attributes:
        say: prints a line for the user.
    """

    store: RunStore
    dataset: DatasetIdentity
    services: Services
    say: Callable[[str], None]
    _counts: dict[InstanceStatus, int] = field(default_factory=dict)
    _costs: list[float | None] = field(default_factory=list)

    def execute(self, instances: Sequence[Instance], selected: Iterable[str]) -> Summary:
        """Solve ``instances`` and return the summary.

        Args:
            instances: what is still to do.
            selected: ids of all that the run was asked for: the denominator of its score.

        Raises:
            UserError: the recorded run differs, or the run cannot go on; finished work is kept.
        """
        self._open(selected)
        bar = tqdm(total=len(instances), unit="instance", disable=not sys.stderr.isatty())
        with bar:
            for instance in instances:
                status, line = self._one(instance)
                self._counts[status] = self._counts.get(status, 0) + 1
                bar.update(1)
                done = sum(self._counts.values())
                bar.write(f"[{done}/{len(instances)}] {line}", file=sys.stdout)
                if status is InstanceStatus.INTERRUPTED:
                    break
        known = [cost for cost in self._costs if cost is not None]
        return Summary(self._counts, sum(known) if len(known) == len(self._costs) else None)

    def _open(self, selected: Iterable[str]) -> None:
        """Write ``run.json``, or compare with the one that is there; note what is selected."""
        config = self.services.config
        deciding = config.deciding(self.dataset.sha256)
        recorded = self.store.read_run()
        differ = recorded_differences(self.store, config, self.dataset)
        begun = any(self.store.prediction_paths())
        if recorded is None and begun:
            raise UserError(
                f"{self.store.folder} has predictions but no run.json: they were not made by this "
                "harness; choose another --run"
            )
        if recorded is None or not begun:
            recorded = describe_run(config, self.dataset, deciding)
        elif differ:
            raise UserError(
                f"the run {self.store.run} was made otherwise ({'; '.join(differ)}); "
                "repeat its options or choose another --run"
            )
        every = sorted({*recorded.get("selected", ()), *selected})
        self.store.save_run({**recorded, "selected": every})

    def _one(self, instance: Instance) -> tuple[InstanceStatus, str]:
        name = instance.instance_id
        with instance_log(self.store.logs / f"{name}.log", name) as log:
            solver = Solver(instance, self.services, log)
            try:
                solved = solver.solve()
                self._save(solved)
            except KeyboardInterrupt:
                self._unfinished(solver, InstanceStatus.INTERRUPTED, "interrupted")
                return InstanceStatus.INTERRUPTED, f"{name}: interrupted"
            except (InfrastructureError, LeakError, OSError) as error:
                log.error("%s", traceback.format_exc())
                self._unfinished(solver, InstanceStatus.INFRA_ERROR, str(error))
                return InstanceStatus.INFRA_ERROR, f"{name}: infrastructure failed: {error}"
            log.info("%s", solved.choice.reason)
        self._costs.append(total_cost(solved.attempts))
        status = solved.choice.status
        return status, f"{name}: {status.value}; {solved.choice.reason}; {dollars(self._costs[-1])}"

    def _save(self, solved: Solved) -> None:
        name = solved.instance.instance_id
        label = self.services.config.model_name_or_path
        trajectory = self._trajectory(name, solved)
        self.store.save_instance(name, prediction(solved, label), trajectory, transcript(solved))

    def _trajectory(self, name: str, solved: Solved) -> dict[str, Any]:
        winner = solved.winner
        return {
            "instance_id": name,
            "status": solved.choice.status.value,
            "reason": solved.choice.reason,
            "winner": winner.attempt if winner else None,
            "attempts": [record.as_trajectory() for record in solved.attempts],
            "config": self.services.config.as_json(),
            "versions": {**versions(), "price_map_sha256": price_map_version()},
        }

    def _unfinished(self, solver: Solver, status: InstanceStatus, why: str) -> None:
        attempts = [record.as_trajectory() for record in solver.records]
        name = solver.instance.instance_id
        content = {"instance_id": name, "status": status.value, "reason": why, "attempts": attempts}
        try:
            self.store.save_unfinished(name, content)
        except OSError as error:  # a full disk must not hide what went wrong first
            self.say(f"{name}: cannot save what was done: {error}")


def recorded_differences(store: RunStore, config: RunConfig, dataset: DatasetIdentity) -> list[str]:
    """Return in words how a begun run differs from ``config`` in what decides results."""
    recorded = store.read_run()
    if recorded is None or not any(store.prediction_paths()):
        return []
    return differences(recorded.get("deciding"), config.deciding(dataset.sha256))


def prediction(solved: Solved, model_name_or_path: str) -> dict[str, Any]:
    """Return an instance's prediction in the layout of docs/predictions.md."""
    name = solved.instance.instance_id
    results = [record.as_prediction(name, model_name_or_path) for record in solved.attempts]
    winner = solved.winner
    chosen = winner.as_prediction(name, model_name_or_path) if winner else _nothing(results[0])
    return {
        **chosen,
        "tries": max(record.try_ for record in solved.attempts),
        "status": solved.choice.status.value,
        "reason": solved.choice.reason,
        "cost": total_cost(solved.attempts),
        "all_results": results,
    }


def _nothing(result: dict[str, Any]) -> dict[str, Any]:
    """Return a prediction of an instance without a usable patch."""
    return {**result, "model_patch": "", "edited_files": []}


def describe_run(
    config: RunConfig, dataset: DatasetIdentity, deciding: dict[str, Any]
) -> dict[str, Any]:
    """Return what ``run.json`` says of a new run."""
    return {
        "run": config.run_name,
        "model_name_or_path": config.model_name_or_path,
        "dataset": asdict(dataset),
        "config": config.as_json(),
        "deciding": deciding,
        "versions": {**versions(), "price_map_sha256": price_map_version()},
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


@contextmanager
def instance_log(path: Path, name: str) -> Iterator[logging.Logger]:
    """Give a logger that writes to ``path`` while the instance is worked on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    logger = logging.Logger(name, logging.INFO)
    handler = logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger.addHandler(handler)
    try:
        yield logger
    finally:
        handler.close()
