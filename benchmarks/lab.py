"""Seconds that the lab takes for 500 instances, against a limit of 30 s.

``python -m benchmarks.lab``.

Replays 500 generated instances of six attempts under 20 policies with 1,000 samples, and prints the
seconds and their ratio to the limit of 30 s.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from random import Random

from swe_retry.record.store import RunStore
from swe_retry.results.read import read_run
from swe_retry.results.rundata import RunData
from swe_retry.results.verdicts import Verdict, VerdictStatus
from swe_retry.study.lab.recorded import lab_data
from swe_retry.study.lab.report import lab_report
from tests.support.rundata import write_generated_run

INSTANCES = 500
ATTEMPTS = 6
SAMPLES = 1000
LIMIT = 30.0
POLICIES = (
    "first", "only-gpt-4o", "only-claude-3-opus", "plausible", "random", "all", "reversed",
    "plausible-2", "plausible-3", "plausible-4", "plausible-5", "plausible-6", "plausible-7",
    "plausible-8", "plausible-9", "budget-0.2", "budget-0.3", "budget-0.6", "total-99", "total-152",
)  # fmt: skip


def main() -> None:
    """Print the seconds to read the run and to replay it."""
    with tempfile.TemporaryDirectory() as folder:
        run = write_generated_run(Path(folder), INSTANCES, ATTEMPTS)
        start = time.perf_counter()
        run_data = _with_verdicts(read_run(RunStore.of_folder(run)))
        data = lab_data([run_data], SAMPLES)
        print(f"reading {time.perf_counter() - start:.1f} s")
    start = time.perf_counter()
    lab_report(data, POLICIES)
    seconds = time.perf_counter() - start
    size = f"{INSTANCES} × {ATTEMPTS} × {len(POLICIES)} × {SAMPLES:,}"
    print(f"{size}: {seconds:.1f} s, {seconds / LIMIT:.2f} of the limit")


def _with_verdicts(run: RunData) -> RunData:
    """Return the run with a verdict on each attempt."""
    dice = Random(1)
    instances = []
    for instance in run.instances:
        verdicts = {}
        for attempt in instance.attempts:
            status = VerdictStatus.UNRESOLVED
            if dice.random() < 0.3:
                status = VerdictStatus.RESOLVED
            verdicts[attempt.attempt] = Verdict(
                instance_id=instance.instance_id, status=status, evaluator="docker"
            )
        instances.append(instance.but(verdicts=verdicts))
    return replace(run, instances=tuple(instances))


if __name__ == "__main__":
    main()
