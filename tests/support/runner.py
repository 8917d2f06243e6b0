"""Starts runs of the demo's instances in this process, and reads what they wrote."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from swe_retry.attempts.config import ModelChoice, RunConfig
from swe_retry.record.store import RunStore
from swe_retry.runner.calls.coordinator import AttemptGate, recorded_calls
from swe_retry.runner.calls.journal import JournalEntry
from swe_retry.runner.calls.ledger import LedgerLine, read_ledger
from tests.support.provider import Provider
from tests.support.runs import Start, live, options, read, read_money, started
from tests.support.start import run_command

PATCH = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-1\n+2\n"
ID = "demo__textkit-1"
OTHER = "demo__bank-1"


def arguments(out: Path, ids: Iterable[str], options: str) -> list[str]:
    """Return the command line of the run ``r`` of some of the demo's instances."""
    folders = f"--out {out} --set folders.cache={out}/cache"
    run = f"--run r --dataset demo --instances {','.join(ids)}"
    line = f"{run} {folders} {options}"
    return line.split()


def start_run(out: Path, ids: Iterable[str], options: str) -> subprocess.Popen[bytes]:
    """Start such a run in a process of its own, which takes SIGINT."""
    return started([sys.executable, "harness.py", *arguments(out, ids, options)])


def run_silently(config: RunConfig, options: Start) -> int:
    """Return the exit code of a run in this process."""
    return run_command(config, options, lambda _: None)


def make_gate(entries: Sequence[JournalEntry]) -> AttemptGate:
    """Return the gate of an attempt whose journal has these entries, and that makes no call."""
    coordinator: Any = None
    recorded = recorded_calls(entries, 1)
    return AttemptGate(coordinator, "i", 1, recorded, lambda _: None)


def in_threads(count: int, work: Callable[[int], object]) -> None:
    """Call ``work`` with the numbers from 0 on, in a thread each, and wait for all."""
    threads = []
    for number in range(count):
        thread = threading.Thread(target=work, args=(number,))
        thread.start()
        threads.append(thread)
    for thread in threads:
        thread.join()


@pytest.fixture
def eager_switches() -> Iterator[None]:
    """Switch threads so often that a missing lock is noticed."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@dataclass(frozen=True)
class Outcome:
    """The exit code of a start, and what it printed."""

    code: int
    output: str

    @property
    def lines(self) -> list[str]:
        return self.output.splitlines()


@dataclass(frozen=True)
class Runner:
    """Starts the run ``r`` below ``out``, of the instances ``ids`` unless others are given."""

    out: Path
    cache: Path
    provider: Provider
    ids: tuple[str, ...] = (ID,)

    def below(self, name: str) -> Runner:
        """Return a runner whose runs lie in a folder of their own."""
        return replace(self, out=self.out / name)

    def live(self, *models: str, **changes: Any) -> RunConfig:
        """Return a configuration that asks the provider; two models unless some are given."""
        if models:
            choices = tuple(ModelChoice.parse(name, any_name=True) for name in models)
            changes["models"] = choices
        return live(self.provider, **changes)

    def start(
        self, config: RunConfig, budget: dict[str, Any] | None = None, **changes: Any
    ) -> Outcome:
        if budget:
            changes["money"] = read_money(config.models, **budget)
        lines: list[str] = []
        run = options(self.out, self.cache, *self.ids, **changes)
        code = run_command(config, run, lines.append)
        return Outcome(code, "\n".join(lines))

    @property
    def store(self) -> RunStore:
        return RunStore(self.out, "r")

    def ledger(self) -> list[LedgerLine]:
        return list(read_ledger(self.store.ledger).values)

    def prediction(self, instance_id: str = ID) -> dict[str, Any]:
        return read(self.out, instance_id)

    def status(self, instance_id: str = ID) -> str:
        return str(self.prediction(instance_id)["status"])


@pytest.fixture
def runner(tmp_path: Path, cache: Path, provider: Provider) -> Runner:
    return Runner(tmp_path, cache, provider)
