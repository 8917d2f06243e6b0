"""A run that is started as ``harness.py`` starts it, with a configuration that a test made."""

from __future__ import annotations

from swe_retry.attempts.config import RunConfig
from swe_retry.attempts.options import Options
from swe_retry.cli.forecast import forecast_run
from swe_retry.cli.start import check_run
from swe_retry.core.plaintext import Say
from swe_retry.runner.session import start_run


def run_command(config: RunConfig, options: Options, say: Say) -> int:
    benchmark = check_run(config, options, say)
    if options.dry_run:
        return forecast_run(benchmark)
    return start_run(benchmark)
