"""Runs written from values, and what the commands of ``report.py`` write and print about them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from swe_retry.llm.chat import Message
from swe_retry.record.store import RunStore
from swe_retry.report.compare import compare_command
from swe_retry.report.evaluation.evaluation_settings import ReportFormat
from swe_retry.report.named_runs import stores_of
from swe_retry.report.report import report_command
from swe_retry.results.predictions import Prediction
from swe_retry.results.rundata import InstanceData
from swe_retry.results.verdicts import save_verdict
from swe_retry.runner.calls.ledger import LedgerLine, write_ledger
from tests.support import read_json, write_json
from tests.support.evaluated import report_settings


def write_values(
    folder: Path,
    *instances: InstanceData,
    described: Mapping[str, Any] | None = None,
    ledger: Sequence[LedgerLine] = (),
) -> Path:
    """Write the files of a run that has ``instances``, with their verdicts; return its folder."""
    folder.mkdir(parents=True)
    store = RunStore.of_folder(folder)
    if described is not None:
        write_json(folder / "run.json", described)
    if ledger:
        write_ledger(store.ledger, ledger)
    for instance in instances:
        _write_instance(store, instance.but(model_name_or_path="me"))
    return folder


def _write_instance(store: RunStore, instance: InstanceData) -> None:
    name = instance.instance_id
    attempts = list(instance.attempts)
    if instance.map_files is not None:
        headings = "".join(f"{file}:\n" for file in instance.map_files)
        message = Message("user", f"{headings}<issue>\n")
        attempts[0] = attempts[0].but(messages=(message,))
    trajectory = None
    if any(attempt.edit_format for attempt in attempts):
        trajectory = instance.but(attempts=tuple(attempts)).trajectory()
    store.save_instance(name, instance.prediction(), trajectory, None)
    if instance.verdict:
        verdict = instance.verdict.but(
            instance_id=name,
            gold_files=instance.gold_files,
            repo=instance.repo,
            created_at=f"{instance.year}-01-01" if instance.year else "",
        )
        save_verdict(store, instance.to_evaluate(), verdict, None)
    for attempt in instance.attempts:
        other = instance.verdicts.get(attempt.attempt)
        if other:
            prediction = Prediction(name, "me", attempt.patch, chosen=False)
            save_verdict(store, prediction, other.but(instance_id=name), None)


def report(
    run: Path,
    format: ReportFormat = "text",
    **settings: Any,
) -> list[str]:
    """Report on a run without an evaluation, and return the lines that are printed."""
    lines: list[str] = []
    chosen = report_settings(run.parent / "cache", **settings)
    report_command([run], chosen, lines.append, format=format)
    return lines


def statistics(run: Path, **options: Any) -> dict[str, Any]:
    """Report on a run and return the content of ``stats.json``."""
    report(run, **options)
    stats: dict[str, Any] = read_json(run / "stats.json")
    return stats


def compare(*runs: Path, as_json: bool = False) -> list[str]:
    """Compare runs, and return the lines that are printed; the last one names the page."""
    lines: list[str] = []
    stores = stores_of(runs)
    compare_command(stores, lines.append, lines.append, as_json=as_json)
    return lines


def comparisons(*runs: Path) -> list[dict[str, Any]]:
    """Compare runs and return the comparisons that are printed as JSON."""
    content = json.loads(compare(*runs, as_json=True)[0])
    printed: list[dict[str, Any]] = content["comparisons"]
    return printed


def share(count: int, of: int) -> tuple[int, int, float | None]:
    """Return what ``counts`` returns of a share."""
    return count, of, count / of if of else None


def counts(share: Mapping[str, Any]) -> tuple[int, int, float | None]:
    """Return the part, the whole, and the share of a share in ``stats.json``."""
    return share["count"], share["of"], share["share"]
