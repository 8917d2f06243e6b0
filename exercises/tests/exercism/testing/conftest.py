"""A tester with small limits, for pytest and for unittest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exercises.tests.support.exercism import profile_of
from swe_retry.environments.base import EnvironmentKind, ResourceLimits
from swe_retry.environments.local.bubblewrap import bubblewrap_works
from swe_retry_exercises.exercism.tester import ExerciseTester

MB = 1 << 20
LIMITS = ResourceLimits(
    processes=60,
    memory=200 * MB,
    file_size=20 * MB,
    written=30 * MB,
    temporary=10 * MB,
    output=100_000,
    collected=MB,
)
MakeTester = Callable[..., ExerciseTester]


@pytest.fixture(scope="module")
def make_tester(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeTester]:
    """Make testers in sandboxes of this machine; examples are counted once for all of them."""
    if not bubblewrap_works():
        pytest.skip("bubblewrap is not installed")
    cache = tmp_path_factory.mktemp("tester")
    made = list[ExerciseTester]()

    def make(
        unittest: bool, timeout: float = 60.0, cache: Path = cache
    ) -> ExerciseTester:
        tester = ExerciseTester(
            profile_of(unittest, timeout),
            EnvironmentKind.LOCAL,
            cache,
            "test",
            warn_once=print,
            limits=LIMITS,
        )
        made.append(tester)
        return tester

    yield make
    for tester_made in made:
        tester_made.close()
