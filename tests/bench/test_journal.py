"""Journals and ledgers: every cut of their bytes is read as a whole beginning of them."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.chat import Reply, RequestRefusedError, Usage
from bench.gate import AttemptGate, recorded_calls
from bench.journal import Journal, asked_and_ended, whole_entries
from bench.ledger import Ledger, Line, by_instance, read_lines, total


def a_line(call: str, cost: str | None = "0.1", instance_id: str = "i") -> Line:
    value = None if cost is None else Decimal(cost)
    return Line(call, "answered", instance_id, 1, "m", value, Usage(3, 2, 1))


def test_any_cut_leaves_whole_entries_alone(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "deep/j.jsonl")
    entries = [{"kind": "asked", "call": str(n), "text": "a\nb\u2028\ud800"} for n in range(3)]
    for entry in entries:
        journal.append(entry)
    data = journal.path.read_bytes()
    ends = [n + 1 for n, byte in enumerate(data) if byte == 10]
    for cut in range(len(data) + 1):
        # A last line that lacks its line end alone is whole, too.
        whole = sum(end - 1 <= cut for end in ends)
        assert list(whole_entries(data[:cut])) == entries[:whole]
        journal.path.write_bytes(data[:cut])
        journal.append({"kind": "new"})
        assert journal.entries() == [*entries[:whole], {"kind": "new"}]


def test_a_journal_that_is_retired_is_kept(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl")
    journal.retire()
    for number in (1, 2):
        journal.append({"number": number})
        journal.retire()
    assert journal.entries() == []
    assert Journal(tmp_path / "j.1.jsonl").entries() == [{"number": 1}]
    assert Journal(tmp_path / "j.2.jsonl").entries() == [{"number": 2}]


def test_calls_in_flight_have_no_end() -> None:
    entries = [
        {"kind": "asked", "call": "a"},
        {"kind": "asked", "call": "b"},
        {"kind": "answered", "call": "b"},
        {"kind": "what", "call": "c"},
    ]
    assert asked_and_ended(entries) == [(entries[0], None), (entries[1], entries[2])]


def test_recorded_replies_are_served_once_and_refusals_refuse_again() -> None:
    reply = {"content": "yes", "usage": {"prompt_tokens": 1}, "cost": 0.5}
    entries = [
        {"kind": "asked", "call": "a", "attempt": 1, "request_sha256": "x"},
        {"kind": "answered", "call": "a", "reply": reply},
        {"kind": "asked", "call": "b", "attempt": 1, "request_sha256": "y"},
        {"kind": "refused", "call": "b", "error": "never", "cost": 0.25},
        {"kind": "asked", "call": "c", "attempt": 1, "request_sha256": "z"},
        {"kind": "failed", "call": "c", "error": "again", "billed": False},
        {"kind": "asked", "call": "d", "attempt": 2, "request_sha256": "x"},
        {"kind": "answered", "call": "d", "reply": {"content": "other"}},
    ]
    gate = AttemptGate(None, "i", 1, recorded_calls(entries, 1), lambda _: None)  # type: ignore[arg-type]
    assert gate.recorded("x") == Reply("yes", usage=Usage(1), cost=0.5)
    assert gate.recorded("x") is None
    assert gate.recorded("z") is None
    with pytest.raises(RequestRefusedError, match="never") as error:
        gate.recorded("y")
    assert error.value.cost == 0.25


def test_a_ledger_holds_each_call_once_and_survives_torn_lines(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger.load(path)
    assert ledger.add(a_line("a")) and not ledger.add(a_line("a", "9"))
    with path.open("ab") as stream:
        stream.write(b'{"call": "torn", "co')
    again = Ledger.load(path)
    assert again.lines() == (a_line("a"),)
    again.add(a_line("b", None))
    assert [line.call for line in read_lines(path)] == ["a", "b"]


@given(st.lists(st.decimals(0, 1000, places=10), max_size=50))
def test_sums_are_exact(costs: list[Decimal]) -> None:
    lines = [a_line(str(n), str(cost)) for n, cost in enumerate(costs)]
    assert total(lines) == sum(costs, Decimal())
    assert total([*lines, a_line("x", None)]) is None


def test_dollars_by_instance() -> None:
    lines = [a_line("a"), a_line("b", "0.2"), a_line("c", None, "j")]
    assert by_instance(lines) == {"i": Decimal("0.3"), "j": Decimal(0)}
