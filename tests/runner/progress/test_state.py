"""What the progress state makes of the workers' events, by a clock that the tests turn."""

from __future__ import annotations

from decimal import Decimal

import pytest

from swe_retry.core.plaintext import abbreviate, one_line
from swe_retry.runner.progress.state import (
    ProgressState,
    WorkStep,
    duration,
    headline,
    running_lines,
)
from tests.support.runner import in_threads
from tests.support.runs import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


ENDS = ("done", "failed", "budget", "error", "infra_error", "interrupted")


def test_instances_are_counted_by_what_became_of_them(clock: Clock) -> None:
    progress = ProgressState(9, clock)
    for number, status in enumerate(ENDS):
        progress.note_start(str(number))
        done = min(number + 1, len(ENDS) - 1)
        assert progress.note_end(str(number), status) == done
    seen = progress.snapshot(None)
    # What was interrupted is not done: it goes on.
    assert seen.done == len(ENDS) - 1
    assert seen.succeeded == 1
    assert seen.failed == 2
    assert seen.running == ()


def test_running_ones_are_sorted_by_how_long_they_run(clock: Clock) -> None:
    progress = ProgressState(9, clock)
    progress.note_start("late-z")
    clock.now += 61
    progress.note_start("early-a")
    progress.step("late-z", 2, "gpt-4o", WorkStep.TESTING)
    clock.now += 4
    assert running_lines(progress.snapshot(None), 24, 80) == [
        "  late-z  attempt 2  gpt-4o  testing  1:05",
        "  early-a  waiting for a processor  0:04",
    ]


def test_what_arrives_of_an_answer_is_shown_with_its_speed(clock: Clock) -> None:
    progress = ProgressState(1, clock)
    progress.note_start("a")
    progress.step("a", 1, "qwen", WorkStep.ASKING)
    clock.now += 100
    progress.note_tokens("a", 2)
    clock.now += 20
    progress.note_tokens("a", 102)
    progress.note_tokens("unknown", 1)
    (line,) = running_lines(progress.snapshot(None), 24, 80)
    assert line == "  a  attempt 1  qwen  asking  2:00  102 tokens, 5.0/s"
    # Another answer, and the time between two.
    progress.note_tokens("a", 4)
    clock.now += 2
    progress.note_tokens("a", 5)
    (line,) = running_lines(progress.snapshot(None), 24, 80)
    assert line.endswith("5 tokens, 0.5/s")
    progress.note_tokens("a", 0)
    (line,) = running_lines(progress.snapshot(None), 24, 80)
    assert line.endswith("2:02")


@pytest.mark.parametrize("rows", [2, 3, 4, 24])
def test_the_last_line_is_the_last_failure_until_an_answer(
    clock: Clock, rows: int
) -> None:
    progress = ProgressState(9, clock)
    for name in "abcdef":
        progress.note_start(name)
    progress.note_retry("a: gpt-4o: no answer within 300 s")
    progress.note_retry("b: gpt-4o: Loading\nmodel")
    lines = running_lines(progress.snapshot(None), rows, 80)
    assert len(lines) == min(rows - 2, 7)
    assert lines[-1:] == ["  b: gpt-4o: Loading model"][: rows - 2]
    progress.note_call()
    lines = running_lines(progress.snapshot(None), rows, 80)
    assert not any("Loading" in line for line in lines)


def test_a_step_that_comes_too_late_leaves_no_ghost(clock: Clock) -> None:
    progress = ProgressState(2, clock)
    progress.note_start("a")
    progress.note_end("a", "failed")
    progress.step("a", 1, "m", WorkStep.EDITING)
    assert progress.snapshot(None).running == ()


def test_dollars_are_projected_from_what_is_done(clock: Clock) -> None:
    progress = ProgressState(300, clock)
    spent = Decimal("0.1")
    assert progress.snapshot(spent).projected is None
    progress.note_end("a", "done")
    progress.note_end("b", "failed")
    assert progress.snapshot(spent).projected == 15
    assert progress.snapshot(None).projected is None


def test_a_continued_run_goes_on_from_what_is_done(clock: Clock) -> None:
    progress = ProgressState(8, clock)
    earlier = {str(number): "done" for number in range(11)}
    earlier["11"] = "failed"
    progress.note_earlier(earlier)
    seen = progress.snapshot(Decimal("4.51"))
    assert headline(seen) == (
        "12/20 done, 11 done, 0 failed, $4.51 of ~$7.52, 0 calls/min"
    )
    assert progress.note_end("12", "done") == 13


def test_a_run_that_stops_says_for_what_it_waits(clock: Clock) -> None:
    progress = ProgressState(3, clock)
    assert progress.describe_steps() == ""
    for name in "abc":
        progress.note_start(name)
    progress.step("a", 1, "m", WorkStep.ASKING)
    progress.step("b", 1, "m", WorkStep.ASKING)
    progress.step("c", 2, "m", WorkStep.TESTING)
    assert progress.describe_steps() == "2 asking, 1 testing"
    assert not headline(progress.snapshot(None)).startswith("stopping")
    progress.stopping = lambda: "SIGINT was received"
    assert headline(progress.snapshot(None)).startswith("stopping, 0/3 done, ")


def test_calls_are_those_of_the_last_minute(clock: Clock) -> None:
    progress = ProgressState(1, clock)
    progress.note_call()
    clock.now += 30
    progress.note_call()
    progress.note_call()
    assert progress.snapshot(None).calls_per_minute == 3
    clock.now += 31
    assert progress.snapshot(None).calls_per_minute == 2
    clock.now += 60
    assert progress.snapshot(None).calls_per_minute == 0


def test_time_left_is_shared_by_those_that_run_side_by_side(clock: Clock) -> None:
    progress = ProgressState(12, clock)
    for name in "abcd":
        progress.note_start(name)
    assert progress.snapshot(None).seconds_left is None
    clock.now += 100
    for name in "abcd":
        progress.note_end(name, "failed")
    for name in "efgh":
        progress.note_start(name)
    clock.now += 40
    # Four are 60 s from their end, four take 100 s each, side by side.
    seconds_left = (4 * 60 + 4 * 100) / 4
    assert progress.snapshot(None).seconds_left == pytest.approx(seconds_left)
    for name in "efgh":
        progress.note_end(name, "failed")
    for name in "ijk":
        progress.note_start(name)
    progress.note_end("i", "failed")
    progress.note_end("j", "failed")
    progress.note_end("l", "failed")
    # Nobody shares the last one.
    mean = (4 * 100 + 4 * 40) / 10
    assert progress.snapshot(None).seconds_left == pytest.approx(mean)
    clock.now += mean
    progress.note_end("m", "failed")
    assert progress.snapshot(None).seconds_left is None


def test_the_headline_says_what_is_unknown(clock: Clock) -> None:
    progress = ProgressState(300, clock)
    assert headline(progress.snapshot(None)) == (
        "0/300 done, 0 done, 0 failed, cost unknown, 0 calls/min"
    )
    progress.note_start("a")
    clock.now += 20
    progress.note_call()
    spent = Decimal("1.5")
    assert "$1.50, " in headline(progress.snapshot(spent))
    progress.note_end("a", "done")
    assert headline(progress.snapshot(spent)) == (
        "1/300 done, 1 done, 0 failed, $1.50 of ~$450.00, 1:39:40 left, 1 calls/min"
    )


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 5, 12, 40])
def test_running_lines_fit_the_height(clock: Clock, rows: int) -> None:
    progress = ProgressState(99, clock)
    for number in range(10):
        progress.note_start(f"id-{number}")
    lines = running_lines(progress.snapshot(None), rows, 80)
    room = max(rows - 2, 0)
    assert len(lines) == min(10, room)
    if 0 < len(lines) < 10:
        assert lines[-1] == f"  … and {10 - len(lines) + 1} more"


@pytest.mark.parametrize("columns", [0, 1, 10, 20, 38])
def test_running_lines_fit_the_width_also_of_wide_letters(
    clock: Clock, columns: int
) -> None:
    progress = ProgressState(1, clock)
    progress.note_start("a")
    progress.step("a", 1, "漢字" * 9, WorkStep.ASKING)
    (line,) = running_lines(progress.snapshot(None), 24, columns)
    wide = sum(character in "漢字" for character in line)
    assert len(line) + wide < max(columns, 1)


def test_what_a_terminal_would_obey_is_taken_out() -> None:
    hostile = "a\x1b[31mb\x1b]0;title\x07c\x9b2Jd\x1b(Be\r\nf\x00g\u202eh\ud800i"
    assert one_line(hostile) == "abcde f\\x00g\\u202eh\\ud800i"
    assert one_line("\x1bcj\x1b]8;;x\x1b\\k\u2028l\x1b") == "jk l"
    assert one_line("é 漢字 … ok") == "é 漢字 … ok"
    assert abbreviate("abc def ghi", 6) == "abc d…"
    assert abbreviate("abc", 3) == "abc"


def test_further_lines_come_first_in_half_of_the_room(clock: Clock) -> None:
    progress = ProgressState(9, clock)
    for number in range(9):
        progress.note_start(f"i-{number}")
    further = [f"column\t{number}" for number in range(9)]
    lines = running_lines(progress.snapshot(None), 12, 80, further)
    begins = " ".join(line.split()[0] for line in lines)
    assert begins == f"{'column ' * 5}i-0 i-1 i-2 i-3 …"
    assert lines[0] == "  column 0"
    assert running_lines(progress.snapshot(None), 2, 80, further) == []


@pytest.mark.usefixtures("eager_switches")
def test_a_board_is_safe_among_threads() -> None:
    progress = ProgressState(4000)

    def work(worker: int) -> None:
        for number in range(1000):
            name = f"{worker}-{number}"
            progress.note_start(name)
            progress.step(name, 1, "m", WorkStep.ASKING)
            progress.note_call()
            progress.snapshot(None)
            progress.note_end(name, "failed")

    in_threads(4, work)
    seen = progress.snapshot(None)
    assert seen.done == 4000
    assert seen.running == ()
    assert seen.calls_per_minute > 0


def test_durations_in_words() -> None:
    assert duration(0) == "0:00"
    assert duration(59.9) == "0:59"
    assert duration(60) == "1:00"
    assert duration(3599) == "59:59"
    assert duration(3600) == "1:00:00"
    assert duration(90061) == "25:01:01"
