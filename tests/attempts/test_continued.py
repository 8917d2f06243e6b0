"""An instance that goes on behind the attempts that an earlier start finished."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from swe_retry.record.records import Attempt, AttemptStatus
from swe_retry.record.store import RunStore
from swe_retry.runner.calls.journal import AttemptEntry, Journal, finished_attempts
from tests.support import read_json, wait_until
from tests.support.attempts import make_candidate
from tests.support.commands import Preloaded, Started
from tests.support.provider import Answer, Provider
from tests.support.runner import ID, arguments
from tests.support.runs import EDIT

WRONG = EDIT.replace(
    "        elif letters and letters[-1] != ", "        elif letters == "
)
Start = Callable[[], Started]


@pytest.fixture
def start(
    tmp_path: Path, cache: Path, provider: Provider, preloaded: Preloaded
) -> Start:
    """Start or continue a run of one instance whose tests run."""
    options = (
        f"--models gpt-4o,gpt-4o-mini --tries 2 --environment local --api-base {provider.url} "
        f"--set choice.history=outcomes --set builtin.reflections=1"
    )
    argv = arguments(tmp_path, [ID], options)
    argv += ["--set", f"folders.cache={cache}"]
    return lambda: preloaded.start(*argv)


def openings(requests: Sequence[dict[str, Any]]) -> list[str]:
    """Return the first messages of the attempts that ask for files."""
    texts = []
    for request in requests:
        text = request["messages"][-1]["content"]
        if "Which files must be seen" in text:
            texts.append(text)
    return texts


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "interrupted"])
def test_finished_attempts_are_not_made_again(
    tmp_path: Path, provider: Provider, start: Start, kill: bool
) -> None:
    slow = Answer("textkit/slug.py", hang=3)
    provider.will_answer("textkit/slug.py", WRONG, slow)
    process = start()
    wait_until(lambda: len(openings(provider.requests)) == 2)
    if kill:
        process.kill()
    else:
        process.send_signal(signal.SIGINT)
    process.communicate(timeout=300)
    second_opening = openings(provider.requests)[-1]
    store = RunStore(tmp_path, "r")
    journal = Journal(store.journals / f"{ID}.jsonl")
    (attempt,) = finished_attempts(journal.entries())
    assert attempt.status == AttemptStatus.TESTS_FAILED
    assert attempt.failing

    provider.answers.clear()
    if kill:  # the reply on its way was lost
        provider.will_answer("textkit/slug.py")
    provider.will_answer(EDIT)
    output, _ = start().communicate(timeout=300)
    assert f"{ID}: plausible; attempt 2" in output, output
    trajectory = read_json(store.trajectory(ID))
    numbers = [record["attempt"] for record in trajectory["attempts"]]
    assert numbers == [1, 2]
    # It is the same attempt, and not another with the same replies.
    assert trajectory["attempts"][0]["seconds"] == attempt.seconds
    log = (store.logs / f"{ID}.log").read_text()
    assert log.count("attempt 1 (gpt-4o): tests_failed") == 1
    # What the second is told of the first is derived from the record.
    assert "Tests that newly failed" in second_opening
    assert openings(provider.requests)[-1] == second_opening


def ended_attempt(number: int, status: AttemptStatus) -> Attempt:
    return make_candidate(number, test=False).but(status=status)


FIRST = ended_attempt(1, AttemptStatus.TESTS_FAILED)
FIRST_OVER_BUDGET = ended_attempt(1, AttemptStatus.BUDGET)
FIRST_BROKEN = ended_attempt(1, AttemptStatus.ERROR)
SECOND = ended_attempt(2, AttemptStatus.TESTS_FAILED)
SECOND_OVER_BUDGET = ended_attempt(2, AttemptStatus.BUDGET)
SECOND_TOO_SLOW = ended_attempt(2, AttemptStatus.TIMEOUT)
THIRD = ended_attempt(3, AttemptStatus.TESTS_FAILED)


@pytest.mark.parametrize(
    ("recorded", "numbers"),
    [
        ([], []),
        ([FIRST, SECOND], [1, 2]),
        # A limit that is raised lets the attempt go on, and those after it may be told of it.
        ([FIRST, SECOND_OVER_BUDGET, THIRD], [1]),
        ([FIRST_OVER_BUDGET, SECOND, FIRST], [1]),
        ([FIRST, SECOND, FIRST], [1]),
        ([FIRST_BROKEN, SECOND_TOO_SLOW], [1, 2]),
        ([SECOND], []),
    ],
)
def test_attempts_count_up_to_the_first_that_may_go_on(
    recorded: list[Attempt], numbers: list[int]
) -> None:
    entries = [AttemptEntry.of(attempt) for attempt in recorded]
    attempts = finished_attempts(entries)
    assert [attempt.attempt for attempt in attempts] == numbers


def test_an_attempt_in_a_journal_has_all_that_the_next_is_told(tmp_path: Path) -> None:
    attempt = make_candidate(1, test=False).but(
        failing=("tests/a.py::b\ud800",),
        told_of=(3,),
        dropped_files=("a",),
        seconds=1.5,
    )
    journal = Journal(tmp_path / "j.jsonl")
    journal.append(AttemptEntry.of(attempt))
    assert finished_attempts(journal.entries()) == [attempt]
