"""A run that is started as ``harness.py`` starts it, with a configuration that a test made."""

from __future__ import annotations

from swe_retry.attempts.config import RunConfig
from swe_retry.cli.forecast import forecast_run
from swe_retry.cli.start import check_run
from swe_retry.core.plaintext import Say
from swe_retry.runner.session import start_run
from tests.support.runs import Start


def run_command(config: RunConfig, start: Start, say: Say) -> int:
    return run_here(start.of(config), say)


def run_here(config: RunConfig, say: Say) -> int:
    benchmark = check_run(config, say)
    if config.dry_run:
        return forecast_run(benchmark)
    return start_run(benchmark)
