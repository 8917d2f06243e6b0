"""The parts of an instance's ``eval_script`` that the harness may know: set-up and test command.

The script also holds the hidden test patch and the names of the hidden tests. Both are removed
here, and so is every line that still names a file of the test patch.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from bench.regression.runners import OF_PYTHON, runner_of
from bench.regression.runners.commands import whole_suite

START_MARKER = ">>>>> Start Test Output"
END_MARKER = ">>>>> End Test Output"
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_DROPPED = re.compile(r"^\s*(git\s+(checkout|apply|status|show|diff|-c\s)|rm\s|patch\s|#!|set\s+-)")
_RUNNER = re.compile(r"(^|[\s/])(pytest|py\.test|runtests\.py|bin/test|unittest|tox|nosetests)\b")
# Options of the benchmark's runners whose value is the next word.
_TAKES_VALUE = frozenset(
    {"-p", "-n", "-W", "-e", "-c", "-o", "-t", "--verbosity", "--parallel", "--settings"}
    | {"--rootdir", "--maxfail", "--tag"}
)
# Options that select tests: the harness may not know which.
_SELECTS = re.compile(r"\s(-k|-m|--deselect|--ignore|--last-failed)\b")


@dataclass(frozen=True)
class TestSetup:
    """How tests run in an instance's image: shell lines, then a command without names of files.

    Attributes:
        setup: lines that activate, install or rebuild the changed tree.
        command: runs all tests.
        show: lines that print the results after ``command``, if it does not print them itself.
    """

    __test__ = False

    setup: tuple[str, ...]
    command: str
    show: tuple[str, ...] = ()


def bare_setup(script: str, hidden_paths: Collection[str]) -> TestSetup | None:
    """Return the harness's half of ``script``; None if its test command is not understood.

    ``hidden_paths`` are the files of the test patch: lines that name one of them are left out.
    """
    lines = list(_without_heredocs(script))
    start = next((i for i, line in enumerate(lines) if START_MARKER in line), None)
    end = next((i for i, line in enumerate(lines) if END_MARKER in line), None)
    if start is None or end is None or not start < end - 1:
        return None
    command = bare_command(lines[end - 1]) or whole_suite(lines[end - 1])
    # Other commands of a runner name hidden tests too: one a line, or to compile them.
    kept = {None, *OF_PYTHON}
    around = [*lines[:start], *lines[start + 1 : end - 1]]
    setup = [line for line in around if not _DROPPED.match(line) and runner_of(line) in kept]
    if command is None or _names_one(command, hidden_paths):
        return None
    shown = (line for line in setup if line.strip() and not _names_one(line, hidden_paths))
    return TestSetup(tuple(shown), command)


def _names_one(line: str, hidden_paths: Collection[str]) -> bool:
    names = {*hidden_paths, *(path.rsplit("/", 1)[-1] for path in hidden_paths)}
    pattern = "|".join(re.escape(name) for name in names)
    return bool(names) and bool(re.search(rf"(?<![\w.-])(?:{pattern})(?![\w-])", line))


def _without_heredocs(script: str) -> Iterator[str]:
    until = None
    for line in script.splitlines():
        if until is not None:
            until = None if line.strip() == until else until
            continue
        opening = _HEREDOC.search(line)
        if opening:
            until = opening.group(2)
        else:
            yield line


def bare_command(line: str) -> str | None:
    """Return a test command without the tests in it; None for an unknown runner.

    Example: ``pytest -rA tests/test_a.py`` becomes ``pytest -rA``.
    """
    match = _RUNNER.search(line)
    if match is None or _SELECTS.search(line[match.end() :]):
        return None
    head, tail = line[: match.end()], line[match.end() :].split()
    kept: list[str] = []
    for word in tail:
        takes = bool(kept) and kept[-1] in _TAKES_VALUE
        if word.startswith("-") or takes:
            kept.append(word)
    command = " ".join([head.strip(), *kept])
    return command if _balanced(command) else None


def _balanced(command: str) -> bool:
    try:
        return bool(shlex.split(command))
    except ValueError:
        return False
