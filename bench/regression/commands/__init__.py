"""How one file of tests is run with the command that runs all tests of an instance. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from bench.regression.commands.compiled import (
    BaseTree,
    cargo_file,
    go_file,
    gradle_file,
    maven_file,
)
from bench.regression.commands.scripting import NAMES, ruby_file, script_file
from bench.regression.commands.shell import SimpleCommand, only_command, place_of, simple_commands
from bench.regression.commands.wrappers import Read, expanded, find_runner, script_call
from bench.regression.runners import Runner, pattern_of

__all__ = ["BaseTree", "file_command", "find_runner", "reporting_command"]

_COMPILED: Mapping[Runner, Callable[[SimpleCommand, str, BaseTree], str | None]] = {
    Runner.GO: go_file,
    Runner.CARGO: cargo_file,
    Runner.MAVEN: maven_file,
    Runner.GRADLE: gradle_file,
}
# Options that make each test, or all of them, appear in the output: unless one of these is there
# (by the beginning of a word), the last is added.
_REPORTS: Mapping[Runner, tuple[tuple[str, ...], str]] = {
    Runner.GO: (("-v", "-json"), "-v"),
    Runner.CARGO: (("--no-fail-fast",), "--no-fail-fast"),
    Runner.JEST: (("--verbose", "--json"), "--verbose"),
    Runner.VITEST: (("--reporter",), "--reporter=verbose"),
    Runner.MOCHA: (("spec", "tap", "json"), "--reporter spec"),
    Runner.MAVEN: (("-Dmaven.test.failure.ignore", "-fn"), "-Dmaven.test.failure.ignore=true"),
    Runner.GRADLE: (("--continue",), "--continue"),
    Runner.PHPUNIT: (("--testdox",), "--testdox"),
    Runner.RSPEC: (("-f", "--format"), "--format json"),
    Runner.MINITEST: (("TESTOPTS=", "-v", "--verbose"), "-v"),
}


def file_command(command: str, runner: Runner, path: str, tree: BaseTree) -> str | None:
    """Return the command that runs the tests of the file ``path``; None if only all can be run.

    The file may have any name, so it is quoted, and left to the whole suite where it would pass
    through a shell that may not quote.
    """
    if runner in _COMPILED:
        one = only_command(command, pattern_of(runner))
        return _COMPILED[runner](one, path, tree) if one else None
    if runner is Runner.MINITEST:
        return ruby_file(command, path)
    return script_file(command, runner, path, tree.read) if runner in NAMES else None


def reporting_command(command: str, runner: Runner, read: Read) -> str:
    """Return ``command`` with the options by which ``runner`` reports each of its tests."""
    if runner not in _REPORTS:
        return command
    present, option = _REPORTS[runner]
    if any(word.startswith(present) for word in re.split(r"[\s'\"]+", expanded(command, read))):
        return command
    one = only_command(command, pattern_of(runner))
    if one is not None:
        return _with_option(one, runner, option)
    calls = [call for one in simple_commands(command) if (call := script_call(one, read))]
    alone = calls[0] if len(calls) == 1 else None
    last = simple_commands(alone.text)[-1:] if alone else []
    # A script hands its arguments to its last command.
    if alone is None or not last or not pattern_of(runner).search(last[0].text):
        return command
    return alone.with_arguments(option)


def _with_option(one: SimpleCommand, runner: Runner, option: str) -> str:
    if runner is Runner.MINITEST and place_of(one.words, re.compile("rake")) is not None:
        return one.with_words(*one.words, f"TESTOPTS={option}")
    if runner is Runner.GO:
        place = (place_of(one.words, re.compile("test")) or 0) + 1
        return one.with_words(*one.words[:place], option, *one.words[place:])
    if runner is Runner.CARGO and "--" in one.words:
        place = one.words.index("--")
        return one.with_words(*one.words[:place], option, *one.words[place:])
    return one.with_words(*one.words, option)
