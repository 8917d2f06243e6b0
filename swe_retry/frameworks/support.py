"""What is known of a test runner: how it is recognized, started and read. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any

from pydantic import TypeAdapter

from swe_retry.frameworks.results import OutputParser, read_table
from swe_retry.frameworks.shell import Read, SimpleCommand, is_computed


class Runner(StrEnum):
    """A kind of test runner; ``SCRIPT`` stands for a command that hides its runner."""

    PYTEST = "pytest"
    DJANGO = "django"
    SYMPY = "sympy"
    UNITTEST = "unittest"
    GO = "go test"
    CARGO = "cargo test"
    JEST = "jest"
    VITEST = "vitest"
    MOCHA = "mocha"
    NODE = "node --test"
    MAVEN = "maven"
    GRADLE = "gradle"
    PHPUNIT = "phpunit"
    RSPEC = "rspec"
    MINITEST = "minitest"
    CTEST = "ctest"
    SCRIPT = "script"


OF_PYTHON = frozenset({Runner.PYTEST, Runner.DJANGO, Runner.SYMPY, Runner.UNITTEST})
"""The runners whose tests import the project's packages."""


@dataclass(frozen=True)
class BaseTree:
    """The files of the base commit, and how to read them."""

    files: Collection[str]
    read: Read

    def nearest(self, path: str, *names: str) -> str | None:
        """Return the folder above ``path`` that holds one of ``names``; empty for the root."""
        for folder in PurePosixPath(path).parents:
            for name in names:
                if str(folder / name) in self.files:
                    return "" if str(folder) == "." else str(folder)
        return None


@dataclass(frozen=True)
class Convention:
    """How one family of languages names tests.

    Attributes:
        test: matches the path of a test file; its group ``subject`` is the name of what is tested.
        uses: patterns of a test's text that uses a source file: ``{stem}`` is its name without
            suffix, ``{folder}`` the folder's, ``{camel}`` the stem as the name of a class.
        same_folder: whether a test may use what lies in its folder without naming it.
        inside: matches the text of a source file that holds tests itself.
    """

    sources: tuple[str, ...]
    test: re.Pattern[str]
    uses: tuple[str, ...] = ()
    same_folder: bool = False
    inside: re.Pattern[str] | None = None


@dataclass(frozen=True)
class WholeSuite:
    """What may stay of a runner's command where it names tests.

    Attributes:
        start: matches its beginning: variables aside, the program and its subcommand.
        flags: options that select nothing.
        values: such options whose value is the next word.
        end: added, for all tests.
    """

    start: re.Pattern[str]
    flags: re.Pattern[str]
    values: frozenset[str] = frozenset()
    end: str = ""


@dataclass(frozen=True)
class RunnerSupport:
    """What is known of one runner.

    Attributes:
        command: finds the runner in a command.
        suffixes: of the files that may hold its tests.
        parsers: of its output, whose lines are cut to ``MAX_LINE``.
        report_parsers: of the whole output: reports in JSON have all of their text on one line.
        parser_names: parts of the names that task sets give to parsers, as parse_log_gotest.
        swebench_parser: swebench's parser of its output.
        writes_reports: whether it writes JUnit's XML files.
        reports: options that make each test, or all of them, appear in the output: unless a word
            begins with one of them, ``report_option`` is added by ``with_option``.
        whole_suite: what may stay of a command that names tests.
        one_file: returns the command for one file of tests; None where that is unsure.
        program: the base name of a program that takes names of files, also inside a script.
        values: the program's options whose value is the next word.
        subcommands: words that may follow the program and are not names of files.
        targets: options that choose what ``one_file`` chooses.
        file_name: how the program names a file.
    """

    runner: Runner
    command: re.Pattern[str]
    suffixes: tuple[str, ...] = ("",)
    parsers: tuple[OutputParser, ...] = ()
    report_parsers: tuple[OutputParser, ...] = ()
    parser_names: tuple[str, ...] = ()
    swebench_parser: str = "parse_log_tap"
    writes_reports: bool = False
    reports: tuple[str, ...] = ()
    report_option: str = ""
    with_option: Callable[[SimpleCommand, str], str] = SimpleCommand.with_option
    whole_suite: WholeSuite | None = None
    one_file: Callable[[SimpleCommand, str, BaseTree], str | None] | None = None
    program: re.Pattern[str] | None = None
    values: frozenset[str] = frozenset()
    subcommands: frozenset[str] = frozenset()
    targets: frozenset[str] = frozenset()
    file_name: Callable[[str], str] = str


_ROWS = read_table("runners.yaml")
_SUPPORT = TypeAdapter(RunnerSupport)


def support_of(runner: Runner, **functions: Any) -> RunnerSupport:  # noqa: ANN401
    """Return what ``runners.yaml`` says of a runner, with ``functions`` beside it."""
    return _SUPPORT.validate_python(
        {"runner": runner, **_ROWS[runner.value], **functions}
    )


CONVENTIONS = TypeAdapter(tuple[Convention, ...]).validate_python(
    read_table("conventions.yaml")
)
"""How languages name tests; those of Python are chosen by ``related``."""


def options_of(
    arguments: Iterable[str],
    value_options: Collection[str],
    end: str,
) -> list[str] | None:
    """Return the options in front of ``end``, with their values.

    None where the shell computes an operand: it may be an option.
    """
    options = []
    waiting = False
    for word in arguments:
        if word == end:
            break
        if waiting or word.startswith("-") or ">" in word:
            options.append(word)
        elif is_computed(word):
            return None
        waiting = word in value_options
    return options
