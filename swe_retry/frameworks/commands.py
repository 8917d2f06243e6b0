"""Commands that run one file of tests, report every test, or run all tests. Pure.

Scripts of evaluation name hidden tests on their command lines, as files, patterns or names. So for
all tests nothing is taken over but the program, and options that are known to select nothing.
"""

from __future__ import annotations

import re
from itertools import dropwhile

from swe_retry.frameworks import SUPPORT, Runner, runner_of, runner_of_parser
from swe_retry.frameworks.shell import (
    Read,
    expand_scripts,
    index_of,
    is_computed,
    is_plain,
    only_command,
    quote_path,
    script_calls,
    simple_commands,
    without_installs,
)
from swe_retry.frameworks.support import BaseTree, RunnerSupport

# Options without a value, behind which often stands a folder.
_FLAGS = re.compile(
    r"--no-.*|--(?:ci|coverage|verbose|runInBand|silent|bail|forceExit|detectOpenHandles|json"
    r"|passWithNoTests|colors?|recursive|exit|check-leaks|full-trace|parallel|run|watchAll"
    r"|testdox|stop-on-\w+|fail-fast|test|experimental-.*|inspect|update|allow-uncaught)"
)
_ASSIGNMENT = re.compile(r"\w+=")
_PYTHON = re.compile(r"(.*/)?python[\d.]*")
# Characters by which a line is more than one program with its arguments.
_SHELL = re.compile(r"[;&|<>`$()\n]")
# Scripts find the programs of the project's packages there.
_BIN = 'PATH="$PWD/node_modules/.bin:$PATH"'
_PLAIN_VALUE = re.compile(r"[\w.,:/-]+")
# Variables that select no tests.
_VARIABLE = re.compile(
    r"(?:RUSTFLAGS|CARGO_TERM_COLOR|CGO_ENABLED|GO111MODULE|GOFLAGS|NODE_ENV|CI|TZ|NODE_OPTIONS"
    r"|FASTLANE_SKIP_UPDATE_CHECK|TERM|RAILS_ENV)=.*"
)


def find_runner(command: str, parser: str, read: Read) -> Runner:
    """Return the runner that ``command`` starts, also through scripts of the base commit."""
    runner = runner_of(without_installs(command))
    if runner is None:
        expanded = expand_scripts(command, read)
        runner = runner_of(without_installs(expanded))
    return runner or runner_of_parser(parser) or Runner.SCRIPT


def takes_arguments(command: str, runner: Runner) -> bool:
    """Return whether words behind ``command`` reach ``runner``: it is no shell line, no script."""
    if _SHELL.search(command):
        return False
    tokens = [token for token in command.split() if not _ASSIGNMENT.match(token)]
    if tokens and _PYTHON.fullmatch(tokens[0]):
        tokens = [token for token in tokens[1:] if token != "-m"]
    pattern = SUPPORT[runner].command
    return bool(tokens) and bool(pattern.search(tokens[0]))


def file_command(command: str, runner: Runner, path: str, tree: BaseTree) -> str | None:
    """Return the command that runs the tests of the file ``path``; None if only all can be run.

    The file may have any name, so it is quoted, and left to the whole suite where it would pass
    through a shell that may not quote.
    """
    support = SUPPORT[runner]
    simple = only_command(command, support.command)
    if support.one_file:
        return support.one_file(simple, path, tree) if simple else None
    if support.program is None:
        return None
    if simple is None:
        return _file_command_by_script(command, support, path, tree.read)
    here = simple.path_here(path)
    tokens = _without_operands(simple.tokens, support)
    if not here or tokens is None:
        return None
    name = quote_path(support.file_name(here))
    if name is None:
        return None
    return simple.with_tokens(*tokens, name)


def _file_command_by_script(
    command: str,
    support: RunnerSupport,
    path: str,
    read: Read,
) -> str | None:
    calls = []
    for call in script_calls(command, read):
        commands = simple_commands(call.text)
        if any(support.command.search(simple.text) for simple in commands):
            calls.append(call)
    if len(calls) != 1:
        return None
    call = calls[0]
    here = call.command.path_here(path)
    if here is None or not is_plain(here):
        return None
    script = only_command(call.full_text, support.command)
    name = quote_path(support.file_name(here))
    if script is None or script.folder or name is None:
        return None
    tokens = _without_operands(script.tokens, support)
    if tokens is None:
        return None
    if tokens == script.tokens and not script.after.strip():
        return call.with_arguments(name)
    # The scripts around it may build what the tests run, so they cannot be left out.
    alone = not script.before.strip() and not script.after.strip()
    if call.has_hooks or not alone or call.manager == "composer":
        return None
    return call.command.with_tokens(_BIN, *tokens, name)


def _without_operands(
    tokens: tuple[str, ...], support: RunnerSupport
) -> tuple[str, ...] | None:
    """Return ``tokens`` without names of files; None where these are not known."""
    if support.program is None:
        return None
    index = index_of(tokens, support.program)
    if index is None:
        return None
    arguments = tokens[index + 1 :]
    if any(map(is_computed, arguments)):
        return None
    remaining = list(tokens[: index + 1])
    if arguments and arguments[0] in support.subcommands:
        remaining.append(arguments[0])
        arguments = arguments[1:]
    option = ""
    for token in arguments:
        is_option = token.startswith("-") or ">" in token
        if is_option or option in support.values or _may_be_value(token, option):
            remaining.append(token)
        option = token if is_option else ""
    return tuple(remaining)


def _may_be_value(token: str, option: str) -> bool:
    """Return whether ``token`` may be the value of an ``option`` that is not known."""
    if not option.startswith("--") or "=" in option or _FLAGS.fullmatch(option):
        return False
    return not re.search(r"[/*.]", token)


def reporting_command(command: str, runner: Runner, read: Read) -> str:
    """Return ``command`` with the options by which ``runner`` reports each of its tests."""
    support = SUPPORT[runner]
    if not support.report_option:
        return command
    tokens = re.split(r"[\s'\"]+", expand_scripts(command, read))
    if any(token.startswith(support.reports) for token in tokens):
        return command
    simple = only_command(command, support.command)
    if simple is not None:
        return support.with_option(simple, support.report_option)
    calls = script_calls(command, read)
    if len(calls) != 1:
        return command
    # A script hands its arguments to its last command.
    last = simple_commands(calls[0].text)[-1:]
    if not last or not support.command.search(last[0].text):
        return command
    return calls[0].with_arguments(support.report_option)


def whole_suite(command: str) -> str | None:
    """Return the command that runs all tests with the runner of ``command``.

    None where its runner or its form is not understood. A pipe behind it is left out.
    """
    runner = runner_of(command)
    if runner is None:
        return None
    support = SUPPORT[runner]
    rules = support.whole_suite
    simple = only_command(command, support.command)
    if rules is None or simple is None or simple.folder:
        return None
    parts = list(filter(_VARIABLE.fullmatch, simple.tokens))
    text = " ".join(dropwhile(_ASSIGNMENT.match, simple.tokens))
    start = rules.start.match(text)
    if start is None:
        return None
    parts.append(start[0])
    before = ""
    for token in text[start.end() :].split():
        if token == "--":
            break
        is_value = before in rules.values and _PLAIN_VALUE.fullmatch(token)
        if is_value or token in rules.values or rules.flags.fullmatch(token):
            parts.append(token)
        before = token
    if rules.end:
        parts.append(rules.end)
    return " ".join(parts)
