"""Runs that are interrupted or killed end as undisturbed ones, and pay for nothing twice."""

from __future__ import annotations

import json
import random
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exercises.tests.canitedit.conftest import generate
from exercises.tests.support.canitedit import (
    Solver,
    bytes_of,
    files,
    run_folder,
    run_options,
)
from swe_retry_exercises.canitedit.results import read_file
from tests.support.commands import Preloaded
from tests.support.killing import Ended, Harness, Left, check_ledger, hashes
from tests.support.provider import Answer, Provider

SEED = 20231218

LAZY = "--set completions.kinds=lazy"


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory, preloaded: Preloaded) -> Harness:
    outputs = tmp_path_factory.mktemp("outputs")
    return Harness(preloaded, outputs, script="canitedit-generate")


class Counting(Solver):
    """Tells when so many requests have come."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.reached = threading.Event()

    def answer(self, request: dict[str, Any]) -> Answer:
        if len(self.requests) >= self.number:
            self.reached.set()
        answer = super().answer(request)
        return replace(answer, hang=0.2)


def test_an_interrupt_keeps_what_was_paid_for(tmp_path: Path, command: Harness) -> None:
    with Counting(5) as provider:
        argv = run_options(tmp_path, provider.url)
        started = command.start(argv)
        assert provider.reached.wait(120)
        started.send_signal(signal.SIGINT)
        ended = command.wait_for_end(started)
        assert ended.code == 130, ended
        assert len(provider.requests) < 24
        assert command.run(argv).code == 0
    assert len(provider.requests) == 24
    assert len(files(tmp_path)) == 12


class CompletionsLeft(Left):
    """See ``Left``: a file of completions stands beside each record."""

    def beside(self, prediction: Path) -> Iterator[Path]:
        record = json.loads(prediction.read_text())
        path = self.folder / record["folder"] / record["file"]
        assert len(read_file(path).completions) == record["completions"]
        yield path


def kill_and_continue(
    folder: Path,
    command: Harness,
    provider: Solver,
    kills: int,
    *options: str,
) -> None:
    """Kill runs again and again, at random writes and moments, and compare with one undisturbed."""
    rng = random.Random(SEED)
    provider.hang = 0.03
    undisturbed = CompletionsLeft(folder / "undisturbed")
    started = time.monotonic()
    ended = command.run(run_options(undisturbed.out, provider.url, *options))
    assert ended.code == 0, ended
    seconds = time.monotonic() - started
    requests = hashes(provider)
    kill_count = 0
    run_count = 0
    while kill_count < kills:
        run_count += 1
        left = CompletionsLeft(folder / f"disturbed-{run_count}")
        argv = run_options(left.out, provider.url, *options)
        provider.requests.clear()
        finished: dict[str, tuple[int, int]] = {}
        while kill_count < kills:
            killed = kill_run(command, argv, rng, ended, seconds)
            if killed.code != -9:
                break
            kill_count += 1
            now = left.finished()
            assert finished.items() <= now.items(), "a finished file was touched"
            finished = now
        last = command.run(argv)
        assert last.code == 0, last
        assert left.results() == undisturbed.results()
        assert left.litter(left.out / "cache") == []
        check_ledger(undisturbed, left)
        answers = left.count("answered")
        bought = undisturbed.count("answered")
        assert answers == bought, "a reply was bought twice"
        assert set(answers.values()) == {1}
        lost = left.count("lost").total()
        sent = hashes(provider)
        repeated = sent - requests
        assert repeated.total() <= lost
        assert not requests - sent


def kill_run(
    command: Harness,
    argv: list[str],
    rng: random.Random,
    undisturbed: Ended,
    seconds: float,
) -> Ended:
    if rng.random() < 0.6:
        last_write = max(2, undisturbed.writes // 2)
        kill_at = rng.randint(1, last_write)
        torn = rng.random() < 0.7
        return command.run(argv, kill_at=kill_at, torn=torn)
    moment = rng.uniform(0, seconds / 2)
    return command.run(argv, seconds=moment)


@pytest.mark.long
def test_a_run_that_is_killed_ends_as_one_undisturbed(
    tmp_path: Path,
    command: Harness,
    solver: Solver,
) -> None:
    kill_and_continue(tmp_path, command, solver, 5, *LAZY.split())


@pytest.mark.long
def test_fifty_kills(tmp_path: Path, command: Harness, solver: Solver) -> None:
    kill_and_continue(tmp_path, command, solver, 50)


@pytest.mark.long
@pytest.mark.ray
def test_on_ray(tmp_path: Path, solver: Solver) -> None:
    on_ray = f"{LAZY} --set scale.ray=own"
    assert generate(solver, tmp_path, on_ray).code == 0
    assert generate(solver, tmp_path / "threads", LAZY).code == 0
    assert bytes_of(tmp_path) == bytes_of(tmp_path / "threads")
    with Provider() as provider:
        provider.will_answer(Answer(status=401))
        ended = generate(provider, tmp_path / "key", on_ray)
    assert ended.code == 1
    assert "refused the key" in ended.err
    assert not list(run_folder(tmp_path / "key").glob("gpt-4o*"))
