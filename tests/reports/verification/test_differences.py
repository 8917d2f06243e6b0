"""The first difference of two values, requests of conversations, and choices made again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from llm.chat import Message, Reply, request_sha256
from reports.verification.difference import first_difference, first_line
from reports.verification.instances import chosen_again, wrong_request
from runs.records import Attempt
from tests.support.attempts import make_candidate


@pytest.mark.parametrize(
    ("found", "expected", "words"),
    [
        ({"a": [1, 2]}, {"a": [1, 2]}, ""),
        ({"a": [1]}, {"a": [1, 2]}, "a[1] is missing, but should be 2"),
        ({"a": 1, "b": 2}, {"a": 1}, "b is 2, but should be missing"),
        (True, 1, "it is true, but should be 1"),
        ("x" * 200 + "a", "x" * 200 + "b", "it is …"),
    ],
)
def test_the_first_difference(found: Any, expected: Any, words: str) -> None:
    said = str(first_difference(found, expected) or "")
    assert said.startswith(words) if words else not said
    assert len(said) < 300


@pytest.mark.parametrize(
    ("found", "expected", "line"),
    [
        ("a\nb\n", "a\nb\n", []),
        ("a\nb", "a\nc", ['x: line 2: it is "b", but should be "c"']),
        ("a", "a\nc", ['x: line 2: it is missing, but should be "c"']),
    ],
)
def test_the_first_line(found: str, expected: str, line: list[str]) -> None:
    differences = first_line(Path("x"), found, expected)
    assert [each.line(Path("/")) for each in differences] == line


SYSTEM, ASKED = Message("system", "Rules."), Message("user", "Fix it.")


def conversation(messages: list[Message], *calls: tuple[list[Message], str]) -> Attempt:
    """Return an attempt that sent each request of ``calls`` and received its reply."""
    sent = tuple(
        Reply(reply, request_sha256=request_sha256(request)) for request, reply in calls
    )
    return Attempt(model="m", edit_format="diff", messages=tuple(messages), calls=sent)


def said(text: str) -> Message:
    return Message("assistant", text)


def test_requests_of_a_whole_conversation() -> None:
    first = [SYSTEM, ASKED]
    second = [*first, said("one"), Message("user", "Go on.")]
    good = conversation([*second, said("two")], (first, "one"), (second, "two"))
    assert wrong_request(good) == ""
    bad = conversation([*second, said("two")], (second, "one"), ([ASKED], "two"))
    assert wrong_request(bad).startswith("the request hash of call 2 ")


def test_requests_of_a_conversation_that_lost_its_oldest_rounds() -> None:
    lost = [SYSTEM, ASKED, said("one")]
    last = [SYSTEM, ASKED, Message("user", "Earlier parts were left out.")]
    kept = conversation([*last, said("two")], (lost, "one"), (last, "two"))
    assert wrong_request(kept) == ""
    assert "call 2" in wrong_request(
        conversation([*last, said("two")], (last, ""), (lost, "two"))
    )


def test_requests_that_go_on_with_a_reply() -> None:
    first = [SYSTEM, ASKED]
    second = [*first, said("a reply cut ")]
    whole = [*first, said("a reply cut off")]
    good = conversation(whole, (first, "a reply cut "), (second, "off"))
    assert wrong_request(good) == ""
    other = conversation(
        whole, (first, "a reply cut "), ([*first, said("a reply ")], "off")
    )
    assert "call 2" in wrong_request(other)


def test_a_patch_that_did_not_apply_is_no_difference() -> None:
    """Older runs do not record it for attempts with failed edits, so both winners are possible."""
    records = [make_candidate(n, False, n == 1, None) for n in (1, 2)]
    for winner in (1, 2):
        choice = chosen_again(records, winner, None, require_tests=False)
        assert choice.winner
        assert choice.winner.attempt == winner


def test_a_wrong_winner_is_told_where_the_record_says_that_its_patch_applies() -> None:
    records = [make_candidate(n, False, n == 1, None, applies=True) for n in (1, 2)]
    for winner in (1, 2):
        choice = chosen_again(records, winner, None, require_tests=False)
        assert choice.winner == records[0]
