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

from agent.formats.base import Notation
from tests.support.commands import EXERCISM, Preloaded
from tests.support.exercism import (
    THREE,
    ExerciseProvider,
    ExerciseRun,
    late_examples,
    needs_bubblewrap,
    requests,
    six,
)
from tests.support.killing import Harness, Left
from tests.support.provider import Answer

pytestmark = needs_bubblewrap
SEED = 20230702
FAST = ("--set", "exercises.profile=2023")


@dataclass
class KilledRuns:
    """Runs of one configuration, all but the first of which are killed."""

    harness: Harness
    provider: ExerciseProvider
    folder: Path
    options: tuple[str, ...]
    rng: random.Random

    def __post_init__(self) -> None:
        self.undisturbed = ExerciseRun(
            self.folder / "one", self.folder / "cache", self.options
        )
        # What is measured once is in the cache before writes are counted.
        first = ExerciseRun(self.folder / "first", self.folder / "cache", self.options)
        for run in (first, self.undisturbed):
            self.provider.requests.clear()
            ended = self.harness.run(run.words(self.provider))
            assert ended.code == 0, ended.said
        self.writes = ended.writes
        self.sent = Counter(requests(self.provider))

    def disturb(self, kills: int) -> int:
        """Kill a run up to ``kills`` times, let it end, compare; return how often it was killed."""
        run = ExerciseRun(
            self.folder / f"kill-{kills}", self.folder / "cache", self.options
        )
        self.provider.requests.clear()
        killed = 0
        finished = set[tuple[str, int]]()
        while killed < kills:
            at = self.rng.randint(1, max(2, self.writes // 3))
            torn = self.rng.random() < 0.5
            ended = self.harness.run(run.words(self.provider), kill_at=at, torn=torn)
            if ended.code != -9:
                break
            killed += 1
            now = set()
            for p in run.folder.glob("results/*/*/*.json"):
                now.add((str(p), p.stat().st_ino))
            assert finished <= now, "a finished exercise was written again"
            finished = now
        ended = self.harness.run(run.words(self.provider))
        assert ended.code == 0, ended.said
        self._compare(run)
        return killed

    def _compare(self, run: ExerciseRun) -> None:
        assert run.results() == self.undisturbed.results()
        left = Left(run.out)
        measure = Left(self.undisturbed.out)
        answered = left.count("answered")
        assert answered == measure.count("answered"), "a reply was bought twice"
        assert {*answered.values()} == {1}
        lost = left.count("lost").total()
        extra = Counter(requests(self.provider)) - self.sent
        assert extra.total() <= lost
        assert left.litter(run.cache) == []


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory, preloaded: Preloaded) -> Harness:
    environ = {"OPENAI_API_KEY": "none"}
    return Harness(
        preloaded, tmp_path_factory.mktemp("outputs"), environ, script=EXERCISM
    )


@pytest.fixture
def server() -> Iterator[ExerciseProvider]:
    with ExerciseProvider(
        [*six().values()], late_examples, Notation.OF_2023, latency=0.03
    ) as provider:
        yield provider


@pytest.mark.long
def test_a_few_kills(
    tmp_path: Path, harness: Harness, server: ExerciseProvider
) -> None:
    options = (*FAST, "--set", f"exercises.ids={THREE}", "--formats", "diff")
    trial = KilledRuns(harness, server, tmp_path, options, random.Random(SEED))
    assert trial.disturb(3) > 0


class Watched(ExerciseProvider):
    """Tells when it is asked, and answers a moment later."""

    def __init__(self) -> None:
        super().__init__(
            [*six().values()], late_examples, Notation.OF_2023, latency=1.0
        )
        self.asked = threading.Event()

    def answer(self, request: dict[str, Any]) -> Answer:
        self.asked.set()
        return super().answer(request)


def test_an_interrupt_keeps_what_is_paid_for(tmp_path: Path, harness: Harness) -> None:
    run = ExerciseRun(
        tmp_path,
        tmp_path / "cache",
        (*FAST, "--set", f"exercises.ids={THREE}", "--formats", "diff"),
    )
    with Watched() as provider:
        started = harness.start(run.words(provider))
        assert provider.asked.wait(120)
        started.send_signal(signal.SIGTERM)
        ended = harness.ended(started)
        assert ended.code == 130, ended.said
        (record,) = run.records().values()
        assert record["not_completed"] and record["total_tests"] == 3
        assert harness.run(run.words(provider)).code == 0
    assert max(Counter(requests(provider)).values()) == 1, "no reply is bought twice"
    (record,) = run.records().values()
    assert (record["pass_num_2"], "not_completed" in record) == (3, False)


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
