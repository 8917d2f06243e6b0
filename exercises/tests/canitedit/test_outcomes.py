"""Several programs at once, and those that run alone."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from swe_retry.core.errors import InfrastructureError, StoppedError
from swe_retry.core.shutdown import Shutdown
from swe_retry.environments.folders import FolderCommand, FolderResult
from swe_retry_exercises.canitedit.evaluation import (
    ProgramEnvironment,
    TestedProgram,
    run_programs,
)
from swe_retry_exercises.canitedit.inside import PROGRAM, REPORT
from swe_retry_exercises.canitedit.results import EvaluatedProgram


class Watched:
    """Folders in which every program fails, and which see what runs at the same time.

    A program named ``meet`` ends when another one has started.
    """

    def __init__(self, stop: Shutdown | None = None) -> None:
        self.running = list[str]()
        self.seen = list[tuple[str, ...]]()
        self.stop_at_first = stop
        self.lock = threading.Lock()
        self.met = threading.Barrier(2)

    def run(self, command: FolderCommand) -> FolderResult:
        name = command.files[PROGRAM].decode()
        with self.lock:
            self.running.append(name)
            self.seen.append(tuple(self.running))
        if name.startswith("meet"):
            self.met.wait(30)
        if name == "broken":
            raise InfrastructureError("the engine failed")
        if self.stop_at_first:
            self.stop_at_first.request("asked")
        with self.lock:
            self.running.remove(name)
        return FolderResult("", 0, 0.0, files={REPORT: b"ended 1 -"})

    def stop(self) -> None:
        """Nothing to release."""


def run_all(
    folders: Watched,
    cache: Path,
    programs: Sequence[TestedProgram],
    stop: Shutdown | None = None,
) -> dict[str, EvaluatedProgram]:
    """Run programs with two workers."""
    environment = ProgramEnvironment(folders, cache, {})
    by_sha256 = {program.sha256: program for program in programs}
    return run_programs(environment, 2, stop or Shutdown(), by_sha256)


def is_cached(cache: Path, program: TestedProgram) -> bool:
    environment = ProgramEnvironment(Watched(), cache, {})
    return environment.path(program.sha256).exists()


def test_programs_run_together_and_those_that_compare_times_alone(
    tmp_path: Path,
) -> None:
    folders = Watched()
    programs = [
        TestedProgram("timed 1", alone=True),
        TestedProgram("meet 1"),
        TestedProgram("timed 2", alone=True),
        TestedProgram("meet 2"),
    ]
    outcomes = run_all(folders, tmp_path, programs)
    assert outcomes.keys() == {program.sha256 for program in programs}
    assert all(is_cached(tmp_path, program) for program in programs)
    first, second, *others = folders.seen
    assert max(len(first), len(second)) == 2
    assert others == [
        ("timed 1",),
        ("timed 1",),
        ("timed 2",),
        ("timed 2",),
    ]


def test_a_stop_ends_the_work_and_what_ended_is_kept(tmp_path: Path) -> None:
    stop = Shutdown()
    programs = [TestedProgram(str(number)) for number in range(50)]
    with pytest.raises(StoppedError):
        run_all(Watched(stop), tmp_path, programs, stop)
    cached = [program for program in programs if is_cached(tmp_path, program)]
    assert 1 <= len(cached) <= 2


def test_a_failed_environment_ends_the_work(tmp_path: Path) -> None:
    broken = TestedProgram("broken")
    programs = [TestedProgram(name) for name in "123456789"]
    programs.insert(1, broken)
    with pytest.raises(InfrastructureError, match="the engine failed"):
        run_all(Watched(), tmp_path, programs)
    assert not is_cached(tmp_path, broken)
