"""A run that is killed again and again ends as one that nobody disturbed."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from swe_retry.demo.images import build_images
from swe_retry.demo.setup import DEMO_DATASET
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
    folder: Path
    options: str
    rng: random.Random
    cache: Path | None = None
    figures: Figures = field(default_factory=Figures)

    def argv(self, out: Path) -> list[str]:
        models = ",".join(f"{model}@diff" for model in MODELS)
        temperatures = ",".join(map(str, TEMPERATURES))
        common = (
            f"--dataset demo --run r --out {out} --set folders.cache={self.cache_of(out)} "
            f"--models {models} --set models.temperatures={temperatures} "
            f"--api-base {self.provider.url} --workers {WORKERS} --set scale.jobs=2"
        )
        return [*common.split(), *self.options.split()]

    def cache_of(self, out: Path) -> Path:
        return self.cache or out / "cache"

    def run_undisturbed(self, *, warm: bool = True) -> Undisturbed:
        left = Left(self.folder / "undisturbed")
        if self.cache and warm:
            # What is built once is in the cache before anything is measured.
            first = self.argv(self.folder / "first")
            self.harness.run(first)
        self.provider.requests.clear()
        started = time.monotonic()
        ended = self.harness.run(self.argv(left.out))
        assert ended.code == 0, ended.output
        assert not left.litter(self.cache_of(left.out))
        seconds = time.monotonic() - started
        return Undisturbed(
            left=left,
            requests=hashes(self.provider),
            writes=ended.writes,
            seconds=seconds,
        )

    def run_disturbed(self, measure: Undisturbed, max_kills: int) -> None:
        """Kill a run up to ``max_kills`` times, let it end, and compare."""
        self.figures.runs += 1
        left = Left(self.folder / f"disturbed-{self.figures.runs}")
        self.provider.requests.clear()
        kills = 0
        finished: dict[str, tuple[int, int]] = {}
        while kills < max_kills and self._run_and_kill(measure, left):
            kills += 1
            now = left.finished()
            assert finished.items() <= now.items(), "a finished instance was touched"
            finished = now
        ended = self.harness.run(self.argv(left.out))
        assert ended.code == 0, ended.output
        assert finished.items() <= left.finished().items()
        self._compare(measure, left)
        self.figures.kills += kills

    def _run_and_kill(self, measure: Undisturbed, left: Left) -> bool:
        """Start the run, kill it at a random write or moment, and tell whether it was alive."""
        argv = self.argv(left.out)
        if self.rng.random() < 0.6:
            last_write = max(2, measure.writes // 2)
            kill_at = self.rng.randint(1, last_write)
            torn = self.rng.random() < 0.7
            self.figures.torn += torn
            ended = self.harness.run(argv, kill_at=kill_at, torn=torn)
        else:
            seconds = self.rng.uniform(0, measure.seconds / 2)
            ended = self.harness.run(argv, seconds=seconds)
        return ended.code == -9

    def _compare(self, measure: Undisturbed, left: Left) -> None:
        assert left.results() == measure.left.results()
        assert left.litter(self.cache_of(left.out)) == []
        answered = left.count("answered")
        assert answered == measure.left.count("answered"), "a reply was bought twice"
        lost = left.count("lost")
        by_request = Counter[str]()
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
    ids = "demo__bank-1,demo__units-1,demo__units-2"
    options = f"--environment none --tries 3 --instances {ids}"
    rng = random.Random(SEED)
    trial = Trial(harness, demo_provider, tmp_path, options, rng)
    measure = trial.run_undisturbed()
    assert measure.requests.total() > 8
    while trial.figures.kills < 6:
        trial.run_disturbed(measure, 6 - trial.figures.kills)


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "kills", "warm"),
    [
        ("--environment none --tries 3 --set choice.stop=all", 160, False),
        ("--environment local --tries 3", 60, True),
        pytest.param(
            "--environment docker --tries 3",
            12,
            True,
            marks=pytest.mark.docker,
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
    options: str,
    kills: int,
    warm: bool,
) -> None:
    if "docker" in options:
        folders = (DEMO_DATASET / "tasks").iterdir()
        build_images(sorted(folder.name for folder in folders))
    shared = cache if warm else None
    rng = random.Random(SEED)
    trial = Trial(harness, demo_provider, tmp_path, options, rng, shared)
    measure = trial.run_undisturbed()
    while trial.figures.kills < kills:
        trial.run_disturbed(measure, kills)
        with capsys.disabled():
            print(f"\n{options}: {trial.figures}")
