"""Tests in local environments of a data set: the base commit, against both patches.

``python -m benchmarks.environments --dataset FILE --repos MIRRORS --work DIR [REPOSITORY...]``
takes the first row of each (repository, version, spec). It runs the test files that the row's test
patch edits, as they are at the base commit and then with both patches. Neither reaches the harness.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.regression import InstanceTests, TestBench
from swe_retry.core.errors import InfrastructureError
from swe_retry.environments.base import EnvironmentKind, UnavailableError
from swe_retry.instances.instance import Instance
from swe_retry.instances.split import Evaluation, split_row
from swe_retry.record.patches import is_test_path, patch_paths
from swe_retry.report.evaluation.trees import apply_patch
from swe_retry.repositories.mirrors import Mirrors
from swe_retry.testing.testlogs import Results, passing_tests
from swe_retry.testing.testsettings import Tests

_LIMITS = Tests(timeout=900, baseline_timeout=900)


def main(
    repositories: Annotated[list[str] | None, typer.Argument()] = None,
    dataset: Annotated[Path, typer.Option()] = Path("rows.jsonl"),
    repos: Annotated[Path, typer.Option()] = Path("mirrors"),
    work: Annotated[Path, typer.Option()] = Path("environments"),
) -> None:
    """Print one line of a table for each row."""
    work.mkdir(parents=True, exist_ok=True)
    bench = TestBench(Mirrors(repos), work.resolve(), _LIMITS)
    print("| row | version | built | base tests | newly passing with both patches |")
    print("|---|---|---|---|---|", flush=True)
    for row in _first_rows(dataset):
        instance, evaluation = split_row(row)
        name = instance.repo.partition("/")[2]
        if repositories and name not in repositories:
            continue
        if not bench.mirrors.find(instance.repo):
            continue
        started = time.monotonic()
        columns = _measure(bench, instance, evaluation)
        seconds = time.monotonic() - started
        cells = " | ".join([instance.instance_id, instance.version, *columns])
        print(f"| {cells} | <!-- {seconds:.0f} s -->", flush=True)


def _first_rows(dataset: Path) -> Iterator[Mapping[str, Any]]:
    keys = set()
    lines = dataset.read_text(encoding="utf-8").splitlines()
    for line in lines:
        row = json.loads(line)
        columns = [row["repo"], row.get("version"), row.get("spec")]
        key = json.dumps(columns)
        if key not in keys:
            keys.add(key)
            yield row


def _measure(
    bench: TestBench, instance: Instance, evaluation: Evaluation
) -> tuple[str, str, str]:
    patches = [evaluation.patch, evaluation.test_patch]
    try:
        with bench.tests_of(instance, EnvironmentKind.LOCAL) as tests:
            before = _run(tests, evaluation, {})
            with bench.checkout(instance) as checkout:
                for patch in patches:
                    changes = apply_patch(checkout, patch)
                after = _run(tests, evaluation, changes)
    except (UnavailableError, InfrastructureError) as error:
        return f"no: {error}", "", ""
    passing_before = passing_tests(before)
    passing_after = passing_tests(after)
    gained = passing_after - passing_before
    lost = passing_before - passing_after
    counts = f"{len(passing_before)} of {len(before)}"
    return "yes", counts, f"{len(gained)}, {len(lost)} lost"


def _run(
    checks: InstanceTests,
    evaluation: Evaluation,
    changes: Mapping[str, bytes | None],
) -> Results:
    results: dict[str, str] = {}
    tests = checks.tests
    with checks.session.prepare(changes) as prepared:
        for path in patch_paths(evaluation.test_patch):
            if not path.endswith(".py") or not is_test_path(path):
                continue
            if path in changes or path in tests.files:
                _, run = tests.test_files.run(prepared, path, _LIMITS.timeout)
                results.update(run.results)
    return results


if __name__ == "__main__":
    typer.run(main)
