"""Go and Cargo: tests in commands, output and files. Pure."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath

from swe_retry.frameworks.results import (
    FAILED,
    FORMATS,
    PASSED,
    SKIPPED,
    NamedStatus,
    ParsedOutput,
    blocks_below,
    explain,
    limit_detail,
    sum_numbers,
    worst_statuses,
)
from swe_retry.frameworks.shell import SimpleCommand, index_of, is_plain, quote_path
from swe_retry.frameworks.support import BaseTree, Runner, options_of, support_of

_GO_STATUSES = {"PASS": PASSED, "FAIL": FAILED, "SKIP": SKIPPED}
# A test may print without a line end before its result.
_GO_TEST = re.compile(r"^.*?--- (PASS|FAIL|SKIP): (\S+) \([\d.]+s\)$")
_GO_PACKAGE = re.compile(r"^(ok  |FAIL)\t(\S+)\s+(.*)$")
_GO_RUN = re.compile(r"^=== (?:RUN|CONT|NAME) +(\S+)$")
_GO_NOISE = re.compile(
    r"^=== |^ *--- (?:PASS|FAIL|SKIP): |^(?:PASS|FAIL)$|^ok  \t|^FAIL\t|^exit status "
)
_GO_SUBCOMMAND = re.compile("test")
_NO_TESTS = re.compile(r"\[no tests? (?:files|to run)\]")


def go_file(command: SimpleCommand, path: str, tree: BaseTree) -> str | None:
    """Run the package of ``path``: Go compiles all files of a folder together."""
    index = index_of(command.tokens, _GO_SUBCOMMAND)
    module = tree.nearest(path, "go.mod")
    if index is None or module is None or command.path_here(path) is None:
        return None
    if command.folder not in ("", module):
        return None
    options = options_of(command.tokens[index + 1 :], GO.values, "-args")
    folder = PurePosixPath(path.removeprefix(f"{module}/")).parent
    package = quote_path(f"./{folder}")
    if options is None or package is None:
        return None
    start = command.tokens[: index + 1]
    changed = command.with_tokens(*start, *options, package.removesuffix("/."))
    if command.folder or not module:
        return changed
    if not is_plain(module):
        return None
    return f"cd {module} && {changed}"


def _go_with_option(command: SimpleCommand, option: str) -> str:
    tokens = list(command.tokens)
    index = index_of(command.tokens, _GO_SUBCOMMAND) or 0
    tokens.insert(index + 1, option)
    return command.with_tokens(*tokens)


def parse_go(output: str) -> ParsedOutput:
    """Parse ``go test -v``: tests are named ``package::Test/sub``.

    Without ``-v``, or where a package cannot be built, the package itself is the test.
    """
    lines = output.split("\n")
    results = worst_statuses(_go_results(lines))
    printed = _go_output(lines)
    details = {}
    for name, status in results.items():
        test = name.rpartition("::")[2]
        if status == FAILED and test in printed:
            details[name] = limit_detail(printed[test])
    return ParsedOutput(results, details)


def _go_output(lines: Iterable[str]) -> Mapping[str, list[str]]:
    """Return what each test printed, by its name without the package."""
    printed = defaultdict(list)
    current = ""
    for line in lines:
        start = _GO_RUN.match(line)
        end = _GO_TEST.match(line)
        if start:
            current = start[1]
        elif end:
            current = end[2]  # without -v, its output follows
        elif current and not _GO_NOISE.match(line):
            printed[current].append(line)
        elif _GO_PACKAGE.match(line):
            current = ""
    return printed


def _go_results(lines: Iterable[str]) -> Iterator[NamedStatus]:
    # The line of a package follows those of its tests.
    tests = []
    for line in lines:
        test = _GO_TEST.match(line)
        package = _GO_PACKAGE.match(line)
        if test:
            status = _GO_STATUSES[test[1]]
            tests.append((test[2], status))
        elif package:
            for name, result in tests:
                yield f"{package[2]}::{name}", result
            status = PASSED if package[1] == "ok  " else FAILED
            # A package fails without a failed test where it cannot be built or its process dies.
            if status == FAILED:
                tests = [pair for pair in tests if pair[1] == FAILED]
            if not tests and not _NO_TESTS.search(package[3]):
                yield package[2], status
            tests = []
    yield from tests


def parse_go_json(output: str) -> ParsedOutput:
    """Parse ``go test -json``, with names as in ``parse_go``."""
    pairs = []
    printed = defaultdict(list)
    for event in _json_lines(output):
        package = event.get("Package")
        action = event.get("Action")
        if not (isinstance(package, str) and isinstance(action, str)):
            continue
        test = event.get("Test")
        name = f"{package}::{test}" if test else package
        if action == "output":
            line = str(event.get("Output", ""))
            printed[name].append(line.rstrip("\n"))
        elif action.upper() in _GO_STATUSES:
            pairs.append((name, _GO_STATUSES[action.upper()]))
    results = worst_statuses(_without_explained_packages(pairs))
    details = {}
    for name, status in results.items():
        if status == FAILED and name in printed:
            lines = [line for line in printed[name] if not _GO_NOISE.match(line)]
            details[name] = limit_detail(lines)
    return ParsedOutput(results, details)


def _json_lines(output: str) -> Iterator[Mapping[str, object]]:
    for line in output.split("\n"):
        if line.startswith("{"):
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                continue
            yield event


def _without_explained_packages(pairs: list[NamedStatus]) -> Iterator[NamedStatus]:
    """Yield the results of tests, and of packages where no test has the same result."""
    explained = set()
    for name, status in pairs:
        package, separator, _ = name.partition("::")
        if separator:
            explained.add((package, status))
    tested = {package for package, _ in explained}
    for name, status in pairs:
        if "::" in name:
            tells = True
        elif status == FAILED:
            tells = (name, FAILED) not in explained
        else:
            tells = status == PASSED and name not in tested
        if tells:
            yield name, status


GO = support_of(
    Runner.GO,
    parsers=(parse_go,),
    report_parsers=(parse_go_json,),
    with_option=_go_with_option,
    one_file=go_file,
)


_CARGO_SUBCOMMAND = re.compile("test|run")
# The name in the table [package], in front of any other table.
_CARGO_NAME = re.compile(r'(?ms)^\[package\][^\[]*?^\s*name\s*=\s*["\']([\w-]+)["\']')
_RUST_NAME = re.compile(r"[A-Za-z_][\w-]*")
_CARGO_UNIT = re.compile(r"^ +Running (?:unittests )?(\S+)(?: \((\S+)\))?$")
_CARGO_DOCS = re.compile(r"^ +Doc-tests (\S+)$")
_CARGO_HASH = re.compile(r"-[0-9a-f]{16}(?:\.exe)?$")
_CARGO_TEST = re.compile(r"^test (\S.*?)(?: - should panic)? \.\.\. (.*)$")
_CARGO_STATUS = re.compile(r"(ok|FAILED|ignored)(?:, .*)?$")
_CARGO_COUNT = re.compile(r"(?m)^test result: \w+\. (\d+) passed; ")
# An edit above a documentation test moves it.
_DOC_LINE = re.compile(r" \(line \d+\)")
_CARGO_REASON = re.compile(r"^---- (\S.*) (?:stdout|stderr) ----$")
_CARGO_END = re.compile(r"^failures:$|^test result: ")
_CARGO_STATUSES = {"ok": PASSED, "FAILED": FAILED, "ignored": SKIPPED}


def cargo_file(command: SimpleCommand, path: str, tree: BaseTree) -> str | None:
    """Run a test program of ``tests/``, or the tests inside the module ``path``."""
    index = index_of(command.tokens, _CARGO_SUBCOMMAND)
    crate = tree.nearest(path, "Cargo.toml")
    if index is None or crate is None or command.folder:
        return None
    prefix = f"{crate}/" if crate else ""
    target = _cargo_target(path.removeprefix(prefix), prefix, tree)
    package = _CARGO_NAME.search(tree.read(f"{prefix}Cargo.toml") or "")
    options = options_of(command.tokens[index + 1 :], CARGO.values, "--")
    if target is None or package is None or options is None:
        return None
    tokens = list(command.tokens[: index + 1])
    tokens += _without_targets(options)
    tokens += ["-p", package[1], *target]
    if "--" in command.tokens:
        end = command.tokens[command.tokens.index("--") :]
        tokens += [token for token in end if token.startswith("-")]
    return command.with_tokens(*tokens)


def _without_targets(options: list[str]) -> Iterator[str]:
    skip = False
    for word in options:
        name = word.partition("=")[0]
        if name in CARGO.targets:
            skip = name in CARGO.values and name == word
        elif skip:
            skip = False
        else:
            yield word


def _cargo_target(inside: str, prefix: str, tree: BaseTree) -> tuple[str, ...] | None:
    """Return the words that select the tests of the file ``inside`` a crate."""
    parts = PurePosixPath(inside).with_suffix("").parts
    if len(parts) < 2 or not all(map(_RUST_NAME.fullmatch, parts)):
        return None
    if parts[0] == "tests":
        if len(parts) == 2:
            return ("--test", parts[1])
        if f"{prefix}tests/{parts[1]}/main.rs" in tree.files:
            return ("--test", parts[1], *_module(parts[2:], "main"))
        # Some programs include modules from below by their paths.
        if parts[-1] == "mod":
            return None
        return (f"{parts[-1]}::",)
    if parts[0] != "src":
        return None
    if parts[1] == "bin" and len(parts) > 2:
        return ("--bin", parts[2])
    if parts[1:] == ("main",):
        return ("--bins",)
    program = "--lib" if f"{prefix}src/lib.rs" in tree.files else "--bins"
    return (program, *_module(parts[1:], "lib"))


def _module(parts: tuple[str, ...], root: str) -> tuple[str, ...]:
    if parts and parts[-1] in ("mod", root, "tests"):
        parts = parts[:-1]
    if not parts:
        return ()
    return ("::".join(parts) + "::",)


def _cargo_with_option(command: SimpleCommand, option: str) -> str:
    tokens = list(command.tokens)
    index = tokens.index("--") if "--" in tokens else len(tokens)
    tokens.insert(index, option)
    return command.with_tokens(*tokens)


def parse_cargo(output: str) -> ParsedOutput:
    """Parse ``cargo test``: tests are named ``crate src/lib.rs: module::test``."""
    lines = output.split("\n")
    pairs = []
    unit = ""
    waiting = ""
    for line in lines:
        program = _CARGO_UNIT.match(line)
        documentation = _CARGO_DOCS.match(line)
        test = _CARGO_TEST.match(line)
        if program:
            unit = _cargo_unit(program[1], program[2])
            waiting = ""
        elif documentation:
            unit = f"{documentation[1]} docs: "
            waiting = ""
        elif test:
            name = unit + _DOC_LINE.sub("", test[1])
            status = _CARGO_STATUS.match(test[2])
            if status:
                pairs.append((name, _CARGO_STATUSES[status[1]]))
            # With --nocapture the test's output follows, and then its status.
            waiting = "" if status else name
        elif waiting and line in ("ok", "FAILED"):
            pairs.append((waiting, _CARGO_STATUSES[line]))
            waiting = ""
    results = worst_statuses(pairs)
    titles = {name: name.partition(": ")[2] or name for name in results}
    details = explain(titles, blocks_below(lines, _CARGO_REASON, _CARGO_END))
    passed = sum_numbers(_CARGO_COUNT, output)
    return ParsedOutput(results, details, passed)


def _cargo_unit(source: str, program: str | None) -> str:
    base = (program or source).rpartition("/")[2]
    crate = _CARGO_HASH.sub("", base)
    return f"{crate} {source}: " if program else f"{crate}: "


CARGO = support_of(
    Runner.CARGO,
    parsers=(parse_cargo, FORMATS["nextest"].parse),
    with_option=_cargo_with_option,
    one_file=cargo_file,
)
