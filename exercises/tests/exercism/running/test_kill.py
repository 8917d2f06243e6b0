"""A run of exercises that is killed again and again ends as one that nobody disturbed."""

from __future__ import annotations

import random
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from exercises.tests.support.exercism import (
    THREE,
    ExerciseProvider,
    ExerciseRun,
    late_examples,
    needs_bubblewrap,
    requests,
    six,
)
from swe_retry.agent.formats.protocol import Notation
from tests.support.commands import EXERCISM, Preloaded
from tests.support.killing import Harness, Left
from tests.support.provider import Answer

pytestmark = needs_bubblewrap
SEED = 20230702
FAST = ("--set", "exercises.profile=2023")
DIFF = (*FAST, "--set", f"exercises.ids={THREE}", "--formats", "diff")


@dataclass
class KilledRuns:
    """Runs of one configuration, all but the first of which are killed."""

    harness: Harness
    provider: ExerciseProvider
    folder: Path
    options: tuple[str, ...]
    rng: random.Random

    def __post_init__(self) -> None:
        self.undisturbed = self.run_in("one")
        # What is measured once is in the cache before writes are counted.
        for run in (self.run_in("first"), self.undisturbed):
            self.provider.requests.clear()
            ended = self.harness.run(run.argv(self.provider))
            assert ended.code == 0, ended.output
        self.writes = ended.writes
        self.sent = Counter(requests(self.provider))

    def run_in(self, name: str) -> ExerciseRun:
        cache = self.folder / "cache"
        return ExerciseRun(self.folder / name, cache, self.options)

    def disturb(self, kills: int) -> int:
        """Kill a run up to ``kills`` times, let it end, compare; return how often it was killed."""
        run = self.run_in(f"kill-{kills}")
        self.provider.requests.clear()
        killed = 0
        finished = set[tuple[str, int]]()
        while killed < kills:
            kill_at = self.rng.randint(1, max(2, self.writes // 3))
            torn = self.rng.random() < 0.5
            argv = run.argv(self.provider)
            ended = self.harness.run(argv, kill_at=kill_at, torn=torn)
            if ended.code != -9:
                break
            killed += 1
            now = set()
            for path in run.folder.glob("results/*/*/*.json"):
                now.add((str(path), path.stat().st_ino))
            assert finished <= now, "a finished exercise was written again"
            finished = now
        ended = self.harness.run(run.argv(self.provider))
        assert ended.code == 0, ended.output
        self._compare(run)
        return killed

    def _compare(self, run: ExerciseRun) -> None:
        assert run.results() == self.undisturbed.results()
        left = Left(run.out)
        measure = Left(self.undisturbed.out)
        answered = left.count("answered")
        assert answered == measure.count("answered"), "a reply was bought twice"
        assert set(answered.values()) == {1}
        lost = left.count("lost").total()
        extra = Counter(requests(self.provider)) - self.sent
        assert extra.total() <= lost
        assert left.litter(run.cache) == []


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory, preloaded: Preloaded) -> Harness:
    environ = {"OPENAI_API_KEY": "none"}
    outputs = tmp_path_factory.mktemp("outputs")
    return Harness(preloaded, outputs, environ, script=EXERCISM)


class Watched(ExerciseProvider):
    """Tells when a request has come, and answers a moment later."""

    def __init__(self, latency: float) -> None:
        exercises = list(six().values())
        super().__init__(exercises, late_examples, Notation.OF_2023, latency)
        self.reached = threading.Event()

    def answer(self, request: dict[str, Any]) -> Answer:
        self.reached.set()
        return super().answer(request)


@pytest.fixture
def server() -> Iterator[ExerciseProvider]:
    with Watched(latency=0.03) as provider:
        yield provider


@pytest.mark.long
def test_a_few_kills(
    tmp_path: Path,
    harness: Harness,
    server: ExerciseProvider,
) -> None:
    trial = KilledRuns(harness, server, tmp_path, DIFF, random.Random(SEED))
    assert trial.disturb(3) > 0


def test_an_interrupt_keeps_what_is_paid_for(tmp_path: Path, harness: Harness) -> None:
    run = ExerciseRun(tmp_path, tmp_path / "cache", DIFF)
    with Watched(latency=1.0) as provider:
        argv = run.argv(provider)
        started = harness.start(argv)
        assert provider.reached.wait(120)
        started.send_signal(signal.SIGTERM)
        ended = harness.wait_for_end(started)
        assert ended.code == 130, ended.output
        [record] = run.records().values()
        assert record["not_completed"]
        assert record["total_tests"] == 3
        assert harness.run(argv).code == 0
    assert max(Counter(requests(provider)).values()) == 1, "no reply is bought twice"
    [record] = run.records().values()
    assert record["pass_num_2"] == 3
    assert "not_completed" not in record


@pytest.mark.long
def test_fifty_kills(
    tmp_path: Path,
    harness: Harness,
    server: ExerciseProvider,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = (*FAST, "--formats", "whole,diff-func", "--set", "exercises.repeats=2")
    trial = KilledRuns(harness, server, tmp_path, options, random.Random(SEED))
    kills = 0
    while kills < 50:
        kills += trial.disturb(50 - kills)
        with capsys.disabled():
            print(f"\n{kills} kills")
