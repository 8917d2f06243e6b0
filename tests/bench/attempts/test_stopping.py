"""When no further attempt is made, and the sentence that says why."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

from bench.attempts.candidates import Candidate
from bench.attempts.records import read_history
from bench.attempts.stopping import stop_reason
from bench.policy import History, StopOptions, StopRule
from tests.support.rundata import old_prediction, write_run


def tried(attempt: int, **changes: Any) -> Candidate:
    """Return a plausible candidate."""
    values = {"edit": True, "lint": True, "test": True, **changes}
    return Candidate(attempt, "p", **values)


def reason(*candidates: Candidate, **options: Any) -> str:
    return stop_reason(candidates, StopOptions(**options))


def test_the_first_plausible_attempt_ends_the_work() -> None:
    bad, good = tried(1, test=False), tried(2)
    assert reason() == reason(bad) == ""
    assert reason(bad, good) == "attempt 2 is plausible"
    assert reason(bad, good, rule=StopRule.ALL) == ""
    assert reason(tried(1, edits_test_configuration=True)) == ""


def test_untested_attempts_are_not_enough_where_tests_are_required() -> None:
    one = tried(1, test=None)
    assert reason(one)
    assert stop_reason([one], StopOptions(), require_tests=True) == ""


def past(made: int, plausible: int, cost: str | None = "10") -> History:
    """Return second attempts after a failure."""
    dollars = Decimal(cost) if cost else None
    return History(tuple(((False, None), (n < plausible, dollars)) for n in range(made)))


def test_a_further_attempt_must_be_worth_its_cost() -> None:
    """The second attempt costs $10; (2 + 1) of (10 + 2) are plausible, by Laplace's rule."""
    failed = tried(1, test=False)
    dear: dict[str, Any] = {"rule": StopRule.VALUE, "history": past(10, 2)}
    assert reason(failed, value_usd=Decimal(40), **dear) == ""
    assert reason(failed, value_usd=Decimal(39), **dear) == (
        "attempt 2 is expected to cost $10.00, and its chance to be plausible (2 of 10 recorded) "
        "is worth $9.75"
    )
    assert reason(tried(1), value_usd=Decimal(99), **dear) == "attempt 1 is plausible"


def test_nothing_is_guessed_where_the_history_says_nothing() -> None:
    rule: dict[str, Any] = {"rule": StopRule.VALUE, "value_usd": Decimal("0.01")}
    failed = [tried(1, test=False), tried(2, test=False)]
    assert reason(*failed, history=past(10, 2), **rule) == ""
    assert reason(failed[0], history=past(10, 2, None), **rule) == ""
    assert reason(failed[0], history=past(10, 2), **rule)


def test_the_history_is_read_from_runs(tmp_path: Path) -> None:
    files = [old_prediction(f"own__thing-{n}", n, resolved=False) for n in (1, 2, 3)]
    files[2]["all_results"][1].update(test_outcome=True, cost=None)
    folder = write_run(tmp_path / "old", files)
    found, half = read_history([folder]), Decimal("0.5")
    assert found.after_failures(0) == ((True, half), (False, half), (False, half))
    assert found.after_failures(1) == ((True, half), (True, None))
    assert found.after_failures(2) == (), "the attempt before was plausible"
    assert len(read_history([folder, folder]).instances) == 6
    flipped = [json.loads(p.read_text()) for p in sorted(folder.glob("*.json"))]
    write_run(folder, [{**content, "resolved": not content["resolved"]} for content in flipped])
    assert read_history([folder]) == found, "verdicts are not read"


def test_the_first_attempt_is_always_made() -> None:
    options = StopOptions(StopRule.VALUE, value_usd=Decimal(0), history=past(10, 2))
    first = History((((False, Decimal(1)),),))
    assert stop_reason([], options) == ""
    assert stop_reason([], StopOptions(StopRule.VALUE, Decimal(0), first)) == ""
