"""Commands that run one file of tests, report every test, or run all tests. Pure.

Scripts of evaluation name hidden tests on their command lines, as files, patterns or names. So for
all tests nothing is taken over but the program, and options that are known to select nothing.
"""

from __future__ import annotations

import re
from itertools import dropwhile

from bench.regression.runners import SUPPORT, Runner, runner_of, runner_of_parser
from bench.regression.runners.base import BaseTree, RunnerSupport
from bench.regression.runners.shell import (
    Read,
    ScriptCall,
    expanded,
    is_plain,
    only_command,
    place_of,
    quoted,
    script_call,
    simple_commands,
    without_installs,
)

# Options without a value, behind which often stands a folder.
_FLAGS = re.compile(
    r"--no-.*|--(?:ci|coverage|verbose|runInBand|silent|bail|forceExit|detectOpenHandles|json"
    r"|passWithNoTests|colors?|recursive|exit|check-leaks|full-trace|parallel|run|watchAll"
    r"|testdox|stop-on-\w+|fail-fast|test|experimental-.*|inspect|update|allow-uncaught)"
)
# Scripts find the programs of the project's packages there.
_BIN = 'PATH="$PWD/node_modules/.bin:$PATH"'
_VARIABLE = re.compile(
    r"(?:RUSTFLAGS|CARGO_TERM_COLOR|CGO_ENABLED|GO111MODULE|GOFLAGS|NODE_ENV|CI|TZ|NODE_OPTIONS"
    r"|FASTLANE_SKIP_UPDATE_CHECK|TERM|RAILS_ENV)=.*"
)


def find_runner(command: str, parser: str, read: Read) -> Runner:
    """Return the runner that ``command`` starts, also through scripts of the base commit."""
    known = runner_of(without_installs(command)) or runner_of(
        without_installs(expanded(command, read))
    )
    return known or runner_of_parser(parser) or Runner.SCRIPT


def takes_arguments(command: str, runner: Runner) -> bool:
    """Return whether words behind ``command`` reach ``runner``: it is no shell line, no script."""
    words = [word for word in command.split() if not re.match(r"\w+=", word)]
    if words and re.fullmatch(r"(.*/)?python[\d.]*", words[0]):
        words = [word for word in words[1:] if word != "-m"]
    plain = not re.search(r"[;&|<>`$()\n]", command)
    return plain and bool(words) and bool(SUPPORT[runner].command.search(words[0]))


def file_command(command: str, runner: Runner, path: str, tree: BaseTree) -> str | None:
    """Return the command that runs the tests of the file ``path``; None if only all can be run.

    The file may have any name, so it is quoted, and left to the whole suite where it would pass
    through a shell that may not quote.
    """
    support = SUPPORT[runner]
    one = only_command(command, support.command)
    if support.one_file:
        return support.one_file(one, path, tree) if one else None
    if support.program is None:
        return None
    if one is not None:
        here = one.path_here(path)
        name = quoted(support.file_name(here)) if here else None
        words = _without_operands(one.words, support)
        return one.with_words(*words, name) if name and words else None
    calls = [
        call
        for one in simple_commands(command)
        if (call := script_call(one, tree.read))
    ]
    found = [
        call
        for call in calls
        if any(support.command.search(one.text) for one in simple_commands(call.text))
    ]
    return _by_script(found[0], support, path) if len(found) == 1 else None


def _by_script(call: ScriptCall, support: RunnerSupport, path: str) -> str | None:
    here = call.command.path_here(path)
    if here is None or not is_plain(here):
        return None
    script = only_command(call.whole, support.command)
    name = quoted(support.file_name(here))
    if script is None or script.folder or name is None:
        return None
    words = _without_operands(script.words, support)
    if words is None:
        return None
    if words == script.words and not script.after.strip():
        return call.with_arguments(name)
    # The scripts around it may build what the tests run, so they cannot be left out.
    alone = not script.before.strip() and not script.after.strip()
    if call.around or not alone or call.manager == "composer":
        return None
    return call.command.with_words(_BIN, *words, name)


def _without_operands(
    words: tuple[str, ...], support: RunnerSupport
) -> tuple[str, ...] | None:
    place = place_of(words, support.program) if support.program else None
    if place is None or any(
        word.startswith(("$", "`", '"$')) for word in words[place + 1 :]
    ):
        return None
    kept = [*words[: place + 1]]
    before = ""
    for number, word in enumerate(words[place + 1 :]):
        option = word.startswith("-") or ">" in word
        value = before in support.values
        named = number == 0 and word in support.subcommands
        flag = not before.startswith("--") or "=" in before or _FLAGS.fullmatch(before)
        may_be_value = not flag and not re.search(r"[/*.]", word)
        if option or value or named or may_be_value:
            kept.append(word)
        before = word if option else ""
    return tuple(kept)


def reporting_command(command: str, runner: Runner, read: Read) -> str:
    """Return ``command`` with the options by which ``runner`` reports each of its tests."""
    support = SUPPORT[runner]
    if not support.report_option:
        return command
    words = re.split(r"[\s'\"]+", expanded(command, read))
    if any(word.startswith(support.reports) for word in words):
        return command
    one = only_command(command, support.command)
    if one is not None:
        return support.with_option(one, support.report_option)
    calls = [
        call for one in simple_commands(command) if (call := script_call(one, read))
    ]
    alone = calls[0] if len(calls) == 1 else None
    last = simple_commands(alone.text)[-1:] if alone else []
    # A script hands its arguments to its last command.
    if alone is None or not last or not support.command.search(last[0].text):
        return command
    return alone.with_arguments(support.report_option)


def whole_suite(command: str) -> str | None:
    """Return the command that runs all tests with the runner of ``command``.

    None where its runner or its form is not understood. A pipe behind it is left out.
    """
    runner = runner_of(command)
    known = SUPPORT[runner].whole if runner else None
    one = only_command(command, SUPPORT[runner].command) if runner and known else None
    if one is None or known is None or one.folder:
        return None
    variables = [word for word in one.words if _VARIABLE.fullmatch(word)]
    rest = " ".join(dropwhile(re.compile(r"\w+=").match, one.words))
    start = known.start.match(rest)
    if start is None:
        return None
    kept: list[str] = []
    before = ""
    for word in rest[start.end() :].split():
        if word == "--":
            break
        value = before in known.values and re.fullmatch(r"[\w.,:/-]+", word)
        if word in known.values or value or known.flags.fullmatch(word):
            kept.append(word)
        before = word
    return " ".join([*variables, start[0], *kept, *([known.end] if known.end else [])])
