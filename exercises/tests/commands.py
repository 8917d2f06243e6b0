"""Command lines of the benchmarks, run in this process: starting one is slow."""

from __future__ import annotations

import shlex
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from unittest.mock import patch

from swe_retry.launch.program import Program
from swe_retry_exercises.canitedit import __main__ as canitedit
from swe_retry_exercises.editpack import __main__ as editpack
from swe_retry_exercises.exercism import __main__ as exercism


@dataclass(frozen=True)
class Ended:
    """The exit code of a command, and what it printed."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Commands:
    """The commands of a program."""

    program: Program

    def run(self, line: str) -> Ended:
        out = _text_stream()
        err = _text_stream()
        argv = patch.object(sys, "argv", [self.program.key, *shlex.split(line)])
        with argv, redirect_stdout(out), redirect_stderr(err):
            code = self.program.main()
        return Ended(code, _text_of(out), _text_of(err))

    def output(self, line: str) -> str:
        """Return what a command prints that succeeds."""
        ended = self.run(line)
        assert ended.code == 0, ended
        return ended.out

    def refusal(self, line: str) -> str:
        """Return the one line with which a command is refused, its only output."""
        ended = self.run(line)
        assert ended.code == 2, ended
        assert ended.out == ""
        [error] = ended.err.splitlines()
        assert error.startswith("error: ")
        return error


def _text_stream() -> TextIOWrapper:
    return TextIOWrapper(BytesIO(), "utf-8", newline="", write_through=True)


def _text_of(stream: TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


CANITEDIT = Commands(canitedit.PROGRAM)
EDITPACK = Commands(editpack.PROGRAM)
EXERCISM = Commands(exercism.PROGRAM)
