"""What ``harness.py`` does with one's own repository and issue, and its exit codes."""

from __future__ import annotations

from swe_retry.attempts.config import RunConfig
from swe_retry.cli.forecast import forecast_run
from swe_retry.cli.start import check_run
from swe_retry.core.plaintext import Say, say_aside
from swe_retry.own.result import OwnOutcome
from swe_retry.own.run import OwnRun
from swe_retry.own.solve import announce, solve
from swe_retry.runner.signals import INTERRUPTED

NOTHING_TO_TEST = 3


def run_own(run: OwnRun, config: RunConfig, say: Say) -> int:
    """Measure the base, make the attempts and hand the result over; return the exit code."""
    config = run.configure(config)
    note = say
    if config.prints_json:
        note = say_aside
    announce(run, note, dry_run=config.dry_run)
    benchmark = check_run(config, say)
    if config.dry_run:
        return forecast_run(benchmark)
    result = solve(run, benchmark, note)
    if result is None:
        return INTERRUPTED
    code = int(not result.plausible)
    requires_tests = benchmark.config.requires_tests
    is_untested = result.outcome is OwnOutcome.UNTESTED and requires_tests
    if is_untested or result.outcome is OwnOutcome.NOTHING_TO_TEST:
        code = NOTHING_TO_TEST
    if config.prints_json:
        branch = ""
        if result.patch and (result.plausible or run.project.least_bad):
            branch = run.project.branch
        say(result.as_json(branch, code))
    return code
