"""A demo run with verdicts like swebench's, its report and its package."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.instances.dataset import Dataset
from core.errors import UserError
from reports.cli.options import EvaluatorKind, ReportOptions, SubmissionOptions
from reports.command_line import report_command
from reports.data.predictions import all_preds, read_predictions
from reports.data.rundata import read_run
from reports.pages.markdown import run_tables
from reports.statistics.collect import collect
from reports.statistics.denominators import split_of
from reports.statsfile import stats_json
from reports.submission.artifacts import read_lines
from reports.submission.commands import submission_command
from reports.submission.package import PackageFolder, locate
from reports.submission.readme import by_repo, by_time, lists_of
from reports.submission.validation import read_verdicts
from runs.storage.store import RunStore
from tests.reports.evaluated_run import demo, judge, judge_others, make_run, write_meta

# The computed files of a package; the others are copied or generated text.
_COMPUTED = ("all_preds.jsonl", "patch.diff", "results/*.json", "metadata.yaml")
_PAGES = "report"


@dataclass(frozen=True)
class Made:
    """The paths of everything that was made; ``out`` holds ``predictions/`` and ``logs/``."""

    out: Path
    run: Path
    package: Path
    meta: Path
    cache: Path
    dataset: Dataset

    def run_files(self) -> Iterator[Path]:
        """Yield the run's files without pages and logs, which no program reads."""
        for place in (self.run, self.out / "logs" / self.run.name):
            for path in place.rglob("*"):
                for_people = _PAGES in path.relative_to(place).parts or path.suffix == ".log"
                if path.is_file() and not for_people:
                    yield path

    @property
    def packaging(self) -> SubmissionOptions:
        """The options that the package was made with."""
        return SubmissionOptions("lite", self.meta, dataset="demo", cache=self.cache)


def make(folder: Path, cache: Path | None = None) -> Made:
    """Make everything below ``folder``: six instances, some resolved, all attempts evaluated."""
    cache = cache or folder / "cache"
    dataset = demo()
    run = make_run(folder, cache)
    judge(run, [str(row["instance_id"]) for row in dataset.rows[1:4]])
    judge_others(RunStore.of_folder(run))
    options = ReportOptions(EvaluatorKind.NONE, "", "", 1, 60.0, cache, None)
    report_command([run], options, lambda _: None)
    meta = write_meta(folder / "meta", {})
    made = Made(folder, run, folder / "package", meta, cache, dataset)
    _package(made, made.package)
    return made


def _package(made: Made, folder: Path) -> None:
    said: list[str] = []
    if submission_command([made.run], folder, made.packaging, said.append):
        raise AssertionError(f"the package has faults: {said}")


def derived_of_run(made: Made) -> Mapping[str, Any]:
    """Return everything that is computed from the files of the run."""
    store = RunStore.of_folder(made.run)
    try:
        predictions = read_predictions(store)
        found: dict[str, Any] = {"all_preds": all_preds(predictions)}
        for rows in (made.dataset.rows, ()):
            split = split_of("demo", "test", len(rows))
            stats = collect(read_run(store, rows), split)
            found[f"stats {len(rows)}"] = json.dumps(stats_json(stats))
            found[f"tables {len(rows)}"] = list(run_tables(stats))
        return {**found, **_computed_package(made)}
    except UserError as error:
        return {"error": str(error)}


def _computed_package(made: Made) -> Mapping[str, bytes]:
    with TemporaryDirectory() as place:
        folder = Path(place, "package")
        submission_command([made.run], folder, made.packaging, lambda _: None)
        paths = sorted(path for name in _COMPUTED for path in folder.rglob(name))
        return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def derived_of_package(made: Made) -> Mapping[str, Any]:
    """Return a package's results, computed from its predictions and reports."""
    rows = made.dataset.rows
    ids = [str(row["instance_id"]) for row in rows]
    artifacts = locate(PackageFolder.of(made.package)).artifacts
    if artifacts is None:
        return {}
    lines, _ = read_lines(artifacts)
    verdicts, _ = read_verdicts(artifacts, lines, ids)
    lists = lists_of(ids, [line.instance_id for line in lines if line.generated], verdicts)
    return {
        "lists": lists,
        "repositories": by_repo(rows, lists.resolved),
        "years": by_time(rows, lists.resolved),
        "patches": sorted((line.instance_id, line.model, line.patch) for line in lines),
    }
