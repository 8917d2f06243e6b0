"""Completions of one text with many seeds: none is served for another, none is paid for twice."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from swe_retry.llm.chat import (
    Message,
    Reply,
    RequestRefusedError,
    Usage,
    WindowExceededError,
    request_sha256,
)
from swe_retry.llm.gate import Failed, PlannedCall
from swe_retry.runner.calls.coordinator import AttemptGate, recorded_calls
from swe_retry.runner.calls.journal import (
    AnsweredEntry,
    AskedEntry,
    Journal,
    reply_of,
    starts_and_ends,
)
from swe_retry.runner.calls.ledger import read_ledger, total
from swe_retry.runner.calls.rate_limiter import RateLimiter, RateLimiterPolicy, Rates
from tests.llm.test_client import model
from tests.llm.test_completions import LONG
from tests.support import wait_until
from tests.support.commands import Preloaded
from tests.support.killing import Harness
from tests.support.provider import Answer, Provider
from tests.support.runner import make_gate
from tests.support.runs import COUNT, PROMPT, complete, coordinator
from tests.support.streams import Streamed, StreamServer


class SeededProvider(Provider):
    """Continues a text by its seed."""

    def answer(self, request: dict[str, Any]) -> Answer:
        assert request["prompt"] == PROMPT
        assert request["top_p"] == 0.95
        return Answer(f" return {request['seed']}")


CALL = PlannedCall("own", "openai", "0" * 64, 10, None)
SEED = 14
CONTENTS = {str(n): f" return {n}" for n in range(1, COUNT + 1)}


@pytest.mark.parametrize("share", [0.1, pytest.param(1.0, marks=pytest.mark.long)])
def test_a_kill_at_any_write_pays_for_no_completion_twice(
    tmp_path: Path, preloaded: Preloaded, share: float
) -> None:
    command = Harness(preloaded, tmp_path, script="complete")
    with SeededProvider() as server:
        folder = tmp_path / "undisturbed"
        undisturbed = command.run([str(folder), server.url])
        assert undisturbed.code == 0, undisturbed.output
        assert len(server.requests) == COUNT
        assert undisturbed.writes > 4 * COUNT
        every_write = range(1, undisturbed.writes + 1)
        count = round(share * undisturbed.writes)
        rng = random.Random(SEED)
        for kill_at in rng.sample(every_write, count):
            server.requests.clear()
            folder = tmp_path / str(kill_at)
            arguments = [str(folder), server.url]
            is_odd = kill_at % 2 > 0
            killed = command.run(arguments, kill_at=kill_at, torn=is_odd)
            assert killed.code == -9
            ended = command.run(arguments)
            assert ended.code == 0, ended.output
            first_line = ended.output.splitlines()[0]
            assert json.loads(first_line) == CONTENTS
            seeds = [request["seed"] for request in server.requests]
            _check(folder, Counter(seeds))


def _check(folder: Path, sent: Counter[int]) -> None:
    """A seed was answered once; it was sent again only where its call was lost in the kill."""
    journal = Journal(folder / "journals/job.jsonl")
    pairs = starts_and_ends(journal.entries())
    answered = Counter[int]()
    lost = Counter[int]()
    counters = {"answered": answered, "lost": lost}
    for question, ended in pairs:
        assert ended is not None
        counters[ended.kind][question.attempt] += 1
    assert answered == dict.fromkeys(sent, 1)
    assert len(sent) == COUNT
    for seed, count in sent.items():
        assert 1 <= count <= 1 + lost[seed]
    lines = read_ledger(folder / "ledger.jsonl").values
    calls = sorted(question.call for question, _ in pairs)
    assert sorted(line.call for line in lines) == calls
    paid = [line for line in lines if line.kind == "answered"]
    assert total(paid) == COUNT * Decimal("0.00035")


def test_a_process_that_dies_while_an_answer_arrives_has_lost_its_bound(
    tmp_path: Path, preloaded: Preloaded
) -> None:
    command = Harness(preloaded, tmp_path, script="complete")
    folder = tmp_path / "run"
    with StreamServer(Streamed(pause=0.2, end="silent"), Streamed()) as server:
        arguments = [str(folder), f"{server.url}/v1"]
        killed = command.start(arguments)
        wait_until(lambda: server.requests)
        killed.kill()
        command.wait_for_end(killed)
        ended = command.run(arguments)
        assert ended.code == 0, ended.output
        assert len(server.requests) == 1 + COUNT
    lines = read_ledger(folder / "ledger.jsonl").values
    assert [line.kind for line in lines] == ["lost"] + ["answered"] * COUNT
    assert lines[0].cost == lines[0].bound
    assert lines[0].cost


def test_a_run_is_not_given_up_while_an_answer_arrives(tmp_path: Path) -> None:
    calls = coordinator(tmp_path)
    calls.providers = ("openai",)
    calls.give_up_after = 0.0
    calls.rate_limiter = RateLimiter(Rates(), RateLimiterPolicy(first_wait=0.0))
    slow = calls.begin("slow", 1, CALL)
    shown: list[tuple[str, int]] = []
    calls.arrived = lambda key, tokens: shown.append((key, tokens))
    calls.note_arrival(slow, 7)
    calls.note_arrival("another start's", 7)
    loading = Failed("503: Loading model")
    for _ in range(9):
        calls.end(_begin(calls), loading)
    assert not calls.stopping()
    calls.end(slow, Failed("the answer broke off", billed=True))
    assert shown[0] == ("slow", 7)
    assert shown[-1] == ("slow", 0)
    reason = calls.stopping()
    assert "no model has answered for 0 s" in reason
    assert "openai: 10 calls, the last: the answer broke off" in reason
    assert "calls.give_up_after" in reason


def _begin(calls: Any) -> str:
    while True:
        ticket = calls.begin("job", 1, CALL)
        if isinstance(ticket, str):
            return ticket
        time.sleep(0.001)


def test_what_arrived_without_a_price_is_in_the_ledger(tmp_path: Path) -> None:
    calls = coordinator(tmp_path)
    usage = Usage(100, 7)
    for bound in (None, Decimal(1)):
        call = calls.begin("job", 1, replace(CALL, bound=bound))
        failed = Failed("it broke off", billed=True, cost=bound, usage=usage)
        calls.end(call, failed)
    unpriced, priced = read_ledger(tmp_path / "ledger.jsonl").values
    assert (unpriced.cost, unpriced.usage) == (None, usage)
    assert priced.cost == priced.arrived == Decimal(1)
    assert priced.usage is None
    assert unpriced.error == priced.error == "it broke off"


def test_a_continued_run_asks_nothing_again(tmp_path: Path) -> None:
    replies = {}
    with SeededProvider() as server:
        for number in (1, 2, 3):
            calls = coordinator(tmp_path)
            replies[number] = complete(calls, server.url, number)
        assert len({reply.exchange_sha256 for reply in replies.values()}) == 3
        # Another order: a completion belongs to its number.
        for number in (3, 1, 2):
            calls = coordinator(tmp_path)
            assert complete(calls, server.url, number) == replies[number]
        assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (LONG, WindowExceededError),
        (Answer(status=400), RequestRefusedError),
    ],
)
def test_a_refusal_is_recorded_as_what_it_was(
    tmp_path: Path,
    provider: Provider,
    answer: Answer,
    kind: type[Exception],
) -> None:
    provider.will_answer(answer)
    for _ in range(2):
        with pytest.raises(RequestRefusedError) as error:
            complete(coordinator(tmp_path), provider.url, 1)
        assert type(error.value) is kind
    assert len(provider.requests) == 1


@pytest.mark.parametrize("status", [429, 500])
def test_overload_is_retried_and_only_the_answer_is_paid(
    tmp_path: Path, provider: Provider, status: int
) -> None:
    provider.will_answer(Answer(status=status), "hi")
    calls = coordinator(tmp_path)
    assert complete(calls, provider.url, 1).content == "hi"
    (_, failed), (_, answered) = starts_and_ends(calls.entries("job"))
    assert failed is not None
    assert failed.kind == "failed"
    assert answered is not None
    assert answered.kind == "answered"
    (line,) = calls.ledger.lines()
    assert line.kind == "answered"


def entries(call: str, exchange: str | None, content: str) -> list[Any]:
    planned = PlannedCall(
        model="m",
        provider="p",
        request_sha256="same",
        tokens=1,
        bound=None,
        exchange_sha256=exchange,
    )
    question = AskedEntry.of(call, 1, planned)
    return [question, AnsweredEntry(call=call, reply=Reply(content))]


def test_a_reply_is_served_to_its_exchange_alone() -> None:
    recorded = entries("a", "seed 1", "one") + entries("b", "seed 2", "two")
    served = make_gate(recorded)
    replies = {
        "seed 2": Reply("two", exchange_sha256="seed 2"),
        "seed 3": None,
        "seed 1": Reply("one", exchange_sha256="seed 1"),
    }
    for exchange, reply in replies.items():
        assert served.recorded_reply("same", exchange) == reply
    assert served.recorded_reply("same", "seed 1") is None


def test_a_request_without_an_exchange_is_served_by_itself() -> None:
    recorded = entries("a", None, "one")
    assert "exchange_sha256" not in recorded[0].model_dump()
    assert make_gate(recorded).recorded_reply("same", "seed 1") is None
    assert make_gate(recorded).recorded_reply("other") is None
    assert make_gate(recorded).recorded_reply("same") == Reply("one")


def test_the_journal_shows_the_exchange_of_every_call(
    tmp_path: Path, provider: Provider
) -> None:
    provider.will_answer("hi")
    calls = coordinator(tmp_path)
    reply = complete(calls, provider.url, 1)
    ((question, ended),) = starts_and_ends(calls.entries("job"))
    assert question.exchange_sha256 == reply.exchange_sha256
    assert question.request_sha256 == request_sha256(PROMPT)
    assert isinstance(ended, AnsweredEntry)
    assert "exchange_sha256" not in ended.model_dump()["reply"]
    assert reply_of(question, ended) == reply


def test_a_conversation_and_a_text_of_the_same_words_are_two_requests(
    tmp_path: Path, provider: Provider
) -> None:
    provider.will_answer("text", "chat")
    calls = coordinator(tmp_path)
    for _ in range(2):
        recorded = recorded_calls(calls.entries("job"), 1)
        gate = AttemptGate(calls, "job", 1, recorded, calls.stop.wait)
        client = model(provider, gate=gate)
        assert client.complete(PROMPT).content == "text"
        conversation = [Message("user", PROMPT)]
        assert client.complete(conversation).content == "chat"
    assert len(provider.requests) == 2
