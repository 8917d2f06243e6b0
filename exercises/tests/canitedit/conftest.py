"""Programs run with the Python of these tests, which needs coverage; completions are generated."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exercises.tests.commands import CANITEDIT, Ended
from exercises.tests.support.canitedit import Solver, run_options
from swe_retry.environments.base import EnvironmentKind
from swe_retry.environments.choice import make_folders
from swe_retry.environments.folders import Folders
from swe_retry.environments.local.bubblewrap import bubblewrap_works
from swe_retry_exercises.canitedit import evaluation
from swe_retry_exercises.canitedit.evaluation import LIMITS, TestedProgram, outcome_of
from swe_retry_exercises.canitedit.results import EvaluatedProgram
from tests.support.environments import IMAGE, PYTHON
from tests.support.provider import Provider

RunProgram = Callable[[str], EvaluatedProgram]

KINDS = (
    pytest.param(EnvironmentKind.LOCAL, id="local"),
    pytest.param(EnvironmentKind.DOCKER, id="docker", marks=pytest.mark.docker),
)

NO_SERVER = "http://127.0.0.1:1/v1"


def generate(provider: Provider | None, out: Path, options: str = "") -> Ended:
    """Generate completions of our problems by a server, or without one."""
    url = NO_SERVER
    if provider:
        url = provider.url
    line = shlex.join(run_options(out, url))
    return CANITEDIT.run(f"run {line} {options}")


@pytest.fixture
def solver() -> Iterator[Solver]:
    with Solver() as provider:
        yield provider


@pytest.fixture(scope="module")
def needs_bubblewrap() -> None:
    if not bubblewrap_works():
        pytest.skip("bubblewrap is not installed")


@pytest.fixture(scope="module", params=KINDS)
def folders(request: pytest.FixtureRequest) -> Iterator[Folders]:
    folders = make_folders(
        request.param,
        PYTHON,
        IMAGE,
        limits=LIMITS,
        run_key="canitedit-tests",
    )
    yield folders
    folders.stop()


@pytest.fixture
def run(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> RunProgram:
    """Run a program in little time."""
    monkeypatch.setattr(evaluation, "SECONDS", 2.0)
    return lambda text: outcome_of(folders, TestedProgram(text))
