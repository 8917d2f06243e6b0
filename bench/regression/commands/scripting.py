"""One file of tests of JavaScript, TypeScript, PHP and Ruby in a whole suite's command. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from bench.regression.commands.shell import (
    SimpleCommand,
    is_plain,
    only_command,
    place_of,
    quoted,
    simple_commands,
)
from bench.regression.commands.wrappers import Read, ScriptCall, script_call
from bench.regression.runners import Runner, pattern_of

NAMES = {
    Runner.JEST: re.compile(r"jest(\.js)?"),
    Runner.VITEST: re.compile(r"vitest(\.mjs)?"),
    Runner.MOCHA: re.compile(r"_?mocha(\.js)?"),
    Runner.NODE: re.compile(r"node"),
    Runner.PHPUNIT: re.compile(r"phpunit(\.phar)?"),
    Runner.RSPEC: re.compile(r"rspec"),
}
"""The base name of each runner's program."""

_VALUES: Mapping[Runner, frozenset[str]] = {
    Runner.JEST: frozenset({"-c", "--config", "-w", "--maxWorkers", "-t", "--testNamePattern"})
    | {"--env", "--reporters", "--projects", "--selectProjects", "--rootDir", "--testTimeout"}
    | {"--testPathIgnorePatterns", "--coverageDirectory", "--shard", "--outputFile", "--logLevel"},
    Runner.VITEST: frozenset({"-c", "--config", "-t", "--testNamePattern", "--reporter", "--root"})
    | {"--dir", "--project", "--environment", "--pool", "--outputFile", "--shard", "--mode"},
    Runner.MOCHA: frozenset(
        {"-r", "--require", "-R", "--reporter", "-t", "--timeout", "-u", "--ui"}
    )
    | {"-g", "--grep", "-f", "--fgrep", "-s", "--slow", "--extension", "--config", "--package"}
    | {"-O", "--reporter-option", "--reporter-options", "--ignore", "-j", "--jobs", "--retries"}
    | {"--file", "--opts", "--import", "--loader", "-n", "--node-option"},
    Runner.NODE: frozenset({"-r", "--require", "--import", "--loader", "--test-reporter"})
    | {"--test-name-pattern", "--test-reporter-destination", "-C", "--conditions"},
    Runner.PHPUNIT: frozenset({"-c", "--configuration", "--bootstrap", "--filter", "--group"})
    | {"--exclude-group", "--testsuite", "-d", "--log-junit", "--printer", "--order-by"},
    Runner.RSPEC: frozenset({"-f", "--format", "-r", "--require", "-I", "-O", "--options", "-o"})
    | {"--out", "-t", "--tag", "-P", "--pattern", "-e", "--example", "--seed", "--order"},
}
# Options without a value, behind which often stands a folder.
_FLAGS = re.compile(
    r"--no-.*|--(?:ci|coverage|verbose|runInBand|silent|bail|forceExit|detectOpenHandles|json"
    r"|passWithNoTests|colors?|recursive|exit|check-leaks|full-trace|parallel|run|watchAll"
    r"|testdox|stop-on-\w+|fail-fast|test|experimental-.*|inspect|update|allow-uncaught)"
)
_SUBCOMMANDS = {Runner.VITEST: frozenset({"run", "watch", "dev", "bench"})}
_JEST_SPECIAL = re.compile(r"([\[\](){}^$*+?|\\])")
_RAKE_TASK = re.compile(r"(?:test|spec)(?::\w+)*")
# Scripts find the programs of the project's packages there.
_BIN = 'PATH="$PWD/node_modules/.bin:$PATH"'


def script_file(command: str, runner: Runner, path: str, read: Read) -> str | None:
    """Return the command that runs the test file ``path``; None where that is unsure."""
    direct = only_command(command, pattern_of(runner))
    if direct is not None:
        return _direct(direct, runner, path)
    calls = [call for one in simple_commands(command) if (call := script_call(one, read))]
    pattern = pattern_of(runner)
    found = [
        call
        for call in calls
        if any(pattern.search(one.text) for one in simple_commands(call.text))
    ]
    return _by_script(found[0], runner, path) if len(found) == 1 else None


def _direct(command: SimpleCommand, runner: Runner, path: str) -> str | None:
    here = command.path_here(path)
    name = _operand(runner, here) if here else None
    words = _without_operands(command.words, runner)
    return command.with_words(*words, name) if name and words else None


def _by_script(call: ScriptCall, runner: Runner, path: str) -> str | None:
    here = call.command.path_here(path)
    if here is None or not is_plain(here):
        return None
    script = only_command(call.whole, pattern_of(runner))
    name = _operand(runner, here)
    if script is None or script.folder or name is None:
        return None
    words = _without_operands(script.words, runner)
    if words is None:
        return None
    if words == script.words and not script.after.strip():
        return call.with_arguments(name)
    # The scripts around it may build what the tests run, so they cannot be left out.
    alone = not script.before.strip() and not script.after.strip()
    if call.around or not alone or call.manager == "composer":
        return None
    return call.command.with_words(_BIN, *words, name)


def _operand(runner: Runner, path: str) -> str | None:
    return quoted(_JEST_SPECIAL.sub(r"\\\1", path) if runner is Runner.JEST else path)


def _without_operands(words: tuple[str, ...], runner: Runner) -> tuple[str, ...] | None:
    place = place_of(words, NAMES[runner])
    if place is None or any(word.startswith(("$", "`", '"$')) for word in words[place + 1 :]):
        return None
    return (*words[: place + 1], *_options(words[place + 1 :], runner))


def _options(words: tuple[str, ...], runner: Runner) -> Iterator[str]:
    before = ""
    for number, word in enumerate(words):
        option = word.startswith("-") or ">" in word
        value = before in _VALUES[runner]
        named = number == 0 and word in _SUBCOMMANDS.get(runner, ())
        if option or value or named or _may_be_value(before, word):
            yield word
        before = word if option else ""


def _may_be_value(option: str, word: str) -> bool:
    unknown = option.startswith("--") and "=" not in option and not _FLAGS.fullmatch(option)
    return unknown and not re.search(r"[/*.]", word)


def ruby_file(command: str, path: str) -> str | None:
    """Run one file with ``rake test``, ``rails test`` or ``ruby``; None for other commands."""
    one = only_command(command, pattern_of(Runner.MINITEST))
    here = one.path_here(path) if one else None
    name = quoted(here) if here else None
    if one is None or here is None or name is None:
        return None
    if (place := place_of(one.words, re.compile("rake"))) is not None:
        tasks = [word for word in one.words[place + 1 :] if _RAKE_TASK.fullmatch(word)]
        # rake reads a pattern.
        return one.with_words(*one.words, f"TEST={name}") if tasks and is_plain(here) else None
    place = place_of(one.words, re.compile("rails|ruby"))
    if place is None or "-e" in one.words:
        return None
    files = [n for n, word in enumerate(one.words) if n > place and word.endswith(".rb")]
    if one.words[place].endswith("rails"):
        return one.with_words(*(w for n, w in enumerate(one.words) if n not in files), name)
    if len(files) != 1:
        return None
    return one.with_words(*one.words[: files[0]], name, *one.words[files[0] + 1 :])
