"""An instance that goes on behind the attempts that an earlier start finished."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from core.redaction import Redactor
from runs.calls.journal import AttemptEntry, Journal, finished_attempts
from runs.records import Attempt, AttemptStatus
from runs.storage.store import RunStore
from tests.runs.conftest import ID, arguments
from tests.support import read_json, wait_until
from tests.support.attempts import make_candidate
from tests.support.commands import Preloaded, Started
from tests.support.provider import Answer, Provider
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
    words = arguments(tmp_path, [ID], options)
    words += ["--set", f"folders.cache={cache}"]
    return lambda: preloaded.start(*words)


def openings(requests: Sequence[dict[str, Any]]) -> list[str]:
    """Return the first messages of the attempts that ask for files."""
    texts = []
    for request in requests:
        last = request["messages"][-1]["content"]
        if "Which files must be seen" in last:
            texts.append(last)
    return texts


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "interrupted"])
def test_finished_attempts_are_not_made_again(
    tmp_path: Path, provider: Provider, start: Start, kill: bool
) -> None:
    provider.will_answer("textkit/slug.py", WRONG, Answer("textkit/slug.py", hang=3))
    first = start()
    wait_until(lambda: len(openings(provider.requests)) == 2)
    if kill:
        first.kill()
    else:
        first.send_signal(2)
    first.communicate(timeout=300)
    before = list(provider.requests)
    store = RunStore(tmp_path, "r")
    (attempt,) = finished_attempts(Journal(store.journals / f"{ID}.jsonl").entries())
    assert attempt.status == AttemptStatus.TESTS_FAILED
    assert attempt.failing

    provider.answers.clear()
    if kill:  # the reply on its way was lost
        provider.will_answer("textkit/slug.py")
    provider.will_answer(EDIT)
    output, _ = start().communicate(timeout=300)
    assert f"{ID}: plausible; attempt 2" in output, output
    trajectory = read_json(store.trajectory(ID))
    made = [record["attempt"] for record in trajectory["attempts"]]
    assert made == [1, 2]
    # It is the same attempt, and not another with the same replies.
    assert trajectory["attempts"][0]["seconds"] == attempt.seconds
    log = (store.logs / f"{ID}.log").read_text()
    assert log.count("attempt 1 (gpt-4o): tests_failed") == 1
    # What the second is told of the first is derived from the record.
    told, told_again = openings(before)[-1], openings(provider.requests)[-1]
    assert "Tests that newly failed" in told
    assert told == told_again


def status(number: int, word: AttemptStatus) -> Attempt:
    return make_candidate(number, test=False).but(status=word)


FAILED = AttemptStatus.TESTS_FAILED
BUDGET = AttemptStatus.BUDGET


@pytest.mark.parametrize(
    ("ended", "numbers"),
    [
        ([], []),
        ([(1, FAILED), (2, FAILED)], [1, 2]),
        # A limit that is raised lets the attempt go on, and those after it may be told of it.
        ([(1, FAILED), (2, BUDGET), (3, FAILED)], [1]),
        ([(1, BUDGET), (2, FAILED), (1, FAILED)], [1]),
        ([(1, FAILED), (2, FAILED), (1, FAILED)], [1]),
        ([(1, AttemptStatus.ERROR), (2, AttemptStatus.TIMEOUT)], [1, 2]),
        ([(2, FAILED)], []),
    ],
)
def test_attempts_count_up_to_the_first_that_may_go_on(
    ended: list[tuple[int, AttemptStatus]], numbers: list[int]
) -> None:
    entries = [
        AttemptEntry.of(status(number, word), Redactor()) for number, word in ended
    ]
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
    journal.append(AttemptEntry.of(attempt, Redactor()))
    assert finished_attempts(journal.entries()) == [attempt]
