"""Several programs at once, and those that run alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from core.errors import InfrastructureError, StoppedError
from core.shutdown import Shutdown
from environments.folders import FolderCommand, FolderResult
from exercises.canitedit.evaluation.evaluate import OutcomeCache, run_programs
from exercises.canitedit.evaluation.inside import PROGRAM, REPORT
from exercises.canitedit.evaluation.running import TestedProgram
from exercises.canitedit.results import EvaluatedProgram


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


def pool(
    folders: Watched, tmp_path: Path, stop: Shutdown | None = None
) -> Callable[..., dict[str, EvaluatedProgram]]:
    return partial(run_programs, folders, OutcomeCache(tmp_path), 2, stop or Shutdown())


def test_programs_run_together_and_those_that_compare_times_alone(
    tmp_path: Path,
) -> None:
    folders, done = Watched(), list[None]()
    programs = [TestedProgram("timed 1", alone=True), TestedProgram("meet 1")]
    programs += [TestedProgram("timed 2", alone=True), TestedProgram("meet 2")]
    found = pool(folders, tmp_path)(programs, lambda: done.append(None))
    assert found.keys() == {program.sha256 for program in programs}
    assert len(done) == 4
    assert max(map(len, folders.seen[:2])) == 2
    assert folders.seen[2:] == [("timed 1",), ("timed 1",), ("timed 2",), ("timed 2",)]


def test_a_stop_ends_the_work_and_what_ended_is_kept(tmp_path: Path) -> None:
    stop = Shutdown()
    programs = [TestedProgram(str(number)) for number in range(50)]
    with pytest.raises(StoppedError):
        pool(Watched(stop), tmp_path, stop)(programs, lambda: None)
    kept = [program for program in programs if OutcomeCache(tmp_path).get(program)]
    assert 1 <= len(kept) <= 2


def test_a_failed_environment_ends_the_work(tmp_path: Path) -> None:
    programs = [TestedProgram(name) for name in ("1", "broken", *"23456789")]
    with pytest.raises(InfrastructureError, match="the engine failed"):
        pool(Watched(), tmp_path)(programs, lambda: None)
    assert OutcomeCache(tmp_path).get(programs[1]) is None
