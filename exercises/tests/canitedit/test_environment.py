"""Where programs run: an image that is built on demand, a virtual environment of one's own."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from swe_retry.core.errors import UserError
from swe_retry.environments.base import EnvironmentKind, UnavailableError
from swe_retry.environments.choice import make_folders
from swe_retry.environments.docker.engine import connect
from swe_retry.environments.docker.environment import label_of
from swe_retry.environments.folders import FolderCommand
from swe_retry.environments.local.confinement import cgroups_work, limited_group
from swe_retry.environments.local.venvs import Venvs
from swe_retry.runner.settings import FolderSettings
from swe_retry_exercises.canitedit import evaluation
from swe_retry_exercises.canitedit.evaluation import (
    DOCKERFILE,
    LIMITS,
    REQUIREMENTS,
    ProgramEnvironment,
    TestedProgram,
    outcome_of,
    program_environment,
)
from swe_retry_exercises.canitedit.settings import (
    CompletionReportSettings,
    ProgramEvaluation,
)
from tests.support.environments import IMAGE

BASE = "swe-retry-harness/canitedit-base:test"
CACHE = Path(tempfile.gettempdir()) / "canitedit-tests"
LOCAL = EnvironmentKind.LOCAL
DOCKER = EnvironmentKind.DOCKER
PYTHON = Path(sys.executable)
pytestmark = pytest.mark.usefixtures("needs_bubblewrap")


@contextmanager
def environment_with(
    *modules: str,
    kind: EnvironmentKind = LOCAL,
    python: Path | None = PYTHON,
    cache: Path = CACHE,
) -> Iterator[ProgramEnvironment]:
    """Make an environment, and try to import modules in it."""
    settings = CompletionReportSettings(
        evaluation=ProgramEvaluation(environment=kind, interpreter=python),
        folders=FolderSettings(cache=cache),
    )
    with program_environment(settings, frozenset(modules), lambda: None) as environment:
        yield environment


def run_key(cache: Path) -> str:
    return f"canitedit {cache}"


def test_it_is_identified_by_its_python_libraries_and_rules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with environment_with() as first, environment_with("json", "vllm") as second:
        assert first.cache == second.cache
        assert first.missing == second.missing == {}, "a stub stands for vllm"
    monkeypatch.setattr(evaluation, "SECONDS", 14)
    with environment_with() as third:
        assert third.cache != first.cache


def test_a_module_that_is_missing_or_fails_is_named() -> None:
    with environment_with("json", "numpyy", "antigravityy.x") as environment:
        error = environment.missing["numpyy"]
        assert set(environment.missing) == {"numpyy", "antigravityy.x"}
        assert error == "ModuleNotFoundError: No module named 'numpyy'"


def test_libraries_that_cannot_be_installed_are_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: object) -> Path:
        raise UnavailableError(
            "cannot install the packages of canitedit: no torch for this Python"
        )

    monkeypatch.setattr(Venvs, "dependencies", refuse)
    error = r"no torch.*evaluation\.interpreter and report\.allow_missing"
    with (
        pytest.raises(UserError, match=error),
        environment_with(python=None, cache=tmp_path),
    ):
        pass


def test_no_environment_runs_nothing() -> None:
    none = EnvironmentKind.NONE
    with (
        pytest.raises(UserError, match="use local or docker"),
        environment_with(kind=none),
    ):
        pass


def test_what_a_killed_evaluation_left_is_removed(tmp_path: Path) -> None:
    if not cgroups_work():
        pytest.skip("no cgroup can be made here")
    key = run_key(tmp_path)
    with limited_group(LIMITS, key) as left, environment_with(cache=tmp_path):
        assert not any(folder.exists() for folder in left.folders)
    with (
        environment_with(cache=tmp_path),
        limited_group(LIMITS, key) as used,
        environment_with(cache=tmp_path),
    ):
        assert all(folder.exists() for folder in used.folders)


@pytest.mark.docker
def test_a_container_that_was_left_is_removed(
    engine: Any, base: str, tmp_path: Path
) -> None:
    key = run_key(tmp_path)
    folders = make_folders(DOCKER, None, base, limits=LIMITS, run_key=key)
    assert folders.run(FolderCommand(("true",), {}, 20)).exit_code == 0
    [(name, value)] = label_of(key).items()
    label = {"label": f"{name}={value}"}
    assert len(engine.containers.list(all=True, filters=label)) == 1
    with evaluation._without_leftovers(tmp_path, key, DOCKER):
        assert not engine.containers.list(all=True, filters=label)
    folders.stop()


def test_requirements_are_pinned_and_named_in_the_image() -> None:
    lines = [line for line in REQUIREMENTS.read_text().splitlines() if line[0] != "#"]
    assert all("==" in line.partition(";")[0] for line in lines)
    libraries = (
        "autograd coverage flask numpy pandas scikit-learn scipy torch z3-solver"
    )
    assert {line.partition("==")[0] for line in lines} == set(libraries.split())
    assert "COPY requirements.txt" in DOCKERFILE.read_text()


@pytest.fixture
def engine() -> Iterator[Any]:
    client = connect()
    if client is None:
        pytest.skip("no Docker engine answers")
    yield client
    client.close()


@pytest.fixture
def base(engine: Any, tmp_path: Path) -> Iterator[str]:
    """An image with coverage, which cannot be fetched here."""
    import coverage

    target = "/usr/local/lib/python3.11/dist-packages/coverage"
    context = tmp_path / "image"
    shutil.copytree(Path(coverage.__file__).parent, context / "coverage")
    dockerfile = context / "Dockerfile"
    dockerfile.write_text(f"FROM {IMAGE}\nCOPY coverage {target}\n")
    engine.images.build(path=str(context), tag=BASE, rm=True, forcerm=True)
    yield BASE
    engine.images.remove(BASE, force=True)


@pytest.mark.docker
def test_an_image_is_built_once_and_runs_programs(
    engine: Any,
    base: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    dockerfile = tmp_path / "Dockerfile"
    dockerfile.write_text(
        f"FROM {base}\nARG PIP_INDEX_URL\nCOPY requirements.txt /was-there\n"
    )
    monkeypatch.setattr(evaluation, "DOCKERFILE", dockerfile)
    name = ""
    try:
        with environment_with("torch", kind=DOCKER, python=None) as environment:
            [line] = capsys.readouterr().err.splitlines()
            name = line.split()[3].rstrip(";")
            assert name.startswith("swe-retry-harness/canitedit:")
            assert set(environment.missing) == {"torch"}
            text = "def f():\n    return 1\n\n\nassert open('/was-there').read()\nassert f()\n"
            outcome = outcome_of(environment.folders, TestedProgram(text))
            assert outcome.has_passed is True
            assert outcome.coverage == 100
        with environment_with(kind=DOCKER, python=None) as again:
            assert again.cache == environment.cache
            assert capsys.readouterr().err == ""
    finally:
        with suppress(Exception):
            engine.images.remove(name, force=True)
