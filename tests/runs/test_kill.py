"""A run that is killed again and again ends as one that nobody disturbed."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from demo.images import build_images
from demo.setup import DEMO_DATASET
from runs.calls.journal import EntryKind
from tests.support.commands import Preloaded
from tests.support.killing import (
    MODELS,
    TEMPERATURES,
    DemoProvider,
    Harness,
    Left,
    check_ledger,
    hashes,
)

WORKERS = 4
SEED = 20240523


@dataclass
class Figures:
    """What was done to runs, and what it cost."""

    runs: int = 0
    kills: int = 0
    torn: int = 0
    requests: int = 0
    undisturbed: int = 0
    extra: int = 0
    lost: int = 0


@dataclass(frozen=True)
class Undisturbed:
    """A run from beginning to end, the measure of the others."""

    left: Left
    requests: Counter[str]
    writes: int
    seconds: float


@dataclass(frozen=True)
class Trial:
    """Runs with one configuration, of which all but the first are killed."""

    harness: Harness
    provider: DemoProvider
    place: Path
    options: tuple[str, ...]
    rng: random.Random
    cache: Path | None = None
    figures: Figures = field(default_factory=Figures)

    def words(self, out: Path) -> list[str]:
        temperatures = ",".join(map(str, TEMPERATURES))
        return [
            "--dataset",
            "demo",
            "--models",
            ",".join(f"{m}@diff" for m in MODELS),
            "--set",
            f"models.temperatures={temperatures}",
            "--api-base",
            self.provider.url,
            "--run",
            "r",
            "--workers",
            str(WORKERS),
            "--set",
            "scale.jobs=2",
            "--out",
            str(out),
            "--set",
            f"folders.cache={self.cache_of(out)}",
            *self.options,
        ]

    def cache_of(self, out: Path) -> Path:
        return self.cache or out / "cache"

    def undisturbed(self, *, warm: bool = True) -> Undisturbed:
        left = Left(self.place / "undisturbed")
        if self.cache and warm:
            # What is built once is in the cache before anything is measured.
            self.harness.run(self.words(self.place / "first"))
        self.provider.requests.clear()
        started = time.monotonic()
        ended = self.harness.run(self.words(left.out))
        assert ended.code == 0, ended.said
        assert not left.litter(self.cache_of(left.out))
        seconds = time.monotonic() - started
        return Undisturbed(left, hashes(self.provider), ended.writes, seconds)

    def disturbed(self, measure: Undisturbed, most: int) -> None:
        """Kill a run up to ``most`` times, let it end, and compare."""
        self.figures.runs += 1
        left = Left(self.place / f"disturbed-{self.figures.runs}")
        self.provider.requests.clear()
        kills = 0
        finished = {}
        while kills < most and self._killed(measure, left):
            kills += 1
            now = left.finished()
            assert finished.items() <= now.items(), "a finished instance was touched"
            finished = now
        ended = self.harness.run(self.words(left.out))
        assert ended.code == 0, ended.said
        assert finished.items() <= left.finished().items()
        self._compare(measure, left)
        self.figures.kills += kills

    def _killed(self, measure: Undisturbed, left: Left) -> bool:
        """Start the run, kill it at a random write or moment, and tell whether it was alive."""
        words = self.words(left.out)
        if self.rng.random() < 0.6:
            at = self.rng.randint(1, max(2, measure.writes // 2))
            torn = self.rng.random() < 0.7
            self.figures.torn += torn
            return self.harness.run(words, kill_at=at, torn=torn).code == -9
        seconds = self.rng.uniform(0, measure.seconds / 2)
        return self.harness.run(words, seconds=seconds).code == -9

    def _compare(self, measure: Undisturbed, left: Left) -> None:
        assert left.results() == measure.left.results()
        assert left.litter(self.cache_of(left.out)) == []
        answered = left.count(EntryKind.ANSWERED)
        assert answered == measure.left.count(EntryKind.ANSWERED), (
            "a reply was bought twice"
        )
        lost = left.count(EntryKind.LOST)
        by_request = Counter()
        for (_, _, sha256), number in lost.items():
            by_request[sha256] += number
        extra = hashes(self.provider) - measure.requests
        assert extra <= by_request
        assert not measure.requests - hashes(self.provider)
        check_ledger(measure.left, left)
        self.figures.requests += len(self.provider.requests)
        self.figures.undisturbed += measure.requests.total()
        self.figures.extra += extra.total()
        self.figures.lost += lost.total()


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory, preloaded: Preloaded) -> Harness:
    return Harness(preloaded, tmp_path_factory.mktemp("outputs"))


@pytest.fixture
def demo_provider() -> Iterator[DemoProvider]:
    server = DemoProvider()
    with server:
        yield server


def test_a_run_that_is_killed_again_and_again_ends_as_one_undisturbed(
    tmp_path: Path, harness: Harness, demo_provider: DemoProvider
) -> None:
    few = "demo__bank-1,demo__units-1,demo__units-2"
    options = ("--environment", "none", "--tries", "3", "--instances", few)
    trial = Trial(harness, demo_provider, tmp_path, options, random.Random(SEED))
    measure = trial.undisturbed()
    assert measure.requests.total() > 8
    while trial.figures.kills < 8:
        trial.disturbed(measure, 8 - trial.figures.kills)


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "kills", "warm"),
    [
        (
            ("--environment", "none", "--tries", "3", "--set", "choice.stop=all"),
            160,
            False,
        ),
        (("--environment", "local", "--tries", "3"), 60, True),
        pytest.param(
            ("--environment", "docker", "--tries", "3"),
            12,
            True,
            marks=[pytest.mark.docker],
        ),
    ],
    ids=["none", "local", "docker"],
)
def test_hundreds_of_kills(
    tmp_path: Path,
    cache: Path,
    harness: Harness,
    demo_provider: DemoProvider,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    kills: int,
    warm: bool,
) -> None:
    if "docker" in options:
        build_images(sorted(path.name for path in (DEMO_DATASET / "tasks").iterdir()))
    shared = None
    if warm:
        shared = cache
    trial = Trial(
        harness, demo_provider, tmp_path, options, random.Random(SEED), shared
    )
    measure = trial.undisturbed()
    while trial.figures.kills < kills:
        trial.disturbed(measure, kills)
        with capsys.disabled():
            print(f"\n{' '.join(options)}: {trial.figures}")
