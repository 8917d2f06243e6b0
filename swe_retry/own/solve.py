"""The way from one's own repository and issue to a result."""

from __future__ import annotations

from decimal import Decimal

from swe_retry.attempts.benchmark import InstanceBenchmark
from swe_retry.attempts.config import RunConfig, validate_config
from swe_retry.core.plaintext import Say
from swe_retry.own.base import measure_base
from swe_retry.own.folders import hide
from swe_retry.own.result import (
    OwnOutcome,
    OwnResult,
    deliver,
)
from swe_retry.own.run import OwnRun
from swe_retry.runner.session import check_start, start_run
from swe_retry.runner.signals import INTERRUPTED

_MAX_FAILING = 20
"""So many tests are named in the terminal."""


def announce(run: OwnRun, note: Say, *, dry_run: bool = False) -> None:
    """Say what a run works with; refuse what it could not write to, or should not start."""
    run.check_delivery()
    for line in run.describe():
        note(line)
    if not dry_run:
        run.check_trust()


def solve(run: OwnRun, benchmark: InstanceBenchmark, note: Say) -> OwnResult | None:
    """Measure the base, make the attempts and hand the result over; None if interrupted.

    Args:
        run: the repository and the issue.
        benchmark: the run, after all checks without a set-up.
        note: takes each line about the progress.
    """
    check_start(benchmark)
    config = benchmark.config
    store = benchmark.store
    before = measure_base(config, run.instance, note)
    for line in before.lines(_MAX_FAILING):
        note(line)
    if before.untested and config.requires_tests:
        note(
            "no model was called: no test could judge a patch; correct --setup-cmd and "
            "--test-cmd, or give --set tests.required=false"
        )
        return OwnResult(
            repository=run.repository,
            issue=run.issue,
            store=store,
            before=before,
            cost=Decimal(),
            outcome=OwnOutcome.NOTHING_TO_TEST,
            reason=before.untested,
        )
    for folder in (store.folder, store.logs):
        hide(folder)
    if start_run(benchmark) == INTERRUPTED:
        return None
    name = run.instance.instance_id
    result = OwnResult.read(run.repository, run.issue, store, name, before)
    result.write()
    for line in (*result.lines(), *deliver(run.project, result)):
        note(line)
    return result


def check_base(run: OwnRun, config: RunConfig, say: Say) -> bool:
    """Set up and run all tests at the base, show all output; return whether tests could judge."""
    config = validate_config(config)
    for line in run.describe():
        say(line)
    run.check_trust()
    before = measure_base(config, run.instance, say, checks=True)
    for line in before.lines(_MAX_FAILING):
        say(line)
    return not before.untested
