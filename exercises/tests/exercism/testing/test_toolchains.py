"""Packages are fetched once; an exercise whose packages cannot be had is named."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from exercises.tests.support.exercism import profile_of, six
from swe_retry.environments.base import EnvironmentKind
from swe_retry.environments.folders import FolderCommand, FolderResult
from swe_retry_exercises.exercism.languages import LANGUAGES
from swe_retry_exercises.exercism.tester import (
    ExerciseTester,
    prepare,
    prepared_folder,
    prepared_root,
    tool_folders,
)

Fetching = Callable[[str], None]


@pytest.fixture
def fetching(monkeypatch: pytest.MonkeyPatch) -> Fetching:
    """Let Python exercises with ``strikes`` in a file need packages, which a shell line fetches."""

    def by(line: str) -> None:
        rules = replace(
            LANGUAGES["python"],
            packages_file="cuckoo_clock.py",
            packages=r"^def \w+",
            prepare=shlex.join(["sh", "-c", line]),
        )
        monkeypatch.setitem(LANGUAGES, "python", rules)

    return by


def test_packages_are_fetched_once_into_a_folder_of_their_own(
    fetching: Fetching, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    fetching(f"ls cuckoo_clock.py .meta 2>&1 | sed 's/^ls: //' >got; echo ran >>{log}")
    for _ in range(2):
        assert prepare(six().values(), tmp_path) == {}
    assert log.read_text() == "ran\n"
    folder = prepared_folder(tmp_path, six()["cuckoo-clock"])
    assert folder is not None and folder.parent == prepared_root(tmp_path)
    got = (folder / "got").read_text()
    assert ".meta" in got and "No such file" in got, "the example is not there"
    assert prepared_folder(tmp_path, six()["name-tags"]) is None


def test_packages_that_cannot_be_had_are_named(
    fetching: Fetching, tmp_path: Path
) -> None:
    fetching("echo no registry; echo answers; exit 3")
    reasons = prepare(six().values(), tmp_path)
    assert list(reasons) == ["python/cuckoo-clock"]
    assert reasons["python/cuckoo-clock"].endswith("fails: no registry answers")
    assert [p for p in prepared_root(tmp_path).iterdir() if p.is_dir()] == []
    fetching("true")
    assert prepare(six().values(), tmp_path) == {}


class Recorder:
    """Folders in which no command runs; each prints ``output``."""

    def __init__(self, output: str) -> None:
        self.output = output
        self.commands: list[FolderCommand] = []

    def run(self, command: FolderCommand) -> FolderResult:
        self.commands.append(command)
        return FolderResult(self.output, 0, 1.0)

    def stop(self) -> None:
        pass


def test_the_command_and_folder_of_a_language(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an image with all tools runs them."""
    outputs = {
        "cpp": "All tests passed (9 assertions in 3 test cases)\n/sandbox/cuckoo-clock/a.h\n",
        "javascript": "Tests:       1 passed, 1 total\nat ..{prepared}/node_modules/expect/a.js\n"
        "at /sandbox/b.js (12 ms)\nTime:  1.2 s\n",
        "go": "ok  \tzebra\t0.003s\n--- PASS: A (0.01s)\n",
    }
    files = {**six()["cuckoo-clock"].files, "package.json": b'"dependencies": {"a": 1}'}
    ran = {}
    for language, output in outputs.items():
        exercise = replace(six()["cuckoo-clock"], language=language, files=files)
        prepared = prepared_folder(tmp_path, exercise)
        recorder = Recorder(output.format(prepared=prepared))
        monkeypatch.setattr(
            "swe_retry_exercises.exercism.tester.make_folders",
            lambda *_, made=recorder: made,
        )
        tester = ExerciseTester(profile_of(False), EnvironmentKind.DOCKER, tmp_path)
        tried = tester.test(exercise, {"cuckoo_clock.py": b""})
        assert tried.solved
        ran[language] = (tried.output, recorder.commands[-1])
    output, command = ran["cpp"]
    assert '-S "cuckoo-clock" -B build' in command.argv[2]
    assert "cuckoo-clock/cuckoo_clock.py" in command.files
    assert output.endswith("\ncuckoo-clock/a.h\n")
    output, command = ran["javascript"]
    prepared = prepared_folder(tmp_path, replace(exercise, language="javascript"))
    assert command.argv[2].startswith(f'ln -s "{prepared}/node_modules"')
    assert output.endswith(
        "at cuckoo-clock/node_modules/expect/a.js\nat cuckoo-clock/b.js\n"
    )
    assert ran["go"][0] == "ok  \tzebra\t\n--- PASS: A \n"


def test_tools_of_the_system_need_no_further_folder() -> None:
    assert tool_folders("python") == ()
