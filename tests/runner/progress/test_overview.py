"""``--status`` and ``--json``: what they tell of a run, also of a damaged one."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from swe_retry.attempts.choose import RESULTS
from swe_retry.attempts.evidence.facts import stated_fit
from swe_retry.core.atomic import write_json_atomic
from swe_retry.core.errors import UserError
from swe_retry.core.money import cost_words
from swe_retry.llm.chat import Usage
from swe_retry.record.description import Run
from swe_retry.record.evidence import Belief
from swe_retry.record.store import RunStore
from swe_retry.runner.calls.ledger import LedgerLine, tokens
from swe_retry.runner.progress.overview import RunStatus, lines, overview
from swe_retry.runner.progress.state import COMMON_WORDS
from swe_retry.runner.progress.summary_json import RunSummary, summary_words
from tests.support.runner import PATCH

ATTEMPT = {"attempt": 1, "model": "m"}
LINE = LedgerLine(
    call="a:1:1",
    kind="replayed",
    instance_id="a",
    attempt=1,
    model="m",
    cost=Decimal(0),
)


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    """Six instances: three predicted, one of them redone; two unfinished; one not started."""
    store = RunStore(tmp_path, "r")
    names = [f"own__thing-{number}" for number in range(1, 7)]
    store.save_run(Run(selected=names))
    save_prediction(store, 1, status="plausible", all_results=[{}], cost=0.25)
    save_prediction(store, 2, status="plausible", all_results=[{}] * 2, cost=0.25)
    save_prediction(store, 3, status="empty", all_results=[{}] * 6, cost=0.25)
    interruption = {"status": "interrupted", "reason": "interrupted"}
    no_disk = "no \x1b[31mdisk\n" + "x" * 500
    save_unfinished(store, 2, **interruption, attempts=[])
    save_unfinished(store, 4, status="infra_error", reason=no_disk, attempts=[ATTEMPT])
    save_unfinished(store, 5, **interruption, attempts=[ATTEMPT] * 2)
    return store


def save_prediction(store: RunStore, number: int, **content: Any) -> None:
    name = f"own__thing-{number}"
    prediction = {"instance_id": name, "model_patch": PATCH, **content}
    store.save_instance(name, prediction, {}, "")


def save_unfinished(store: RunStore, number: int, **content: Any) -> None:
    path = store.unfinished_path(f"own__thing-{number}")
    write_json_atomic(path, content)


def read_json_of(seen: RunStatus) -> dict[str, Any]:
    """Return the overview for machines, as a reader of the JSON gets it."""
    text = json.dumps(seen.as_json())
    content: dict[str, Any] = json.loads(text)
    return content


def find_line(seen: RunStatus, start: str) -> str:
    (line,) = [line for line in lines(seen) if line.startswith(start)]
    return line


def instances_by_status(seen: RunStatus) -> dict[str, int]:
    return {name: row.instances for name, row in seen.statuses.items()}


def dollars_by_status(seen: RunStatus) -> dict[str, Decimal | None]:
    return {name: row.dollars for name, row in seen.statuses.items()}


SPENT = {
    "own__thing-1": Decimal("1.1"),
    "own__thing-4": Decimal("0.2"),
    "own__thing-5": Decimal(0),
}


def test_the_table_by_status(store: RunStore) -> None:
    seen = overview(store, SPENT, statuses=RESULTS)
    assert list(lines(seen)) == [
        f"r: {store.folder}",
        "status       instances  attempts  dollars",
        "plausible            2         3  $1.3500",
        "empty                1         6  $0.2500",
        "infra_error          1         1  $0.2000",
        "interrupted          1         2  $0.0000",
        "not_begun            1         0  $0.0000",
        "total                6        12  $1.8000",
        "unfinished: 2",
        f"  own__thing-4: infra_error; no disk {'x' * 91}…",
        "  own__thing-5: interrupted; interrupted",
    ]


def test_the_same_for_machines(store: RunStore) -> None:
    content = read_json_of(overview(store, SPENT))
    assert content["run"] == "r"
    assert content["folder"] == str(store.folder)
    assert content["statuses"]["plausible"] == {
        "instances": 2,
        "attempts": 3,
        "dollars": "1.35",
    }
    assert content["total"] == {"instances": 6, "attempts": 12, "dollars": "1.8"}
    assert content["broken"] == []
    assert content["unfinished"][1] == {
        "instance_id": "own__thing-5",
        "status": "interrupted",
        "reason": "interrupted",
    }


def test_how_sure_the_choices_by_evidence_are(store: RunStore) -> None:
    seen = overview(store, SPENT)
    assert seen.as_json()["beliefs"] == {}
    for number, weight in {1: 0.75, 2: 0.5}.items():
        belief = Belief(weight=weight, none=0.125, fit=stated_fit())
        content = belief.model_dump()
        save_prediction(store, number, status="plausible", belief=content)
    seen = overview(store, SPENT)
    beliefs = read_json_of(seen)["beliefs"]
    assert beliefs["own__thing-1"] == {"weight": 0.75, "none": 0.125}
    assert find_line(seen, "chosen by evidence") == (
        "chosen by evidence: 2 instances; on average the winner is right with the weight 0.62, "
        "and no candidate is with 0.12"
    )


def test_one_unknown_price_makes_the_sum_unknown(store: RunStore) -> None:
    save_prediction(store, 1, status="plausible", cost=None)
    seen = overview(store, {})
    by_status = dollars_by_status(seen)
    assert by_status["plausible"] is None
    assert by_status["empty"] == Decimal("0.25")
    assert seen.total.dollars is None
    assert find_line(seen, "plausible").endswith("unknown")
    seen = overview(store, {**SPENT, "own__thing-3": None})
    by_status = dollars_by_status(seen)
    assert by_status.pop("empty") is None
    assert None not in by_status.values()


def test_what_the_ledger_lacks_costs_nothing_and_its_sum_is_the_total(
    store: RunStore,
) -> None:
    """As the summary counts: a ledger has every call, also of an instance that is no more."""
    seen = overview(store, {**SPENT, "own__gone-1": Decimal("0.01")})
    assert seen.total.dollars == Decimal("1.81")
    seen = overview(store, {"own__thing-1": Decimal("1.1")})
    by_status = dollars_by_status(seen)
    assert by_status["infra_error"] == 0
    assert by_status["interrupted"] == 0


def test_a_run_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no run .*/predictions/none; "):
        overview(RunStore(tmp_path, "none"), {})


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{", b'{"selected": 5}', b"\xff\xfe", b"[" * 100_000],
)
def test_broken_files_are_named(store: RunStore, content: bytes) -> None:
    broken = [
        store.prediction("own__thing-1"),
        store.logs / "own__thing-4.unfinished.json",
        store.folder / "run.json",
    ]
    for path in broken:
        path.write_bytes(content)
    seen = overview(store, SPENT)
    assert instances_by_status(seen) == {
        "plausible": 1,
        "empty": 1,
        "interrupted": 1,
        "broken": 2,
    }
    printed = list(lines(seen))
    last = "\n".join(printed[-3:])
    assert str(broken[0]) in last
    assert str(broken[1]) in last
    assert "run.json" in last
    assert broken[0].read_bytes() == content


def test_what_was_selected_must_be_a_list(store: RunStore) -> None:
    write_json_atomic(store.run_file, {"selected": {"a": 1}})
    (broken,) = overview(store, {}).broken
    problem = "'selected': Input should be a valid list"
    assert f"run.json is not a run's description: {problem}" in broken


def test_files_of_the_older_layout_have_a_status_all_the_same(tmp_path: Path) -> None:
    store = RunStore(tmp_path, "old")
    clean = {"edit_outcome": True, "lint_outcome": True, "test_outcome": True}
    save_prediction(store, 1, **clean)
    save_prediction(store, 2, edit_outcome=False)
    save_prediction(store, 3, model_patch=None)
    seen = overview(store, {}, ())
    assert instances_by_status(seen) == {"plausible": 1, "fallback": 1, "empty": 1}


def test_statuses_that_nobody_knows_are_shown_harmlessly(store: RunStore) -> None:
    save_unfinished(store, 5, status="\x1b[2Jodd", reason=None)
    printed = list(lines(overview(store, SPENT)))
    assert "  own__thing-5: odd" in printed
    for line in printed:
        assert line.isprintable()


def test_the_summary_for_machines(tmp_path: Path) -> None:
    summary = RunSummary(
        run="r",
        folder=tmp_path,
        counts={"plausible": 2, "infra_error": 1},
        dollars=Decimal("0.0000001"),
        at_most=Decimal("2"),
        calls=12,
        tokens=Usage(5, 4, 3),
        recorded=Decimal("0.00000005"),
        seconds=3.14159,
        unfinished=("b", "a"),
        over_budget={"c": "budget.calls"},
        errors=("d",),
        stopped="--budget-usd",
        statuses=RESULTS,
    )
    content = json.loads(summary.text())
    counts = dict.fromkeys((*RESULTS, *COMMON_WORDS), 0)
    counts["plausible"] = 2
    counts["infra_error"] = 1
    assert content == {
        "run": "r",
        "folder": str(tmp_path),
        "counts": counts,
        "dollars": "0.0000001",
        "dollars_at_most": "2",
        "recorded": "0.00000005",
        "calls": 12,
        "tokens": {"prompt_tokens": 5, "completion_tokens": 4, "cached_tokens": 3},
        "seconds": 3.142,
        "exit_code": 1,
        "unfinished": ["a", "b"],
        "over_budget": {"c": "budget.calls"},
        "errors": ["d"],
        "broken": {},
        "stopped": "--budget-usd",
    }
    assert "\n" not in summary.text()


@pytest.mark.parametrize(
    ("dollars", "recorded", "text"),
    [
        ("4.51", "0", "cost $4.51"),
        ("0", "0", "cost $0.00"),
        ("4.51", "4.51", "recorded $4.51"),
        ("4.51", "4", "cost $0.5100, recorded $4.00"),
        (None, "4", "cost unknown, recorded $4.00"),
    ],
)
def test_what_a_replay_repeats_is_no_cost(
    dollars: str | None, recorded: str, text: str
) -> None:
    total = None if dollars is None else Decimal(dollars)
    assert cost_words(total, Decimal(recorded), total) == text


def test_tokens_that_no_provider_counted_are_unknown(tmp_path: Path) -> None:
    summary = RunSummary(
        run="r",
        folder=tmp_path,
        counts={},
        dollars=Decimal(0),
        at_most=Decimal(0),
        calls=5,
        tokens=tokens([LINE]),
        seconds=1.0,
        unfinished=(),
    )
    assert summary_words(summary).endswith("run so far: cost $0.00, 5 calls")
    assert summary.as_json()["tokens"]["prompt_tokens"] is None
    counted = replace(LINE, usage=Usage(5, 4, 3))
    summary = replace(summary, tokens=tokens([LINE, counted]))
    expected = "5 calls, 5 tokens in (3 cached), 4 out"
    assert summary_words(summary).endswith(expected)
    assert tokens([]) == Usage(0, 0, 0)
