"""Runs in several processes of this machine, some of them killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import psutil
import pytest

from bench.cli.commands import run_command
from core.errors import UserError
from environments.base import EnvironmentKind
from runs.calls.budget import BudgetLimits
from runs.calls.ledger import total
from runs.engines.pipes import BrokenPipeLineError, Pipe
from runs.scale import Money, Scale, shares
from tests.bench.runs import EDIT, IDS, TOP, config, ended_over_budget, options, read, started
from tests.provider import Answer, Provider
from tests.runs.engines.lost_workers import (
    kill_in_the_middle,
    ledger,
    predictions,
    talkative,
    wait_for,
)

ALL = ("demo__bank-1", "demo__bank-2", "demo__textkit-1", "demo__textkit-2", "demo__units-1")
TWO = Scale(workers=4, jobs=2, processes=2)


def workers_of(pid: int) -> list[psutil.Process]:
    """Return the worker processes of a driver, in the order of their starts."""
    found = [p for p in psutil.Process(pid).children() if "processworker" in " ".join(p.cmdline())]
    return sorted(found, key=lambda process: process.pid)


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        (Scale(workers=4, jobs=8), [(4, 8)]),
        (Scale(workers=127, jobs=8), [(127, 8)]),
        (Scale(workers=256, jobs=2), [(128, 1), (128, 1)]),
        (Scale(workers=256, jobs=16), [(64, 4)] * 4),
        (Scale(workers=7, jobs=5, processes=3), [(3, 2), (2, 2), (2, 1)]),
        (Scale(workers=2, jobs=9, processes=5), [(1, 5), (1, 4)]),
    ],
)
def test_processes_share_what_a_run_does_at_once(
    scale: Scale, expected: list[tuple[int, int]]
) -> None:
    assert [(part.workers, part.jobs) for part in shares(scale)] == expected


def test_replayed_replies_give_the_predictions_of_one_process(tmp_path: Path, cache: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    assert run_command(config(), options(here, cache, *ALL), lambda _: None) == 0
    both = options(there, tmp_path / "cache", *ALL, scale=TWO)
    assert run_command(config(), both, lambda _: None) == 0
    assert predictions(there) == predictions(here)
    assert len(predictions(here)) == len(ALL)
    assert not workers_of(os.getpid())
    texts = [(out / f"logs/r/{ALL[-1]}.log").read_text() for out in (here, there)]
    messages = [[line.split(" ", 2)[2] for line in text.splitlines()] for text in texts]
    assert messages[0] == messages[1]


def test_nothing_is_paid_twice_when_workers_are_killed(
    tmp_path: Path, cache: Path, provider: Provider
) -> None:
    provider.will_answer(Answer(EDIT, hang=1))

    def kill() -> None:
        workers_of(os.getpid())[0].kill()

    here = options(tmp_path / "here", cache, *ALL)
    there = options(tmp_path / "there", tmp_path / "cache", *ALL, scale=TWO)
    assert kill_in_the_middle(provider, here, there, [4], kill) > 0


@pytest.mark.long
def test_an_instance_whose_workers_die_again_and_again_is_given_up(
    tmp_path: Path, cache: Path, provider: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    provider.will_answer(Answer(EDIT, hang=60))
    two = Scale(workers=2, jobs=2, processes=2)
    with ThreadPoolExecutor(1) as other:
        run = other.submit(
            run_command, talkative(provider), options(tmp_path, cache, *IDS[:2], scale=two), print
        )
        for count in range(4):
            wait_for(2 * (count + 1), provider)
            for worker in workers_of(os.getpid()):
                worker.kill()
        assert run.result() == 1
    said = capsys.readouterr().out
    assert said.count("infra_error; infrastructure failed: its worker died 4 times (signal 9)") == 2
    assert [line.kind for line in ledger(tmp_path)] == ["failed"] * 8


def test_a_budget_is_never_passed(tmp_path: Path, cache: Path, provider: Provider) -> None:
    provider.will_answer(Answer(EDIT, hang=0.05))
    money = Money(BudgetLimits(usd=Decimal("0.008")))
    run = options(tmp_path, cache, *ALL, scale=TWO, money=money)
    run_command(talkative(provider, max_output_tokens=100), run, lambda _: None)
    spent = total(ledger(tmp_path))
    assert spent is not None
    assert 0 < spent <= Decimal("0.008")
    assert 1 < len(provider.requests) == len(ledger(tmp_path))
    assert ended_over_budget(tmp_path)


def test_what_the_user_must_mend_ends_the_run(
    tmp_path: Path, cache: Path, provider: Provider
) -> None:
    provider.will_answer(Answer(status=401))
    with pytest.raises(UserError, match="gpt-4o"):
        run_command(talkative(provider), options(tmp_path, cache, *ALL, scale=TWO), lambda _: None)
    assert not predictions(tmp_path)
    assert not workers_of(os.getpid())


def test_a_worker_that_lacks_something_ends_the_run(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    asks_docker = config(environment=EnvironmentKind.DOCKER)
    with pytest.raises(UserError, match="no Docker engine answers"):
        run_command(asks_docker, options(tmp_path, cache, *ALL, scale=TWO), lambda _: None)
    assert not workers_of(os.getpid())


def words(provider: Provider, out: Path) -> list[str]:
    return [
        sys.executable, "harness.py", "--processes", "2", "--workers", "4", "--jobs", "2",
        "--models", "gpt-4o@diff", "--tries", "2", "--dataset", "demo", "--instances",
        ",".join(IDS), "--environment", "none", "--api-base", provider.url, "--call-timeout", "30",
        "--run", "r", "--out", str(out), "--cache", str(out / "cache"),
    ]  # fmt: skip


def test_ctrl_c_keeps_every_reply_and_the_same_command_goes_on(
    tmp_path: Path, provider: Provider
) -> None:
    provider.will_answer(Answer(EDIT, hang=0.5))
    with started(words(provider, tmp_path)) as process:
        wait_for(3, provider)
        process.send_signal(signal.SIGINT)
    assert process.returncode == 130
    before = len(provider.requests)
    assert len(predictions(tmp_path)) < len(IDS)
    assert subprocess.run(words(provider, tmp_path), cwd=TOP, check=False).returncode == 0
    assert [line.kind for line in ledger(tmp_path)] == ["answered"] * len(provider.requests)
    used = [read(tmp_path, name, "trajectories")["attempts"] for name in IDS]
    calls = sum(len(attempt["calls"]) for attempts in used for attempt in attempts)
    assert before < len(provider.requests) == calls


@pytest.mark.parametrize("twice", [False, True], ids=["killed", "ctrl-c-twice"])
def test_no_worker_outlives_its_driver(tmp_path: Path, provider: Provider, twice: bool) -> None:
    provider.will_answer(Answer(EDIT, hang=60))
    with started(words(provider, tmp_path)) as process:
        wait_for(2, provider)
        workers = workers_of(process.pid)
        assert len(workers) == 2
        if twice:
            process.send_signal(signal.SIGINT)
            time.sleep(0.2)
        process.send_signal(signal.SIGINT if twice else signal.SIGKILL)
    assert process.returncode == (130 if twice else -9)
    assert psutil.wait_procs(workers, timeout=20)[1] == []


def test_a_pipe_answers_questions_and_tells_when_nobody_will() -> None:
    here, there = map(Pipe.of, socket.socketpair())
    got: list[object] = []

    def serve() -> None:
        for parcel in there.received():
            if parcel.question is None:
                got.append(parcel.content)
            elif parcel.content == "die":
                there.close()
                return
            else:
                there.send(parcel.content * 2, answers=parcel.question)

    server = threading.Thread(target=serve)
    reader = threading.Thread(target=lambda: list(here.received()))
    server.start()
    reader.start()
    here.send("plain")
    with ThreadPoolExecutor(8) as many:
        assert list(many.map(here.ask, range(100))) == [2 * n for n in range(100)]
    assert got == ["plain"]
    with pytest.raises(BrokenPipeLineError):
        here.ask("die")
    server.join()
    reader.join()
    for ask in (here.ask, here.send):
        with pytest.raises(BrokenPipeLineError):
            ask("more")
    here.close()
