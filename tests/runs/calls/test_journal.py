"""Journals and ledgers: every cut of their bytes is read as a whole beginning of them."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm.chat import Reply, RequestRefusedError, Usage
from runs.calls.coordinator import AttemptGate, recorded_calls
from runs.calls.journal import JOURNAL, Journal, JournalEntry, asked_and_ended
from runs.calls.ledger import LEDGER, Ledger, LedgerLine, by_instance, read_ledger, total
from runs.storage.jsonlines import read_lines, set_aside


def a_line(call: str, cost: str | None = "0.1", instance_id: str = "i") -> LedgerLine:
    value = None if cost is None else Decimal(cost)
    return LedgerLine(call, "answered", instance_id, 1, "m", value, Usage(3, 2, 1))


def asked(call: str, **changes: object) -> JournalEntry:
    entry = {
        "kind": "asked", "call": call, "attempt": 1, "model": "m\nb\u2028\ud800",
        "request_sha256": "x", "bound": "0.5", "at": "",
    }  # fmt: skip
    return {**entry, **changes}


def test_any_cut_leaves_whole_entries_alone(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "deep/j.jsonl")
    entries = [asked(str(n)) for n in range(3)]
    for entry in entries:
        journal.append(entry)
    data = journal.path.read_bytes()
    ends = [n + 1 for n, byte in enumerate(data) if byte == 10]
    for cut in range(len(data) + 1):
        # A last line that lacks its line end alone is whole, too.
        whole = sum(end - 1 <= cut for end in ends)
        journal.path.write_bytes(data[:cut])
        assert journal.entries() == entries[:whole]
        journal.append(asked("new"))
        assert journal.entries() == [*entries[:whole], asked("new")]


def test_a_journal_that_is_retired_is_kept(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl")
    journal.retire()
    for number in (1, 2):
        journal.append(asked(str(number)))
        journal.retire()
    assert journal.entries() == []
    assert Journal(tmp_path / "j.1.jsonl").entries() == [asked("1")]
    assert Journal(tmp_path / "j.2.jsonl").entries() == [asked("2")]


REPLY = {"content": "yes", "usage": {"prompt_tokens": 1}, "cost": 0.5}
DAMAGED: list[tuple[bytes, str]] = [
    (b"[" * 100_000, "nested"),
    (b'{"kind":"asked"}', "lacks 'call'"),
    (b'{"kind":"answered","call":"a"}', "lacks 'reply'"),
    (b'{"kind":"answered","call":"b","reply":[]}', "list indices"),
    (b'{"kind":"answered","call":"b","reply":{"content":5}}', "`content` is not a text"),
    (b'{"kind":"asled","call":"b"}', "'asled' is not a valid"),
    (b'{"kind":"lost","call":"b","cost":-1}', "is not an amount of dollars"),
    (json.dumps(asked("b", attempt=0)).encode(), "`attempt` is not the number"),
    (json.dumps(asked("b", model=None)).encode(), "`model` is not a text"),
    (json.dumps(asked("a")).encode(), "the same call as line 1"),
    (b'{"kind": "asked", \xff', "not UTF-8"),
    (b"7", "not a JSON object"),
]


@pytest.mark.parametrize(("line", "words"), DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_line_is_named_and_set_aside(tmp_path: Path, line: bytes, words: str) -> None:
    journal = Journal(tmp_path / "j.jsonl")
    journal.append(asked("a"))
    with journal.path.open("ab") as stream:
        stream.write(line + b"\n")
    journal.append({"kind": "answered", "call": "a", "reply": REPLY})
    before = journal.entries()
    assert [entry["kind"] for entry in before] == ["asked", "answered"]
    (damage,) = set_aside(journal.path, JOURNAL)
    assert str(damage).startswith(f"{journal.path}, line 2: ") and words in str(damage)
    assert (tmp_path / "j.jsonl.damaged").read_bytes() == line + b"\n"
    assert read_lines(journal.path, JOURNAL).whole == tuple(before)
    assert set_aside(journal.path, JOURNAL) == ()


def test_a_line_that_a_kill_tore_is_told_from_damage(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    Ledger.load(path).add(a_line("a"))
    with path.open("ab") as stream:
        stream.write(b'{"call": "torn", "co')
    found = read_ledger(path)
    assert [damage.number for damage in found.damaged] == [2]
    assert found.broken == ()
    assert [damage.torn for damage in set_aside(path, LEDGER)] == [True]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cost": "NaN"}, "not an amount"),
        ({"cost": []}, "not an amount"),
        ({"attempt": True}, "'attempt': Input should be"),
        ({"kind": "asked"}, "kind 'asked' is unknown"),
        ({"usage": {"prompt_tokens": "3"}}, "not counts"),
        ({"usage": {"else": 3}}, "other names"),
        ({"instance_id": 5}, "'instance_id': Input should be a valid string"),
    ],
)
def test_a_line_of_a_ledger_that_is_none(
    tmp_path: Path, change: dict[str, object], words: str
) -> None:
    path = tmp_path / "ledger.jsonl"
    lines = [a_line("a").as_json(), {**a_line("b").as_json(), **change}, a_line("c").as_json()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = read_ledger(path)
    assert [line.call for line in found.whole] == ["a", "c"]
    assert [damage.number for damage in found.broken] == [2]
    assert words in found.broken[0].problem


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
    assert [line.call for line in read_ledger(path).whole] == ["a", "b"]


@given(st.lists(st.decimals(0, 1000, places=10), max_size=50))
def test_sums_are_exact(costs: list[Decimal]) -> None:
    lines = [a_line(str(n), str(cost)) for n, cost in enumerate(costs)]
    assert total(lines) == sum(costs, Decimal())
    assert total([*lines, a_line("x", None)]) is None


def test_dollars_by_instance() -> None:
    lines = [a_line("a"), a_line("b", "0.2"), a_line("c", None, "j")]
    assert by_instance(lines) == {"i": Decimal("0.3"), "j": Decimal(0)}
