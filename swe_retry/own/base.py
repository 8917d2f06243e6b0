"""The base commit of one's own repository, before a model is called: its set-up and its tests."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from swe_retry.attempts.benchmark import make_mirrors
from swe_retry.attempts.config import RunConfig
from swe_retry.attempts.prepare import start_tests
from swe_retry.core.plaintext import Say, one_line, visible
from swe_retry.environments.base import (
    Session,
    UnavailableError,
    run_once,
)
from swe_retry.environments.choice import make_environment
from swe_retry.instances.instance import Instance
from swe_retry.own.result import (
    Before,
    failure_cause,
)
from swe_retry.record.store import RunStore
from swe_retry.repositories.checkout import make_checkout
from swe_retry.runner.leftovers import marked_children, run_key
from swe_retry.runner.progress.state import duration
from swe_retry.runner.session import Once
from swe_retry.testing.project import snapshot_of

# In the terminal.
_MAX_LINES = 12


def measure_base(
    config: RunConfig, instance: Instance, note: Say, *, checks: bool = False
) -> Before:
    """Set the repository up, run all tests at the base commit, and return their results.

    With ``checks`` all output is shown; without, the end of what says why no test passes.
    """
    if not config.runs_tests:
        return Before("tests are not run (tests.which=none or --environment none)")
    cache = config.cache
    key = run_key(RunStore(config.out, config.run_name).folder)
    with tempfile.TemporaryDirectory() as folder, marked_children(key):
        try:
            mirrors = make_mirrors(config)
            snapshot = snapshot_of(instance, mirrors, cache / "snapshots")
            base = make_checkout(snapshot, Path(folder) / "base")
            environment = make_environment(
                config.environment,
                cache,
                Once(note),
                key,
                limits=config.settings.tests.limits,
            )
            with timed_step("setting up the repository at its base commit", note):
                tests = start_tests(config, instance, mirrors, environment, base)
        except UnavailableError as error:
            return Before(str(error))
        finally:
            if checks:
                _show_setup(cache / "environments", instance.tested_as, note)
        try:
            if not config.full_suite:
                return Before()
            seconds = config.settings.tests.timeout
            command = tests.session.test_command
            with timed_step("running all tests at the base commit", note):
                baseline = tests.baseline()
            before = Before.of(baseline, command, seconds)
            lines = _MAX_LINES
            if checks:
                lines = 0
            if checks or before.untested:
                cause = _show_output(tests.session, command, seconds, note, lines)
            if before.untested:
                untested = f"{before.untested}: {cause}"
                before = replace(before, untested=untested)
            return before
        finally:
            tests.session.stop()


@contextmanager
def timed_step(text: str, note: Say, every: float = 15.0) -> Iterator[None]:
    """Say what is done meanwhile and how long it takes, every so many seconds and at its end."""
    started = time.monotonic()
    ended = threading.Event()

    def show(word: str) -> None:
        note(f"{text}: {word} {duration(time.monotonic() - started)}")

    def keep_showing() -> None:
        while not ended.wait(every):
            show("at work for")

    thread = threading.Thread(target=keep_showing, daemon=True)
    note(f"{text} …")
    thread.start()
    try:
        yield
    except KeyboardInterrupt:
        note("stopping; no model was called, and the same command starts again")
        raise
    finally:
        ended.set()
        thread.join()
    show("done in")


def _show_setup(environments: Path, key: str, note: Say) -> None:
    """Show what the set-up printed when the environment was made."""
    for folder in (environments, environments / "open"):
        log = folder / "logs" / f"{key}.log"
        if log.is_file():
            note(visible(log.read_text("utf-8", "replace")))


def _show_output(
    session: Session,
    command: str,
    seconds: float,
    note: Say,
    lines: int,
) -> str:
    """Run the tests again, show the last ``lines`` of their output, and return the cause."""
    result = run_once(session, {}, command, seconds)
    for line in result.output.strip().splitlines()[-lines:]:
        note(f"  | {one_line(line)}")
    return failure_cause(result.output)
