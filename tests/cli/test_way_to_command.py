"""From a command line to the function that runs: few frames, and options that grep finds."""

from __future__ import annotations

import inspect
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from swe_retry.cli import harness, report, run
from swe_retry.core.errors import UserError
from swe_retry.launch import options
from swe_retry.launch import program as launch
from swe_retry.launch.program import Program
from tests.support import TOP
from tests.support.programs import click_command

MAX_FRAMES = 5
MAX_FILES = 3


def test_the_function_of_a_command_is_few_frames_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files: list[str] = []

    def note_frames(*arguments: object) -> None:
        for frame in inspect.stack()[1:]:
            path = Path(frame.filename)
            if path == TOP / "harness.py" or path.is_relative_to(TOP / "swe_retry"):
                files.append(path.relative_to(TOP).as_posix())
        raise UserError("seen")

    monkeypatch.setattr(run, "_load_settings", note_frames)
    monkeypatch.setattr(sys, "argv", ["harness.py"])
    with pytest.raises(SystemExit):
        runpy.run_path(str(TOP / "harness.py"), run_name="__main__")
    assert files[0] == "swe_retry/cli/run.py"
    assert files[-1] == "harness.py"
    assert len(files) <= MAX_FRAMES
    assert len(set(files)) <= MAX_FILES


def functions_of(program: Program) -> Iterator[Callable[..., object]]:
    assert program.default
    yield program.default
    for command in program.subcommands.values():
        yield command.run


@pytest.mark.parametrize("program", [harness.PROGRAM, report.PROGRAM])
def test_an_option_stands_in_the_module_of_the_function_that_takes_it(
    program: Program,
) -> None:
    shared = inspect.getsource(options) + inspect.getsource(launch)
    for function in functions_of(program):
        module = sys.modules[inspect.unwrap(function).__module__]
        source = inspect.getsource(module) + shared
        for parameter in click_command(function).params:
            texts = [f'"{option}"' for option in parameter.opts]
            # One without a name of its own has that of its parameter.
            texts.append(f" {parameter.name}: ")
            assert any(text in source for text in texts), parameter.opts
