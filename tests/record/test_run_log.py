"""What the logs of a run hold, and what they must not."""

from __future__ import annotations

import gc
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from swe_retry.core.redaction import Redactor
from swe_retry.record.run_log import instance_log, run_log
from tests.support.runner import in_threads

SECRET = "sk-0123456789abcdef"
REDACT = Redactor({"MY_API_KEY": SECRET})
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ([A-Z]+) (\S+) (.*)")


def records(path: Path) -> list[tuple[str, str, str]]:
    """Return level, instance and message of each record; every line must belong to one."""
    entries: list[tuple[str, str, str]] = []
    for line in path.read_text().splitlines():
        match = LINE.fullmatch(line)
        if match:
            entries.append((match[1], match[2], match[3]))
        else:
            assert line.startswith("    "), line
            level, instance, message = entries.pop()
            entries.append((level, instance, f"{message}\n{line[4:]}"))
    return entries


@dataclass(frozen=True)
class Logs:
    """The log of a run and that of one of its instances."""

    run: Path
    instance: Path

    @contextmanager
    def open(
        self, name: str = "i", level: int = logging.INFO
    ) -> Iterator[tuple[logging.Logger, logging.Logger]]:
        with (
            run_log(self.run, REDACT, level) as log,
            instance_log(self.instance, name, log, REDACT) as its,
        ):
            yield log, its


def test_the_story_holds_the_run_and_its_instances(tmp_path: Path) -> None:
    logs = Logs(
        run=tmp_path / "predictions/r/harness.log",
        instance=tmp_path / "logs/r/a__b-1.log",
    )
    with logs.open("a__b-1") as (log, its):
        log.info("started with %d", 3)
        its.warning("first\nsecond")
        its.debug("not asked for")
    assert records(logs.run) == [
        ("INFO", "-", "started with 3"),
        ("WARNING", "a__b-1", "first\nsecond"),
    ]
    _, _, text = logs.instance.read_text().partition(" ")
    assert text == "WARNING first\n    second\n"


def test_levels_are_the_runs_for_the_story_and_info_for_instances(
    tmp_path: Path,
) -> None:
    for level, count in {logging.DEBUG: 2, logging.ERROR: 0}.items():
        logs = Logs(tmp_path / f"{level}.log", tmp_path / f"{level}-one.log")
        with logs.open(level=level) as (_, its):
            its.debug("a")
            its.info("b")
        assert len(records(logs.run)) == count
        text = logs.instance.read_text()
        assert len(text.splitlines()) == 1


def test_a_restart_appends_and_ends_a_line_that_was_broken_off(tmp_path: Path) -> None:
    path = tmp_path / "harness.log"
    with run_log(path, REDACT) as log:
        log.info("first")
    os.truncate(path, path.stat().st_size - 3)
    for word in ("second", "third"):
        with run_log(path, REDACT) as log:
            log.info(word)
    messages = [message for _, _, message in records(path)]
    assert messages == ["fir", "second", "third"]


def test_no_message_passes_for_another_record_or_steers_a_terminal(
    tmp_path: Path,
) -> None:
    path = tmp_path / "harness.log"
    forged = "2026-01-01T00:00:00.000Z INFO - all is well"
    with run_log(path, REDACT) as log:
        log.info("a\n%s\r%s\x1b[2J\x85\u2028\udc80 é\tb", forged, forged)
    ((_, _, message),) = records(path)
    assert message == f"a\n{forged}\\r{forged}\\x1b[2J\\x85\\u2028\\udc80 é\tb"


def test_secrets_reach_neither_log(tmp_path: Path) -> None:
    logs = Logs(tmp_path / "harness.log", tmp_path / "one.log")
    with logs.open() as (log, its):
        try:
            raise ValueError(SECRET)
        except ValueError:
            its.exception("%s", {"key": SECRET}, stack_info=True)
        log.error(SECRET)
    for path, count in ((logs.run, 3), (logs.instance, 2)):
        text = path.read_text()
        assert SECRET not in text
        assert text.count("[MY_API_KEY]") == count


def test_a_log_that_cannot_be_written_shows_nothing_on_the_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full")
    path = tmp_path / "harness.log"
    path.symlink_to("/dev/full")
    with run_log(path, REDACT) as log:
        log.info("%s", SECRET)
        log.info("%d", "a wrong argument")
    assert capfd.readouterr() == ("", "")


def test_many_threads_write_whole_records(tmp_path: Path) -> None:
    path = tmp_path / "harness.log"

    def work(worker: int) -> None:
        name = f"i{worker}"
        with instance_log(tmp_path / name, name, log, REDACT) as its:
            for number in range(200):
                its.info("%d\n%s", number, "x" * 20_000)

    with run_log(path, REDACT) as log:
        in_threads(4, work)
    expected = []
    for worker in range(4):
        for number in range(200):
            message = f"{number}\n{'x' * 20_000}"
            expected.append(("INFO", f"i{worker}", message))
    assert sorted(records(path)) == sorted(expected)


def test_nothing_is_left_of_hundreds_of_instances(tmp_path: Path) -> None:
    def loggers() -> int:
        gc.collect()
        # Those of other tests may come and go.
        count = 0
        for thing in gc.get_objects():
            if isinstance(thing, logging.Logger):
                count += thing.name.startswith("mine-")
            if isinstance(thing, logging.FileHandler):
                count += str(tmp_path) in thing.baseFilename
        return count

    with run_log(tmp_path / "harness.log", REDACT) as log:
        before = loggers()
        files = _open_files()
        path = tmp_path / "instance.log"
        for number in range(500):
            with instance_log(path, f"mine-{number}", log, REDACT) as its:
                its.info("x")
        del its
        assert loggers() == before
        assert _open_files() == files
        assert len(log.handlers) == 1


def _open_files() -> int:
    folder = Path("/proc/self/fd")
    if folder.is_dir():
        return len(list(folder.iterdir()))
    return 0
