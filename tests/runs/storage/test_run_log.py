"""What the logs of a run hold, and what they must not."""

from __future__ import annotations

import gc
import logging
import os
import re
from pathlib import Path
from threading import Thread

import pytest

from core.redaction import Redactor
from runs.storage.run_log import instance_log, run_log

SECRET = "sk-0123456789abcdef"
REDACT = Redactor({"MY_API_KEY": SECRET})
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ([A-Z]+) (\S+) (.*)")


def records(path: Path) -> list[tuple[str, str, str]]:
    """Return level, instance and message of each record; every line must belong to one."""
    found: list[tuple[str, str, str]] = []
    for line in path.read_text().splitlines():
        match = LINE.fullmatch(line)
        if match:
            found.append((match[1], match[2], match[3]))
        else:
            assert line.startswith("    "), line
            found[-1] = (*found[-1][:2], f"{found[-1][2]}\n{line[4:]}")
    return found


def test_the_story_holds_the_run_and_its_instances(tmp_path: Path) -> None:
    whole = tmp_path / "predictions/r/harness.log"
    one = tmp_path / "logs/r/a__b-1.log"
    with run_log(whole, REDACT) as log, instance_log(one, "a__b-1", log, REDACT) as its:
        log.info("started with %d", 3)
        its.warning("first\nsecond")
        its.debug("not asked for")
    expected = [("INFO", "-", "started with 3"), ("WARNING", "a__b-1", "first\nsecond")]
    assert records(whole) == expected
    assert re.sub(r"^\S+ ", "", one.read_text()) == "WARNING first\n    second\n"


def test_levels_are_the_runs_for_the_story_and_info_for_instances(
    tmp_path: Path,
) -> None:
    for level, count in ((logging.DEBUG, 2), (logging.ERROR, 0)):
        whole = tmp_path / f"{level}.log"
        one = tmp_path / f"{level}-one.log"
        with (
            run_log(whole, REDACT, level) as log,
            instance_log(one, "i", log, REDACT) as its,
        ):
            its.debug("a")
            its.info("b")
        assert len(records(whole)) == count
        assert len(one.read_text().splitlines()) == 1


def test_a_restart_appends_and_ends_a_line_that_was_broken_off(tmp_path: Path) -> None:
    path = tmp_path / "harness.log"
    with run_log(path, REDACT) as log:
        log.info("first")
    os.truncate(path, path.stat().st_size - 3)
    for word in ("second", "third"):
        with run_log(path, REDACT) as log:
            log.info(word)
    assert [message for _, _, message in records(path)] == ["fir", "second", "third"]


def test_no_message_passes_for_another_record_or_steers_a_terminal(
    tmp_path: Path,
) -> None:
    path = tmp_path / "harness.log"
    forged = "2026-01-01T00:00:00.000Z INFO - all is well"
    with run_log(path, REDACT) as log:
        log.info("a\n%s\r%s\x1b[2J\x85\u2028\udc80 é\tb", forged, forged)
    (record,) = records(path)
    assert record[2] == f"a\n{forged}\\r{forged}\\x1b[2J\\x85\\u2028\\udc80 é\tb"


def test_secrets_reach_neither_log(tmp_path: Path) -> None:
    whole = tmp_path / "harness.log"
    one = tmp_path / "one.log"
    with run_log(whole, REDACT) as log, instance_log(one, "i", log, REDACT) as its:
        try:
            raise ValueError(SECRET)
        except ValueError:
            its.exception("%s", {"key": SECRET}, stack_info=True)
        log.error(SECRET)
    for path, count in ((whole, 3), (one, 2)):
        text = path.read_text()
        assert SECRET not in text
        assert text.count("[MY_API_KEY]") == count


def test_a_log_that_cannot_be_written_shows_nothing_on_the_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full")
    (tmp_path / "harness.log").symlink_to("/dev/full")
    with run_log(tmp_path / "harness.log", REDACT) as log:
        log.info("%s", SECRET)
        log.info("%d", "a wrong argument")
    assert capfd.readouterr() == ("", "")


def test_many_threads_write_whole_records(tmp_path: Path) -> None:
    path = tmp_path / "harness.log"

    def work(name: str) -> None:
        with instance_log(tmp_path / name, name, log, REDACT) as its:
            for number in range(200):
                its.info("%d\n%s", number, "x" * 20_000)

    with run_log(path, REDACT) as log:
        threads = [Thread(target=work, args=(f"i{n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    expected = sorted(
        ("INFO", f"i{n}", f"{i}\n{'x' * 20_000}") for n in range(4) for i in range(200)
    )
    assert sorted(records(path)) == expected


def test_nothing_is_left_of_thousands_of_instances(tmp_path: Path) -> None:
    def loggers() -> int:
        gc.collect()
        # Those of other tests may come and go.
        return sum(
            (isinstance(thing, logging.Logger) and thing.name.startswith("mine-"))
            or (
                isinstance(thing, logging.FileHandler)
                and str(tmp_path) in thing.baseFilename
            )
            for thing in gc.get_objects()
        )

    with run_log(tmp_path / "harness.log", REDACT) as log:
        before = loggers()
        files = _open_files()
        for number in range(2000):
            with instance_log(
                tmp_path / "one.log", f"mine-{number}", log, REDACT
            ) as its:
                its.info("x")
        del its
        assert loggers() == before
        assert _open_files() == files
        assert len(log.handlers) == 1


def _open_files() -> int:
    place = Path("/proc/self/fd")
    if place.is_dir():
        return len(list(place.iterdir()))
    return 0
