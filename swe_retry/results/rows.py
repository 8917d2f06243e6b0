"""The rows of a run for programs: its instances, attempts and calls as plain values, and as CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields, replace
from decimal import Decimal
from io import StringIO
from pathlib import Path

from swe_retry.core.money import as_number
from swe_retry.core.plaintext import visible
from swe_retry.llm.chat import Usage
from swe_retry.record.records import Attempt
from swe_retry.results.rundata import InstanceData, RunData
from swe_retry.runner.calls.ledger import LedgerLine, by_instance, replayed_lines

# Beginnings by which spreadsheets take a text for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


@dataclass(frozen=True)
class InstanceRecord:
    """A selected instance; None is unknown, or absent where nothing was predicted.

    Attributes:
        status: None where it was not started.
        attempts: that were made.
        attempt: the number of the one that is predicted.
        model: of that attempt, with its coding agent.
        resolved: the evaluator's verdict.
        evaluator: that came to the verdict.
        cost_usd: dollars that are known to be due.
    """

    run: str
    instance_id: str
    repo: str | None = None
    status: str | None = None
    reason: str | None = None
    attempts: int = 0
    attempt: int | None = None
    model: str | None = None
    plausible: bool | None = None
    resolved: bool | None = None
    evaluator: str | None = None
    cost_usd: float | None = 0.0


@dataclass(frozen=True)
class AttemptRecord:
    """An attempt at a predicted instance; None is unknown.

    Attributes:
        attempt: from 1 over the instance.
        model: with its coding agent.
        edit_format: or the name of the coding agent.
        chosen: whether its patch is predicted.
        resolved: the evaluator's verdict on its patch.
        edited_files: how many its patch changes.
        seconds: wall-clock time.
    """

    run: str
    instance_id: str
    attempt: int
    model: str | None
    edit_format: str | None
    temperature: float | None
    status: str | None
    edit_outcome: bool | None
    lint_outcome: bool | None
    test_outcome: bool | None
    plausible: bool | None
    chosen: bool
    resolved: bool | None
    edited_files: int | None
    reflections: int | None
    calls: int | None
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    cost_usd: float | None
    seconds: float | None
    error: str | None


@dataclass(frozen=True)
class CallRecord:
    """A billed call of a model; None is unknown.

    Attributes:
        attempt: 0 or less for a call of a writer of scripts.
        kind: ``answered``, ``refused``, ``failed``, ``lost``, or ``replayed`` from a recording.
        cost_usd: dollars that are known to be due; of a recorded reply, what it once cost.
        cost_at_most_usd: with what the provider may have billed.
    """

    run: str
    instance_id: str
    attempt: int
    model: str
    kind: str
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    cost_usd: float | None
    cost_at_most_usd: float | None
    error: str | None


AnyRecord = InstanceRecord | AttemptRecord | CallRecord
_CLASSES: dict[str, type[AnyRecord]] = {
    "instances": InstanceRecord,
    "attempts": AttemptRecord,
    "calls": CallRecord,
}


@dataclass(frozen=True)
class RunRecords:
    """What is known of a run, in rows that ``pandas.DataFrame`` takes.

    Attributes:
        models: in the order of their turns, with their coding agents.
        instances: all that were selected, by id.
        attempts: at the predicted instances, in their order.
        calls: the lines of the ledger; of a run without one, what its trajectories say.
    """

    name: str
    folder: Path
    models: tuple[str, ...]
    instances: tuple[InstanceRecord, ...]
    attempts: tuple[AttemptRecord, ...]
    calls: tuple[CallRecord, ...]


def records_of(run: RunData) -> RunRecords:
    """Return the rows of a run."""
    attempts = []
    for instance in run.instances:
        for attempt in instance.attempts:
            attempts.append(_attempt_record(run.name, instance, attempt))
    calls = run.ledger or tuple(_recorded_calls(run))
    return RunRecords(
        name=run.name,
        folder=run.folder,
        models=run.models,
        instances=_instance_records(run),
        attempts=tuple(attempts),
        calls=tuple(_call_record(run.name, call) for call in calls),
    )


def _instance_records(run: RunData) -> tuple[InstanceRecord, ...]:
    records = {}
    for name in run.selected:
        records[name] = InstanceRecord(run.name, name)
    spent = by_instance(run.ledger)
    for entry in run.unfinished:
        records[entry.instance_id] = InstanceRecord(
            run=run.name,
            instance_id=entry.instance_id,
            status=str(entry.status),
            reason=entry.reason or None,
            attempts=len(entry.attempts),
            cost_usd=as_number(spent.get(entry.instance_id, Decimal())),
        )
    for instance in run.instances:
        winner = instance.winner
        verdict = instance.verdict
        is_evaluated = verdict is not None and verdict.conclusive
        records[instance.instance_id] = InstanceRecord(
            run=run.name,
            instance_id=instance.instance_id,
            repo=instance.repo or None,
            status=str(instance.status),
            reason=instance.reason or None,
            attempts=len(instance.attempts),
            attempt=winner.attempt if winner else None,
            model=instance.model or None,
            plausible=instance.plausible,
            resolved=instance.resolved,
            evaluator=verdict.evaluator if verdict and is_evaluated else None,
            cost_usd=as_number(instance.cost),
        )
    return tuple(records[name] for name in sorted(records))


def _attempt_record(
    run: str, instance: InstanceData, attempt: Attempt
) -> AttemptRecord:
    sums = attempt.sums
    return AttemptRecord(
        run=run,
        instance_id=instance.instance_id,
        attempt=attempt.attempt,
        model=attempt.label or None,
        edit_format=attempt.edit_format or None,
        temperature=attempt.temperature,
        status=str(attempt.status) or None,
        edit_outcome=attempt.edit_outcome,
        lint_outcome=attempt.lint_outcome,
        test_outcome=attempt.test_outcome,
        plausible=attempt.plausible if attempt.outcomes_known else None,
        chosen=attempt is instance.winner,
        resolved=instance.resolved_by(attempt),
        edited_files=len(attempt.changed_files) if attempt.patch_known else None,
        reflections=attempt.reflections,
        calls=sums.calls,
        prompt_tokens=sums.prompt_tokens,
        completion_tokens=sums.completion_tokens,
        cached_tokens=sums.cached_tokens,
        cost_usd=as_number(sums.cost),
        seconds=attempt.seconds,
        error=attempt.error or None,
    )


def _recorded_calls(run: RunData) -> Iterator[LedgerLine]:
    """Yield the calls of a run without a ledger as lines of one."""
    for instance in run.instances:
        name = instance.instance_id
        for attempt in (*instance.attempts, *instance.writers):
            calls = attempt.calls or ()
            for line in replayed_lines(name, attempt.attempt, attempt.model, calls):
                yield replace(line, kind="answered")


def _call_record(run: str, line: LedgerLine) -> CallRecord:
    usage = line.usage or Usage()
    return CallRecord(
        run=run,
        instance_id=line.instance_id,
        attempt=line.attempt,
        model=line.model,
        kind=line.kind,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cached_tokens=usage.cached_tokens,
        cost_usd=as_number(line.paid),
        cost_at_most_usd=as_number(line.cost_at_most),
        error=line.error or None,
    )


def csv_text(run: RunRecords, kind: str, *, headed: bool = True) -> str:
    """Return the instances, attempts or calls of a run as CSV, with texts in quotes."""
    stream = StringIO()
    writer = csv.writer(stream, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    if headed:
        writer.writerow(field.name for field in fields(_CLASSES[kind]))
    for row in getattr(run, kind):
        writer.writerow(map(_cell, astuple(row)))
    return stream.getvalue()


def _cell(value: object) -> object:
    """Return a cell; a text that a spreadsheet would compute begins with an apostrophe."""
    if not isinstance(value, str):
        return value
    text = visible(value)
    if text.startswith(_FORMULA):
        return f"'{text}"
    return text
