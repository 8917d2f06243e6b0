"""The data of a run, read once from its files in either layout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from bench.attempts.prior import status_of
from bench.instances.instance import instance_id_of
from core.money import known_sum, total
from reports.data.attemptdata import AttemptData, CallData, attempts_of, map_files
from reports.data.instancedata import InstanceData, resolved_of
from reports.data.jsonvalues import dollars, mapping, text, texts
from reports.data.predictions import Prediction, other_patch, read_predictions
from reports.data.rows import Row, gold_files_of, image_of, repository_of, year_of
from reports.data.turns import fill_turns, turn_order
from reports.evaluation.evaluators.base import Verdict, VerdictStatus
from reports.evaluation.verdicts import known_verdict, read_verdict_file
from runs.calls.ledger import LedgerLine, by_instance, read_ledger
from runs.calls.ledger import total as ledger_total
from runs.progress.overview import overview
from runs.progress.run_status import InstanceEntry
from runs.storage.jsonlines import DamagedLine
from runs.storage.store import RunStore

__all__ = ["AttemptData", "CallData", "InstanceData", "RunData", "read_run"]


@dataclass(frozen=True)
class RunData:
    """A run.

    Attributes:
        described: ``run.json``; empty if there is none.
        instances: those with a prediction, sorted by id.
        selected: ids of all selected instances, sorted.
        models: in the order of their turns; empty if unknown.
        unfinished: instances that were started and have no prediction.
        ledger: every call that cost something; empty for runs without a ledger.
        damaged: lines of the ledger that could not be read.
    """

    name: str
    folder: Path
    model_name_or_path: str
    described: Mapping[str, Any]
    instances: tuple[InstanceData, ...]
    selected: tuple[str, ...]
    models: tuple[str, ...]
    unfinished: tuple[InstanceEntry, ...] = ()
    ledger: tuple[LedgerLine, ...] = field(default=(), repr=False)
    damaged: tuple[DamagedLine, ...] = ()

    @property
    def cost(self) -> Decimal | None:
        """Dollars of the whole run, from its ledger, else its predictions; None if unknown."""
        if self.ledger:
            return ledger_total(self.ledger)
        return total(instance.cost for instance in self.instances)

    @property
    def evaluated(self) -> bool:
        """Whether there is a verdict, or no patch to evaluate."""
        return evaluated(self.instances)

    @property
    def known_cost(self) -> Decimal:
        """The sum of the costs that are known."""
        if self.ledger:
            return known_sum(line.cost for line in self.ledger)
        return known_sum(instance.cost for instance in self.instances)


def evaluated(instances: Sequence[InstanceData]) -> bool:
    """Return whether a patch of ``instances`` has a verdict, or none of them has a patch."""
    patched = [i for i in instances if i.may_resolve]
    return bool(instances) and (not patched or any(i.resolved is not None for i in patched))


def read_run(store: RunStore, rows: Iterable[Row] = ()) -> RunData:
    """Read a run without its conversations, which ``RunStore.read_trajectory`` reads.

    Args:
        store: its files.
        rows: of its dataset, if available: they add repositories, years and gold files.

    Raises:
        UserError: it has no predictions, or a file is damaged.
    """
    predictions = read_predictions(store)
    written = map(store.read_as_written, store.prediction_paths())
    contents = {str(content["instance_id"]): content for content in written}
    described = store.read_run() or {}
    label = predictions[0].model_name_or_path
    models = turn_order(described, (label, store.run), contents.values())
    ledger = read_ledger(store.ledger)
    lines = ledger.whole
    reading = _Reading(store, models, {instance_id_of(r): r for r in rows}, _grouped(lines))
    instances = tuple(reading.instance(p, contents[p.instance_id]) for p in predictions)
    asked = texts(described.get("selected"))
    return RunData(
        name=store.run,
        folder=store.folder,
        model_name_or_path=label,
        described=described,
        instances=instances,
        selected=tuple(sorted({*asked, *(p.instance_id for p in predictions)})),
        models=models,
        unfinished=overview(store, by_instance(lines)).unfinished,
        ledger=lines,
        damaged=ledger.damaged,
    )


@dataclass(frozen=True)
class _Reading:
    """Reads the instances of one run."""

    store: RunStore
    models: Sequence[str]
    rows: Mapping[str, Row]
    ledger: Mapping[str, Sequence[LedgerLine]]

    def instance(self, prediction: Prediction, content: Mapping[str, Any]) -> InstanceData:
        """Return one instance; ``content`` is its prediction file."""
        name = prediction.instance_id
        chosen, results = fill_turns(content, self.models)
        trajectory = self.store.read_trajectory(name)
        verdict = _verdict(self.store, prediction)
        row = self.rows.get(name, {})
        kept = read_verdict_file(self.store.verdict(name)) or {}
        return InstanceData(
            instance_id=name,
            repo=text(row.get("repo")) or text(kept.get("repo")) or repository_of(name),
            year=year_of(text(row.get("created_at")) or text(kept.get("created_at"))),
            status=status_of(content),
            reason=text(content.get("reason")),
            plausible=None if content.get("outcomes_known") is False else prediction.plausible,
            attempt=chosen["attempt"],
            winner=chosen["attempt"] if text(content.get("model_patch")).strip() else None,
            model=chosen["model"] or None,
            patch=prediction.patch,
            raw_patch=text(content.get("model_patch")),
            attempts=tuple(
                self._with_verdict(attempt, prediction)
                for attempt in attempts_of(results or _only(chosen, trajectory), trajectory)
            ),
            verdict=verdict,
            resolved=resolved_of(verdict),
            cost=self._cost(name, content),
            gold_files=gold_files_of(row, kept, content),
            map_files=map_files(trajectory),
            image=image_of(name, row, kept),
            origin=text(mapping(content.get("origin")).get("run")),
            edits_test_configuration=prediction.edits_test_configuration,
            test_note=text(content.get("test_note")),
            patch_known=prediction.patch_known,
        )

    def _with_verdict(self, attempt: AttemptData, prediction: Prediction) -> AttemptData:
        """Return ``attempt`` with the verdict on its patch, if that is not the predicted one."""
        patch = attempt.submittable_patch
        if not patch.strip() or patch == prediction.patch:
            return attempt
        other = other_patch(prediction.instance_id, prediction.model_name_or_path, patch)
        return replace(attempt, verdict=known_verdict(self.store, other))

    def _cost(self, name: str, content: Mapping[str, Any]) -> Decimal | None:
        own = self.ledger.get(name)
        return ledger_total(own) if own else dollars(content.get("cost"))


def _grouped(lines: Iterable[LedgerLine]) -> dict[str, list[LedgerLine]]:
    grouped: dict[str, list[LedgerLine]] = {}
    for line in lines:
        grouped.setdefault(line.instance_id, []).append(line)
    return grouped


def _only(chosen: dict[str, Any], trajectory: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """Return the attempt that a prediction without a list of attempts describes.

    If there is a trajectory, it holds the attempts, and the values of the prediction (status, cost)
    are those of the whole instance.
    """
    if trajectory:
        return ()
    return ({key: value for key, value in chosen.items() if key not in ("status", "reason")},)


def _verdict(store: RunStore, prediction: Prediction) -> Verdict | None:
    if known := known_verdict(store, prediction):
        return known
    if prediction.patch.strip() or not prediction.patch_known:
        return None
    return Verdict(prediction.instance_id, VerdictStatus.EMPTY, "none")
