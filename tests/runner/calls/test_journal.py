"""Journals and ledgers: every cut of their bytes is read as a whole beginning of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_retry.llm.chat import Reply, RequestRefusedError, Usage
from swe_retry.record.jsonlines import read_lines, set_aside
from swe_retry.runner.calls.budget import LimitScope
from swe_retry.runner.calls.journal import (
    JOURNAL,
    AnsweredEntry,
    AskedEntry,
    DeniedEntry,
    FailedEntry,
    Journal,
    JournalEntry,
    LostEntry,
    RefusedEntry,
    starts_and_ends,
)
from swe_retry.runner.calls.ledger import (
    LEDGER,
    Ledger,
    LedgerLine,
    by_instance,
    read_ledger,
    total,
)
from tests.support.runner import make_gate


def ledger_line(
    call: str,
    cost: str | None = "0.1",
    instance_id: str = "i",
) -> LedgerLine:
    return LedgerLine(
        call=call,
        kind="answered",
        instance_id=instance_id,
        attempt=1,
        model="m",
        cost=None if cost is None else Decimal(cost),
        usage=Usage(3, 2, 1),
    )


def calls_of(lines: Sequence[LedgerLine]) -> list[str]:
    return [line.call for line in lines]


def question(call: str, attempt: int = 1, request_sha256: str = "x") -> AskedEntry:
    return AskedEntry(
        call=call,
        attempt=attempt,
        model="m\nb\u2028\ud800",
        request_sha256=request_sha256,
        bound=Decimal("0.5"),
    )


def question_line(**changes: object) -> bytes:
    content = question("b").model_dump()
    content.update(changes)
    return json.dumps(content).encode()


def test_any_cut_leaves_whole_entries_alone(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "deep/j.jsonl")
    entries = [question(str(n)) for n in range(3)]
    for entry in entries:
        journal.append(entry)
    data = journal.path.read_bytes()
    for cut in range(len(data) + 1):
        journal.path.write_bytes(data[:cut])
        # A last line that lacks its line end alone is whole, too.
        count = data[: cut + 1].count(b"\n")
        assert journal.entries() == entries[:count]
        journal.append(question("new"))
        assert journal.entries() == [*entries[:count], question("new")]


def test_a_journal_that_is_retired_is_kept(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl")
    journal.retire()
    for number in ("1", "2"):
        journal.append(question(number))
        journal.retire()
    assert journal.entries() == []
    for number in ("1", "2"):
        retired = Journal(tmp_path / f"j.{number}.jsonl")
        assert retired.entries() == [question(number)]


REPLY = Reply("yes", usage=Usage(1), cost=Decimal("0.5"))
DAMAGED: list[tuple[bytes, str]] = [
    (b"[" * 100_000, "nested"),
    (b'{"kind":"asked"}', "'asked.call': Field required"),
    (b'{"kind":"answered","call":"a"}', "'answered.reply': Field required"),
    (
        b'{"kind":"answered","call":"b","reply":[]}',
        "'answered.reply': Input should be a dictionary",
    ),
    (
        b'{"kind":"answered","call":"b","reply":{"content":5}}',
        "'answered.reply.content': Input should be an instance of str",
    ),
    (b'{"kind":"asled","call":"b"}', "'asled' found using 'kind' does not match"),
    (b'{"kind":"lost","call":"b","cost":-1}', "is not an amount of dollars"),
    (question_line(attempt=True), "'asked.attempt': Input should be a valid integer"),
    (question_line(model=None), "'asked.model': Input should be an instance of str"),
    (
        question_line(exchange_sha256=5),
        "'asked.exchange_sha256': Input should be an instance of str",
    ),
    (question_line(bound=[]), "'asked.bound': [] is not an amount of dollars"),
    (
        b'{"kind":"denied","model":"m","limit":"--tries","value":"1"}',
        "'denied.limit': Input",
    ),
    (question_line(call="a"), "the same call as line 1"),
    (b'{"kind": "asked", \xff', "not UTF-8"),
    (b"7", "not a JSON object"),
]


@pytest.mark.parametrize(("line", "message"), DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_line_is_named_and_set_aside(
    tmp_path: Path, line: bytes, message: str
) -> None:
    journal = Journal(tmp_path / "j.jsonl")
    journal.append(question("a"))
    with journal.path.open("ab") as stream:
        stream.write(line + b"\n")
    journal.append(AnsweredEntry(call="a", reply=REPLY))
    before = journal.entries()
    assert [entry.kind for entry in before] == ["asked", "answered"]
    (damage,) = set_aside(journal.path, JOURNAL)
    assert str(damage).startswith(f"{journal.path}, line 2: ")
    assert message in str(damage)
    assert (tmp_path / "j.jsonl.damaged").read_bytes() == line + b"\n"
    assert read_lines(journal.path, JOURNAL).values == tuple(before)
    assert set_aside(journal.path, JOURNAL) == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cost": "NaN"}, "not an amount"),
        ({"cost": []}, "not an amount"),
        ({"attempt": True}, "'attempt': Input should be"),
        (
            {"kind": "asked"},
            "'kind': Input should be 'answered', 'refused', 'failed', 'lost' or 'replayed'",
        ),
        (
            {"usage": {"prompt_tokens": "3"}},
            "'usage.prompt_tokens': Input should be a valid int",
        ),
        ({"usage": {"else": 3}}, "'usage.else': Unexpected"),
        ({"instance_id": 5}, "'instance_id': Input should be a valid string"),
    ],
)
def test_a_line_of_a_ledger_that_is_none(
    tmp_path: Path,
    change: dict[str, object],
    message: str,
) -> None:
    path = tmp_path / "ledger.jsonl"
    lines = [ledger_line(call).as_json() for call in "abc"]
    lines[1].update(change)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    ledger = read_ledger(path)
    assert calls_of(ledger.values) == ["a", "c"]
    (damage,) = ledger.broken
    assert damage.number == 2
    assert message in damage.problem


def test_calls_in_flight_have_no_end() -> None:
    first = question("a")
    second = question("b")
    end = AnsweredEntry(call="b", reply=REPLY)
    entries: list[JournalEntry] = [
        first,
        second,
        end,
        LostEntry(call="c", cost=None),
        DeniedEntry(model="m", limit=LimitScope.RUN, value=Decimal(1)),
    ]
    assert starts_and_ends(entries) == [(first, None), (second, end)]


def test_recorded_replies_are_served_once_and_refusals_refuse_again() -> None:
    entries: list[JournalEntry] = [
        question("a"),
        AnsweredEntry(call="a", reply=REPLY),
        question("b", request_sha256="y"),
        RefusedEntry(call="b", error="never", cost=Decimal("0.25")),
        question("c", request_sha256="z"),
        FailedEntry(call="c", error="again"),
        question("d", 2),
        AnsweredEntry(call="d", reply=Reply("other")),
    ]
    gate = make_gate(entries)
    assert gate.recorded_reply("x") == REPLY
    assert gate.recorded_reply("x") is None
    assert gate.recorded_reply("z") is None
    with pytest.raises(RequestRefusedError, match="never") as error:
        gate.recorded_reply("y")
    assert error.value.cost == 0.25


def tear(path: Path) -> None:
    """End a ledger in a line that a kill tore."""
    with path.open("ab") as stream:
        stream.write(b'{"call": "torn", "co')


def test_a_line_that_a_kill_tore_is_told_from_damage(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    Ledger.load(path).add(ledger_line("a"))
    tear(path)
    ledger = read_ledger(path)
    (damage,) = ledger.damaged
    assert damage.number == 2
    assert ledger.broken == ()
    (damage,) = set_aside(path, LEDGER)
    assert damage.torn


def test_a_ledger_holds_each_call_once_and_survives_torn_lines(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger.load(path)
    assert ledger.add(ledger_line("a"))
    assert not ledger.add(ledger_line("a", "9"))
    tear(path)
    again = Ledger.load(path)
    assert again.lines() == (ledger_line("a"),)
    again.add(ledger_line("b", None))
    assert calls_of(read_ledger(path).values) == ["a", "b"]


@given(st.lists(st.decimals(0, 1000, places=10), max_size=50))
def test_sums_are_exact(costs: list[Decimal]) -> None:
    lines = []
    for number, cost in enumerate(costs):
        lines.append(ledger_line(str(number), str(cost)))
    assert total(lines) == sum(costs, Decimal())
    unpriced = ledger_line("x", None)
    assert total([*lines, unpriced]) is None


def test_dollars_by_instance() -> None:
    lines = [
        ledger_line("a"),
        ledger_line("b", "0.2"),
        ledger_line("c", None, "j"),
        ledger_line("d", "0.1", "j"),
    ]
    assert by_instance(lines) == {"i": Decimal("0.3"), "j": None}


def test_the_limits_of_older_journals_are_read() -> None:
    assert LimitScope("--max-calls") is LimitScope.CALLS
    assert LimitScope("--budget-usd-per-model") is LimitScope.MODEL
    with pytest.raises(ValueError, match="--nothing"):
        LimitScope("--nothing")
