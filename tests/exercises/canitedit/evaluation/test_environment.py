"""Where programs run: an image that is built on demand, a virtual environment of one's own."""

from __future__ import annotations

import io
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.errors import UserError
from environments.base import EnvironmentKind, UnavailableError
from environments.choice import make_folders
from environments.docker.engine import connect
from environments.docker.environment import label_of
from environments.folders import FolderCommand
from environments.local.confinement import cgroups_work, limited_group
from environments.local.venvs import Venvs
from exercises.canitedit.evaluation import running
from exercises.canitedit.evaluation.running import (
    DOCKERFILE,
    LIMITS,
    REQUIREMENTS,
    EnvironmentSource,
    ProgramEnvironment,
    TestedProgram,
    outcome_of,
    program_environment,
)
from tests.support.environments import IMAGE

BASE = "swe-retry-harness/canitedit-base:test"
LOCAL = EnvironmentSource(
    EnvironmentKind.LOCAL,
    Path(sys.executable),
    Path(tempfile.gettempdir()) / "canitedit-tests",
)


@contextmanager
def made(
    source: EnvironmentSource, *modules: str
) -> Iterator[tuple[ProgramEnvironment, list[str]]]:
    said = list[str]()
    with program_environment(source, modules, lambda: None, said.append) as found:
        yield found, said


def test_it_is_identified_by_its_python_libraries_and_rules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with made(LOCAL) as (first, _), made(LOCAL, "json") as (second, _):
        assert first.identity == second.identity
        assert first.python == sys.version.split()[0]
        assert first.missing == second.missing == {}
    monkeypatch.setattr(running, "rules_sha256", lambda: "other limits")
    with made(LOCAL) as (third, _):
        assert third.identity != first.identity


def test_a_module_that_is_missing_or_fails_is_named(tmp_path: Path) -> None:
    with made(LOCAL, "json", "numpyy", "antigravityy.x") as (found, _):
        assert {*found.missing} == {"numpyy", "antigravityy.x"}
        assert (
            found.missing["numpyy"] == "ModuleNotFoundError: No module named 'numpyy'"
        )


def test_libraries_that_cannot_be_installed_are_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: object) -> Path:
        raise UnavailableError(
            "cannot install the packages of canitedit: no torch for this Python"
        )

    monkeypatch.setattr(Venvs, "dependencies", refuse)
    source = replace(LOCAL, interpreter=None, cache=tmp_path)
    words = r"no torch.*evaluation\.interpreter and report\.allow_missing"
    with pytest.raises(UserError, match=words), made(source):
        pass


def test_no_environment_runs_nothing() -> None:
    source = replace(LOCAL, kind=EnvironmentKind.NONE)
    with pytest.raises(UserError, match="use local or docker"), made(source):
        pass


def test_what_a_killed_evaluation_left_is_removed(tmp_path: Path) -> None:
    if not cgroups_work():
        pytest.skip("no cgroup can be made here")
    source = replace(LOCAL, cache=tmp_path)
    with limited_group(LIMITS, source.run_key) as left, made(source):
        assert not any(folder.exists() for folder in left.folders)
    with made(source), limited_group(LIMITS, source.run_key) as used, made(source):
        assert all(folder.exists() for folder in used.folders)


@pytest.mark.docker
def test_a_container_that_was_left_is_removed(
    engine: Any, base: str, tmp_path: Path
) -> None:
    source = replace(LOCAL, kind=EnvironmentKind.DOCKER, cache=tmp_path)
    folders = make_folders(
        source.kind, None, base, limits=LIMITS, run_key=source.run_key
    )
    assert folders.run(FolderCommand(("true",), {}, 20)).exit_code == 0
    [(name, value)] = label_of(source.run_key).items()

    def left() -> list[Any]:
        found: list[Any] = engine.containers.list(
            all=True, filters={"label": f"{name}={value}"}
        )
        return found

    assert len(left()) == 1
    with running._without_leftovers(source):
        assert not left()
    folders.stop()


def test_requirements_are_pinned_and_named_in_the_image() -> None:
    lines = [line for line in REQUIREMENTS.read_text().splitlines() if line[0] != "#"]
    assert all("==" in line.partition(";")[0] for line in lines)
    names = {line.partition("==")[0] for line in lines}
    assert names == {
        "autograd",
        "coverage",
        "flask",
        "numpy",
        "pandas",
        "scikit-learn",
        "scipy",
        "torch",
        "z3-solver",
    }
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

    context = io.BytesIO()
    text = (
        f"FROM {IMAGE}\nCOPY coverage "
        f"/usr/local/lib/python3.11/dist-packages/coverage\n"
    ).encode()
    with tarfile.open(fileobj=context, mode="w") as archive:
        member = tarfile.TarInfo("Dockerfile")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
        archive.add(Path(coverage.__file__).parent, "coverage")
    context.seek(0)
    engine.images.build(
        fileobj=context, custom_context=True, tag=BASE, rm=True, forcerm=True
    )
    yield BASE
    engine.images.remove(BASE, force=True)


@pytest.mark.docker
def test_an_image_is_built_once_and_runs_programs(
    engine: Any, base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dockerfile = tmp_path / "Dockerfile"
    dockerfile.write_text(
        f"FROM {base}\nARG PIP_INDEX_URL\nCOPY requirements.txt /was-there\n"
    )
    monkeypatch.setattr(running, "DOCKERFILE", dockerfile)
    source = replace(LOCAL, kind=EnvironmentKind.DOCKER, interpreter=None)
    name = ""
    try:
        with made(source, "torch") as (found, said):
            [line] = said
            name = line.split()[3].rstrip(";")
            assert name.startswith("swe-retry-harness/canitedit:")
            assert {*found.missing} == {"torch"}
            text = "def f():\n    return 1\n\n\nassert open('/was-there').read()\nassert f()\n"
            outcome = outcome_of(found.folders, TestedProgram(text))
            assert (outcome.passed, outcome.coverage) == (True, 100)
        with made(source) as (again, said):
            assert (said, again.identity) == ([], found.identity)
    finally:
        with suppress(Exception):
            engine.images.remove(name, force=True)
