"""The data of a run, read once from its files in either layout."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import zip_longest
from pathlib import Path
from typing import Any

from agent.named import named_agent
from bench.instances.adapters.base import Row
from bench.instances.instance import derived_image, instance_id_of, split_row
from core.errors import UserError
from core.money import known_sum, total
from llm.chat import Usage
from reports.data.jsonvalues import (
    dollars,
    flag,
    mapping,
    number,
    objects,
    text,
    texts,
    usage,
    whole,
    writable,
)
from reports.data.predictions import (
    IMPORTED,
    Prediction,
    other_patch,
    predicted_patch,
    read_predictions,
)
from reports.data.turns import fill_turns, turn_order
from reports.data.verdicts import (
    NO_VERDICT,
    Verdict,
    VerdictStatus,
    known_verdict,
    presumed,
    read_verdict_file,
)
from runs.calls.ledger import LedgerLine, by_instance, read_ledger
from runs.calls.ledger import total as ledger_total
from runs.evidence import Evidence, evidence_of
from runs.patches import patch_paths
from runs.progress.overview import InstanceEntry, overview
from runs.records import PLAUSIBLE, Attempt, InstanceResult, status_by
from runs.storage.jsonlines import DamagedLine
from runs.storage.store import RunStore


@dataclass(frozen=True)
class CallData:
    """One call of a model, under the name that the provider returned; seconds without retries."""

    usage: Usage | None
    cost: Decimal | None
    seconds: float
    model: str = ""


@dataclass(frozen=True)
class StepTotals:
    """Totals of a step or an attempt; None where unknown. Prompt tokens include cached ones."""

    calls: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    cost: Decimal | None = None

    def counts(self) -> dict[str, int | None]:
        """Return all but the dollars, by name."""
        return {name: value for name, value in vars(self).items() if name != "cost"}


UNKNOWN_TOTALS = StepTotals()


def totals_of(value: object) -> StepTotals:
    said = mapping(value)
    counts = {name: whole(said.get(name)) for name in UNKNOWN_TOTALS.counts()}
    return StepTotals(**counts, cost=dollars(said.get("cost")))


def totals_of_calls(calls: Sequence[CallData]) -> StepTotals:
    """Return the sums over calls; tokens are unknown if those of one call are."""
    known = [call.usage for call in calls if call.usage is not None]
    found = StepTotals(len(calls), cost=total(call.cost for call in calls))
    if len(known) < len(calls):
        return found
    names = ("prompt_tokens", "cached_tokens", "completion_tokens")
    return replace(
        found, **{name: sum(getattr(used, name) for used in known) for name in names}
    )


@dataclass(frozen=True)
class AttemptData:
    """One attempt of any harness."""

    attempt: int
    try_: int  # its number among the attempts of its model, from 1
    model: str
    edit_format: str | None  # None without a trajectory, as ``calls`` is empty
    status: str  # a value of ``AttemptStatus``; in the older layout derived from the outcomes
    edit: bool | None
    lint: bool | None
    test: bool | None
    reflections: int | None
    calls: tuple[CallData, ...]
    cost: Decimal | None
    seconds: float | None
    patch: str  # the raw patch, with edits to tests
    submittable_patch: str
    added_files: tuple[str, ...]
    edited_files: tuple[str, ...]
    dropped_files: tuple[str, ...]
    error: str
    # On ``submittable_patch``, if it is not predicted and was evaluated as well.
    verdict: Verdict | None = None
    edits_test_configuration: bool = False
    # Stand for ``calls`` in attempts of other harnesses; without dollars.
    totals: StepTotals | None = None
    patch_known: bool = True
    # False in attempts of other harnesses, of which none is known as plausible.
    outcomes_known: bool = True

    @property
    def called(self) -> str:
        """The name of the model alone, as in ledger and journal."""
        return self.model.removesuffix(f"@{self.edit_format}")

    @property
    def candidate(self) -> Attempt:
        """The attempt as the harness ranks it."""
        return Attempt(
            attempt=self.attempt,
            model_patch=self.submittable_patch,
            imported=True,
            edit_outcome=self.edit,
            lint_outcome=self.lint,
            test_outcome=self.test,
            status=self.status,
            edits_test_configuration=self.edits_test_configuration,
        )

    @property
    def plausible(self) -> bool:
        return self.status in PLAUSIBLE

    @property
    def sums(self) -> StepTotals:
        """The totals of all calls, with the dollars of the attempt."""
        if self.totals is not None:
            return replace(self.totals, cost=self.cost)
        known = (
            UNKNOWN_TOTALS if self.edit_format is None else totals_of_calls(self.calls)
        )
        return replace(known, cost=self.cost)


def attempts_of(
    results: Sequence[Mapping[str, Any]], trajectory: Mapping[str, Any]
) -> tuple[AttemptData, ...]:
    """Return attempts by number; the trajectory adds what the prediction's ``results`` lack."""
    by_number = {result["attempt"]: result for result in results}
    for entry in objects(trajectory.get("attempts")):
        if attempt := whole(entry.get("attempt")):
            # The prediction names the model; a recording may use an alias of it.
            known = {**mapping(entry.get("recorded")), **entry}
            by_number[attempt] = {**known, **by_number.get(attempt, {})}
    return tuple(_attempt(attempt, by_number[attempt]) for attempt in sorted(by_number))


def _labelled(data: Mapping[str, Any], name: str = "model") -> str:
    """Return the model of ``data``, with the agent that called it: several may share one model."""
    model, agent = text(data.get(name)), text(data.get("edit_format"))
    return f"{model}@{agent}" if model and named_agent(agent) else model


def _attempt(attempt: int, data: Mapping[str, Any]) -> AttemptData:
    patch = writable(data.get("model_patch"))
    fit = predicted_patch({**data, "model_patch": patch})
    edit, lint, test = (
        flag(data.get(f"{name}_outcome")) for name in ("edit", "lint", "test")
    )
    derived = status_by(
        Attempt(
            model_patch=patch, edit_outcome=edit, lint_outcome=lint, test_outcome=test
        )
    )
    return AttemptData(
        attempt=attempt,
        try_=whole(data.get("try")) or 1,
        model=_labelled(data),
        edit_format=text(data.get("edit_format")) or None,
        status=text(data.get("status")) or str(derived),
        edit=edit,
        lint=lint,
        test=test,
        reflections=whole(data.get("reflections")),
        calls=tuple(_calls(data)),
        cost=dollars(data.get("cost")),
        seconds=number(data.get("seconds")),
        patch=patch,
        submittable_patch=fit.patch,
        added_files=texts(data.get("added_files")),
        edited_files=texts(data.get("edited_files")) or patch_paths(patch),
        dropped_files=texts(data.get("dropped_files")) or fit.dropped,
        error=text(data.get("error")),
        edits_test_configuration=data.get("edits_test_configuration") is True,
        # Those of another harness are all unknown without a trajectory.
        totals=totals_of(data.get("totals")) if data.get(IMPORTED) is True else None,
        patch_known=data.get("patch_known") is not False,
        outcomes_known=data.get("outcomes_known") is not False,
    )


def _calls(attempt: Mapping[str, Any]) -> Iterator[CallData]:
    for call in objects(attempt.get("calls")):
        yield CallData(
            usage=usage(call.get("usage")),
            cost=dollars(call.get("cost")),
            seconds=number(call.get("seconds")) or 0.0,
            model=text(call.get("model")),
        )


def map_files(trajectory: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the files of all repository maps that models were shown; None if unknown.

    The first user message holds the map before the issue. Each file begins a line and ends with a
    colon (``agent.repomap.build``).
    """
    found: dict[str, None] | None = None
    for attempt in objects(trajectory.get("attempts")):
        asked = (m for m in objects(attempt.get("messages")) if m.get("role") == "user")
        if opening := next(asked, None):
            lines = (
                text(opening.get("content")).partition("\n<issue>\n")[0].splitlines()
            )
            headings = (
                x[:-1] for x in lines if x.endswith(":") and not x.startswith(" ")
            )
            found = (found or {}) | dict.fromkeys(headings)
    return None if found is None else tuple(found)


@dataclass(frozen=True)
class InstanceData:
    """One predicted instance."""

    instance_id: str
    repo: str
    year: int | None  # of the pull request
    status: str  # a value of ``InstanceStatus``
    reason: str
    plausible: bool | None  # None in runs of other harnesses, which do not say
    # The number of the attempt that the prediction file names, with or without a patch.
    attempt: int
    winner: int | None  # the same number; None if the patch is empty
    model: str | None
    patch: str
    raw_patch: str  # ``patch`` with excluded files, such as edits to tests
    attempts: tuple[AttemptData, ...]
    verdict: Verdict | None
    resolved: bool | None  # None if it was not evaluated; False for an empty patch
    cost: Decimal | None  # dollars of all attempts
    gold_files: tuple[str, ...] | None
    # Files in the repository maps that models were shown; None if unknown.
    map_files: tuple[str, ...] | None = None
    image: str = ""  # for its tests, even if none ran in it
    origin: str = ""  # in a combined run, the run that it comes from; else empty
    edits_test_configuration: bool = False
    test_note: str = ""
    patch_known: bool = True  # False if the files of another harness hold no patch
    evidence: Evidence | None = None
    writers: tuple[CallData, ...] = ()  # calls for scripts; in 0.12 for summaries too

    @property
    def may_resolve(self) -> bool:
        return bool(self.patch.strip()) or not self.patch_known

    @property
    def chosen(self) -> AttemptData | None:
        """The attempt that the prediction file names; None if no file describes it."""
        return next((a for a in self.attempts if a.attempt == self.attempt), None)

    def resolved_by(self, attempt: AttemptData) -> bool | None:
        """Return whether one of its attempts resolves it; None without a verdict.

        If the verdict on the prediction is official, unofficial ones on attempts do not count.
        """
        if not attempt.patch_known:
            return self.resolved if attempt is self.chosen else None
        if not attempt.submittable_patch.strip():
            return False
        if attempt.submittable_patch == self.patch:
            return self.resolved
        official = self.verdict is not None and self.verdict.official
        if attempt.verdict is None or (official and not attempt.verdict.official):
            return None
        return resolved_of(attempt.verdict)


def resolved_of(verdict: Verdict | None) -> bool | None:
    """Return what ``verdict`` says; None if there is none or nothing was evaluated."""
    if verdict is None or verdict.status is VerdictStatus.NOT_EVALUATED:
        return None
    return verdict.status is VerdictStatus.RESOLVED


@dataclass(frozen=True)
class RunData:
    """A run."""

    name: str
    folder: Path
    model_name_or_path: str
    described: Mapping[str, Any]  # ``run.json``; empty if there is none
    instances: tuple[InstanceData, ...]
    selected: tuple[str, ...]
    models: tuple[str, ...]  # in the order of their turns; empty if unknown
    unfinished: tuple[
        InstanceEntry, ...
    ] = ()  # instances that were started and have no prediction
    # Every call that cost something; empty for runs without a ledger.
    ledger: tuple[LedgerLine, ...] = field(default=(), repr=False)
    damaged: tuple[DamagedLine, ...] = ()  # lines of the ledger that could not be read

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
        if self.ledger:
            return known_sum(line.cost for line in self.ledger)
        return known_sum(instance.cost for instance in self.instances)


def evaluated(instances: Sequence[InstanceData]) -> bool:
    """Return whether a patch of ``instances`` has a verdict, or none of them has a patch."""
    patched = [i for i in instances if i.may_resolve]
    return bool(instances) and (
        not patched or any(i.resolved is not None for i in patched)
    )


def read_run(store: RunStore, rows: Iterable[Row] = ()) -> RunData:
    """Read a run; rows of its dataset add repositories, years and gold files."""
    predictions = read_predictions(store)
    written = map(store.raw_prediction, store.prediction_paths())
    contents = {str(content["instance_id"]): content for content in written}
    described = store.raw_run()
    label = predictions[0].model_name_or_path
    models = turn_order(described, (label, store.run), contents.values())
    ledger = read_ledger(store.ledger)
    grouped: dict[str, list[LedgerLine]] = {}
    for line in ledger.whole:
        grouped.setdefault(line.instance_id, []).append(line)
    by_id = {instance_id_of(row): row for row in rows}
    instances = []
    for prediction in predictions:
        name, content = prediction.instance_id, contents[prediction.instance_id]
        filled, row = fill_turns(content, models), by_id.get(name, {})
        found = _instance(store, prediction, content, filled, row)
        if own := grouped.get(name):
            found = replace(found, cost=ledger_total(own))
        instances.append(found)
    asked = texts(described.get("selected"))
    configured = objects(mapping(described.get("config")).get("models"))
    if any(named_agent(text(model.get("edit_format"))) for model in configured):
        models = tuple(dict.fromkeys(_labelled(model, "name") for model in configured))
    return RunData(
        name=store.run,
        folder=store.folder,
        model_name_or_path=label,
        described=described,
        instances=tuple(instances),
        selected=tuple(sorted({*asked, *(p.instance_id for p in predictions)})),
        models=models,
        unfinished=overview(store, by_instance(ledger.whole)).unfinished,
        ledger=ledger.whole,
        damaged=ledger.damaged,
    )


def _instance(
    store: RunStore,
    prediction: Prediction,
    content: Mapping[str, Any],
    filled: tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]],
    row: Row,
) -> InstanceData:
    name = prediction.instance_id
    chosen, results = filled
    trajectory = store.raw_trajectory(name)
    verdict = known_verdict(store, prediction)
    if verdict is None and not prediction.patch.strip() and prediction.patch_known:
        verdict = presumed(prediction)
    if not results and not trajectory:
        results = [
            {key: chosen[key] for key in chosen if key not in ("status", "reason")}
        ]
    attempts = []
    for attempt in attempts_of(results, trajectory):
        patch = attempt.submittable_patch
        if patch.strip() and patch != prediction.patch:
            other = other_patch(name, prediction.model_name_or_path, patch)
            attempt = replace(attempt, verdict=known_verdict(store, other))
        attempts.append(attempt)
    saved = read_verdict_file(store.verdict(name)) or NO_VERDICT
    # The image of the dataset, of the verdict or of swebench.
    image = text(row.get("image")) or saved.image.partition("@")[0]
    if row and not image:
        with suppress(UserError):
            image = split_row(row)[0].shown_image
    year = re.match(r"\d{4}", text(row.get("created_at")) or saved.created_at)
    gold_files = saved.gold_files or texts(content.get("gold_files")) or None
    raw_patch = text(content.get("model_patch"))
    return InstanceData(
        instance_id=name,
        repo=text(row.get("repo")) or saved.repo or repository_of(name),
        year=int(year[0]) if year else None,
        status=str(InstanceResult.of_prediction(content).status),
        reason=text(content.get("reason")),
        plausible=None
        if content.get("outcomes_known") is False
        else prediction.plausible,
        attempt=chosen["attempt"],
        winner=chosen["attempt"] if raw_patch.strip() else None,
        model=next((a.model for a in attempts if a.attempt == chosen["attempt"]), None)
        or chosen["model"]
        or None,
        patch=prediction.patch,
        raw_patch=raw_patch,
        attempts=tuple(attempts),
        verdict=verdict,
        resolved=resolved_of(verdict),
        cost=dollars(content.get("cost")),
        gold_files=patch_paths(text(row["patch"])) if row.get("patch") else gold_files,
        map_files=map_files(trajectory),
        image=image or derived_image(name),
        origin=text(mapping(content.get("origin")).get("run")),
        edits_test_configuration=prediction.edits_test_configuration,
        test_note=text(content.get("test_note")),
        patch_known=prediction.patch_known,
        evidence=_evidence(content),
        writers=tuple(c for w in objects(trajectory.get("writers")) for c in _calls(w)),
    )


def _evidence(content: Mapping[str, Any]) -> Evidence | None:
    try:
        return evidence_of(content)
    except ValueError:  # of another harness, or damaged: ``--verify`` says so
        return None


def repository_of(instance_id: str) -> str:
    """Return the repository in an id: ``owner/name`` for ``owner__name-123``."""
    return instance_id.rpartition("-")[0].replace("__", "/", 1) or instance_id


def rounds(run: RunData) -> tuple[tuple[Prediction, ...], ...]:
    """Return other attempts' patches; evaluators take one per instance at a time."""
    label = run.model_name_or_path
    columns = [
        [
            other_patch(instance.instance_id, label, patch)
            for patch in dict.fromkeys(a.submittable_patch for a in instance.attempts)
            if patch.strip() and patch != instance.patch
        ]
        for instance in run.instances
    ]
    return tuple(tuple(filter(None, found)) for found in zip_longest(*columns))
