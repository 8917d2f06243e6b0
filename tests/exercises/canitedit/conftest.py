"""Programs run with the Python of these tests, which needs coverage."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from environments.base import EnvironmentKind
from environments.choice import make_folders
from environments.folders import Folders
from environments.local.bubblewrap import bubblewrap_works
from exercises.canitedit import evaluation
from exercises.canitedit.evaluation import LIMITS, TestedProgram, outcome_of
from exercises.canitedit.results import EvaluatedProgram
from tests.support.environments import IMAGE, PYTHON

RunProgram = Callable[[str], EvaluatedProgram]
KINDS = (
    pytest.param(EnvironmentKind.LOCAL, id="local"),
    pytest.param(EnvironmentKind.DOCKER, id="docker", marks=pytest.mark.docker),
)


@pytest.fixture(scope="module")
def needs_bubblewrap() -> None:
    if not bubblewrap_works():
        pytest.skip("bubblewrap is not installed")


@pytest.fixture(scope="module", params=KINDS)
def folders(request: pytest.FixtureRequest) -> Iterator[Folders]:
    made = make_folders(
        request.param, PYTHON, IMAGE, limits=LIMITS, run_key="canitedit-tests"
    )
    yield made
    made.stop()


@pytest.fixture
def run(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> RunProgram:
    """Run a program in little time."""
    monkeypatch.setattr(evaluation, "SECONDS", 2.0)
    return lambda text: outcome_of(folders, TestedProgram(text))
