"""Go, Cargo, Maven and Gradle: tests in commands, output and files. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from bench.regression.runners.base import (
    COMMAND_START,
    FAILED,
    PASSED,
    SKIPPED,
    STATUS_WORDS,
    BaseTree,
    Convention,
    ParsedOutput,
    ResultLines,
    RunnerSupport,
    WholeSuite,
    blocks,
    detail,
    kept_options,
    total,
    worst,
)
from bench.regression.runners.shell import SimpleCommand, is_plain, place_of, quoted

_GO_VALUES = frozenset(
    {
        "-run",
        "-timeout",
        "-tags",
        "-count",
        "-p",
        "-parallel",
        "-cpu",
        "-shuffle",
        "-skip",
    }
    | {
        "-coverprofile",
        "-covermode",
        "-coverpkg",
        "-ldflags",
        "-gcflags",
        "-mod",
        "-vet",
        "-exec",
    }
    | {
        "-bench",
        "-benchtime",
        "-o",
        "-outputdir",
        "-fuzz",
        "-fuzztime",
        "-asmflags",
        "-overlay",
    }
)
_GO_STATUSES = {"PASS": PASSED, "FAIL": FAILED, "SKIP": SKIPPED}
# A test may print without a line end before its result.
_GO_TEST = re.compile(r"^.*?--- (PASS|FAIL|SKIP): (\S+) \([\d.]+s\)$")
_GO_PACKAGE = re.compile(r"^(ok  |FAIL)\t(\S+)(?:\s+(.*))?$")
_GO_RUN = re.compile(r"^=== (?:RUN|CONT|NAME) +(\S+)$")
_GO_NOISE = re.compile(
    r"^=== |^ *--- (?:PASS|FAIL|SKIP): |^(?:PASS|FAIL)$|^ok  \t|^FAIL\t|^exit status "
)
_NO_TESTS = re.compile(r"\[no tests? (?:files|to run)\]")


def go_file(command: SimpleCommand, path: str, tree: BaseTree) -> str | None:
    """Run the package of ``path``: Go compiles all files of a folder together."""
    place = place_of(command.words, re.compile("test"))
    here = command.path_here(path)
    module = tree.nearest(path, ("go.mod",))
    if (
        place is None
        or here is None
        or module is None
        or command.folder not in ("", module)
    ):
        return None
    kept = kept_options(command.words[place + 1 :], _GO_VALUES, "-args")
    package = quoted(f"./{PurePosixPath(path.removeprefix(f'{module}/')).parent}")
    if kept is None or package is None:
        return None
    enter = module if not command.folder and module else ""
    if enter and not is_plain(enter):
        return None
    changed = command.with_words(
        *command.words[: place + 1], *kept, package.removesuffix("/.")
    )
    return f"cd {enter} && {changed}" if enter else changed


def _go_with_option(one: SimpleCommand, option: str) -> str:
    place = (place_of(one.words, re.compile("test")) or 0) + 1
    return one.with_words(*one.words[:place], option, *one.words[place:])


def parse_go(output: str) -> ParsedOutput:
    """Parse ``go test -v``: tests are named ``package::Test/sub``.

    Without ``-v``, or where a package cannot be built, the package itself is the test.
    """
    lines = output.split("\n")
    results = worst(_go_results(lines))
    printed: dict[str, list[str]] = {}
    current = ""
    for line in lines:
        if started := _GO_RUN.match(line):
            current = started[1]
        elif ended := _GO_TEST.match(line):
            current = ended[2]  # without -v, its output follows
        elif current and not _GO_NOISE.match(line):
            printed.setdefault(current, []).append(line)
        elif _GO_PACKAGE.match(line):
            current = ""
    failed = [name for name, status in results.items() if status == FAILED]
    details = {
        n: detail(printed[t]) for n in failed if (t := n.rpartition("::")[2]) in printed
    }
    return ParsedOutput(results, details)


def _go_results(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    waiting: list[tuple[str, str]] = []
    for line in lines:
        if test := _GO_TEST.match(line):
            waiting.append((test[2], _GO_STATUSES[test[1]]))
        elif package := _GO_PACKAGE.match(line):
            status = PASSED if package[1] == "ok  " else FAILED
            yield from ((f"{package[2]}::{name}", found) for name, found in waiting)
            # A package fails without a failed test where it cannot be built or its process dies.
            told = (
                waiting if status == PASSED else [w for w in waiting if w[1] == FAILED]
            )
            if not told and not _NO_TESTS.search(package[3] or ""):
                yield package[2], status
            waiting = []
    yield from waiting


def parse_go_json(output: str) -> ParsedOutput:
    """Parse ``go test -json``, with names as in ``parse_go``."""
    found: list[tuple[str, str]] = []
    printed: dict[str, list[str]] = {}
    for line in output.split("\n"):
        if not line.startswith("{"):
            continue
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        package, test, action = (
            event.get("Package"),
            event.get("Test"),
            event.get("Action"),
        )
        if not (isinstance(package, str) and isinstance(action, str)):
            continue
        name = f"{package}::{test}" if test else package
        if action == "output":
            printed.setdefault(name, []).append(
                str(event.get("Output", "")).rstrip("\n")
            )
        elif action.upper() in _GO_STATUSES:
            found.append((name, _GO_STATUSES[action.upper()]))
    results = worst(_without_explained_packages(found))
    failed = [
        name for name, status in results.items() if status == FAILED and name in printed
    ]
    kept = {
        n: [line for line in printed[n] if not _GO_NOISE.match(line)] for n in failed
    }
    return ParsedOutput(results, {name: detail(lines) for name, lines in kept.items()})


def _without_explained_packages(
    found: list[tuple[str, str]],
) -> Iterator[tuple[str, str]]:
    told = {(name.partition("::")[0], status) for name, status in found if "::" in name}
    packages = {package for package, _ in told}
    for name, status in found:
        explained = (name, FAILED) in told if status == FAILED else name in packages
        if "::" in name or not (explained or status == SKIPPED):
            yield name, status


GO = RunnerSupport(
    re.compile(COMMAND_START + r"go(?:\.exe)?\s+test(?!\S)"),
    suffixes=(".go",),
    parsers=(parse_go,),
    report_parsers=(parse_go_json,),
    parser_names=("gotest",),
    swebench_parser="parse_log_gotest",
    reports=("-v", "-json"),
    report_option="-v",
    with_option=_go_with_option,
    whole=WholeSuite(
        re.compile(r"go test\b"),
        re.compile(r"-v|-json|-race|-short|-count=\d+|-timeout=\w+|-tags=[\w,]+"),
        frozenset({"-timeout", "-tags", "-p"}),
        "./...",
    ),
    one_file=go_file,
)


GO_TESTS = Convention(
    (".go",),
    re.compile(r"(?:^|/)(?P<subject>[^/]+)_test\.go$"),
    (r'"[^"\s]*/{folder}"',),
    same_folder=True,
)


_CARGO_VALUES = frozenset(
    {
        "-p",
        "--package",
        "--features",
        "-F",
        "--exclude",
        "--test",
        "--bin",
        "--example",
        "--bench",
    }
    | {
        "--target",
        "--target-dir",
        "--manifest-path",
        "--message-format",
        "--config",
        "--profile",
    }
    | {
        "-j",
        "--jobs",
        "--color",
        "-Z",
        "--cargo-profile",
        "-E",
        "--filter-expr",
        "--retries",
    }
)
_CARGO_TARGETS = frozenset(
    {
        "--workspace",
        "--all",
        "--all-targets",
        "--lib",
        "--bins",
        "--tests",
        "--doc",
        "--examples",
    }
    | {
        "--benches",
        "-p",
        "--package",
        "--test",
        "--bin",
        "--example",
        "--bench",
        "--exclude",
    }
)
_CARGO_NAME = re.compile(
    r'^\[package\][^\[]*?^\s*name\s*=\s*["\']([\w-]+)["\']', re.M | re.S
)
_RUST_NAME = re.compile(r"[A-Za-z_][\w-]*")
_CARGO_UNIT = re.compile(r"^ +Running (?:unittests )?(\S+)(?: \((\S+)\))?$")
_CARGO_DOCS = re.compile(r"^ +Doc-tests (\S+)$")
_CARGO_HASH = re.compile(r"-[0-9a-f]{16}(?:\.exe)?$")
_CARGO_TEST = re.compile(r"^test (\S.*?)(?: - should panic)? \.\.\. (.*)$")
_CARGO_STATUS = re.compile(r"(ok|FAILED|ignored)(?:, .*)?$")
_CARGO_COUNT = re.compile(r"^test result: \w+\. (\d+) passed; ", re.MULTILINE)
# An edit above a documentation test moves it.
_DOC_LINE = re.compile(r" \(line \d+\)")
_CARGO_REASON = re.compile(r"^---- (\S.*) (?:stdout|stderr) ----$")
_CARGO_END = re.compile(r"^failures:$|^test result: ")
_CARGO_STATUSES = {"ok": PASSED, "FAILED": FAILED, "ignored": SKIPPED}
NEXTEST = ResultLines(
    re.compile(
        r"^ +(?P<status>PASS|FAIL|LEAK|TIMEOUT|ABORT|SIG[A-Z]+)"
        r" \[ *>?[\d.]+s\] (?:\( *\d+/\d+\) )?(?P<name>\S.*)$"
    ),
    STATUS_WORDS | {"leak": PASSED},
)


def cargo_file(command: SimpleCommand, path: str, tree: BaseTree) -> str | None:
    """Run a test program of ``tests/``, or the tests inside the module ``path``."""
    place = place_of(command.words, re.compile("test|run"))
    crate = tree.nearest(path, ("Cargo.toml",))
    if place is None or crate is None or command.folder:
        return None
    inside = path.removeprefix(f"{crate}/") if crate else path
    target = _cargo_target(inside, crate, tree)
    name = _CARGO_NAME.search(
        tree.read(f"{crate}/Cargo.toml" if crate else "Cargo.toml") or ""
    )
    kept = kept_options(command.words[place + 1 :], _CARGO_VALUES, "--")
    if target is None or name is None or kept is None:
        return None
    options = [*_without_targets(kept), "-p", name[1], *target]
    tail = command.words[command.words.index("--") :] if "--" in command.words else ()
    plain = [word for word in tail if word.startswith("-")]
    return command.with_words(*command.words[: place + 1], *options, *plain)


def _without_targets(words: list[str]) -> Iterator[str]:
    skip = False
    for word in words:
        name = word.partition("=")[0]
        if name in _CARGO_TARGETS:
            skip = name in _CARGO_VALUES and name == word
        elif skip:
            skip = False
        else:
            yield word


def _cargo_target(inside: str, crate: str, tree: BaseTree) -> tuple[str, ...] | None:
    parts = PurePosixPath(inside).with_suffix("").parts
    if not all(_RUST_NAME.fullmatch(part) for part in parts) or len(parts) < 2:
        return None
    prefix = f"{crate}/" if crate else ""
    if parts[0] == "tests":
        if len(parts) == 2:
            return ("--test", parts[1])
        if f"{prefix}tests/{parts[1]}/main.rs" in tree.files:
            return ("--test", parts[1], *_module(parts[2:], "main"))
        # Some programs include modules from below by their paths.
        return None if parts[-1] == "mod" else (f"{parts[-1]}::",)
    if parts[0] != "src":
        return None
    if parts[1] == "bin" and len(parts) > 2:
        return ("--bin", parts[2])
    program = "--lib" if f"{prefix}src/lib.rs" in tree.files else "--bins"
    return (
        ("--bins",) if parts[1:] == ("main",) else (program, *_module(parts[1:], "lib"))
    )


def _module(parts: tuple[str, ...], root: str) -> tuple[str, ...]:
    names = parts[:-1] if parts and parts[-1] in ("mod", root, "tests") else parts
    return (f"{'::'.join(names)}::",) if names else ()


def _cargo_with_option(one: SimpleCommand, option: str) -> str:
    place = one.words.index("--") if "--" in one.words else len(one.words)
    return one.with_words(*one.words[:place], option, *one.words[place:])


def parse_cargo(output: str) -> ParsedOutput:
    """Parse ``cargo test``: tests are named ``crate src/lib.rs: module::test``."""
    lines = output.split("\n")
    found: list[tuple[str, str]] = []
    unit, waiting = "", ""
    for line in lines:
        if started := _CARGO_UNIT.match(line):
            source, program = started.groups()
            crate = _CARGO_HASH.sub("", (program or source).rpartition("/")[2])
            unit, waiting = f"{crate} {source}: " if program else f"{crate}: ", ""
        elif _CARGO_DOCS.match(line):
            unit, waiting = f"{line.split()[-1]} docs: ", ""
        elif test := _CARGO_TEST.match(line):
            name = unit + _DOC_LINE.sub("", test[1])
            status = _CARGO_STATUS.match(test[2])
            if status:
                found.append((name, _CARGO_STATUSES[status[1]]))
            # With --nocapture the test's output follows, and then its status.
            waiting = "" if status else name
        elif waiting and line in ("ok", "FAILED"):
            found.append((waiting, _CARGO_STATUSES[line]))
            waiting = ""
    results = worst(found)
    reasons = blocks(lines, _CARGO_REASON, _CARGO_END)
    details = {
        n: reasons[t] for n in results if (t := n.partition(": ")[2] or n) in reasons
    }
    return ParsedOutput(results, details, total(_CARGO_COUNT, output)).checked()


CARGO = RunnerSupport(
    re.compile(COMMAND_START + r"cargo(?:\s+\+\S+)?\s+(?:nextest\s+run|test)(?!\S)"),
    suffixes=(".rs",),
    parsers=(parse_cargo, NEXTEST.parse),
    parser_names=("cargo",),
    swebench_parser="parse_log_cargo",
    reports=("--no-fail-fast",),
    report_option="--no-fail-fast",
    with_option=_cargo_with_option,
    whole=WholeSuite(
        re.compile(r"cargo (?:\+\S+ )?(?:nextest run|test)\b"),
        re.compile(
            r"--(?:offline|locked|release|all-features|no-default-features|workspace|all"
            r"|no-fail-fast|features=[\w,/-]+)"
        ),
        frozenset({"--features"}),
    ),
    one_file=cargo_file,
)


RUST_TESTS = Convention(
    (".rs",),
    re.compile(
        r"(?:^|/)(?:tests/(?:[^/]+/)*(?:test_)?(?P<subject>[^/]+?)(?:_tests?)?"
        r"|(?P<module>[^/]+)/tests?|(?P<beside>[^/]+)_tests?)\.rs$"
    ),
    (r"\b{stem}::", r"::{stem}\b", r"\{{[^{{}}]{{0,300}}\b{stem}\b"),
    inside=re.compile(r"^\s*#\[(?:cfg\(test\)|test\]|\w+::test\b)", re.M),
)


_MAVEN_GOALS = frozenset({"test", "verify", "install", "package", "integration-test"})
_JVM_FILE = re.compile(
    r"(?:(.*)/)?src/(\w+)/(?:java|kotlin|groovy|scala)/(?:.*/)?(\w+)\.\w+"
)
_JVM_PACKAGE = re.compile(r"^\s*package\s+([\w.]+)", re.M)
_GRADLE_TASK = re.compile(r"(?::?[\w-]+)*:?(test\w*|check|build|\w+Test)")
_GRADLE_BUILDS = ("build.gradle", "build.gradle.kts")
_MAVEN_CLASS = re.compile(
    r"^(?:\[\w+\] )?Tests run: (\d+), Failures: (\d+), Errors: (\d+), Skipped: (\d+), "
    r"Time elapsed: .*?-{1,2} in (\S+)"
)
_MAVEN_TEST = re.compile(
    r"^(?:\[ERROR\] )?(\S+?)(?:\(([\w.$]+)\))? +(?:-- )?Time elapsed: .* <<< (?:FAILURE|ERROR)!$"
)
_MAVEN_END = re.compile(r"^\[|^Tests run:|^$")
GRADLE_LINES = ResultLines(
    re.compile(r"^(?P<name>[^\s>].* > \S.*) (?P<status>PASSED|FAILED|SKIPPED)$"),
    STATUS_WORDS,
)
"""Gradle with ``testLogging``; without it, only failures have a line."""
_JVM = (".java", ".kt", ".groovy", ".scala")


def maven_file(command: SimpleCommand, path: str, tree: BaseTree) -> str | None:
    """Run one class, in the module that holds it and in those that it depends on."""
    match = _JVM_FILE.fullmatch(path)
    module = tree.nearest(path, ("pom.xml",))
    goals = {word.rpartition(":")[2] for word in command.words}
    if not match or module is None or command.folder or not goals & _MAVEN_GOALS:
        return None
    if module and not is_plain(module):
        return None
    words = [word for word in command.words if not word.startswith("-Dtest=")]
    selected = f"-pl {module} -am " if module and "-pl" not in words else ""
    # Nested classes have names of their own; a module without the class does not fail.
    found = f"{selected}-Dtest='{match[3]},{match[3]}$*' -DfailIfNoTests=false"
    return command.with_words(
        *words, f"{found} -Dsurefire.failIfNoSpecifiedTests=false"
    )


def gradle_file(command: SimpleCommand, path: str, tree: BaseTree) -> str | None:
    """Run one class by the task of its project and of its source set."""
    match = _JVM_FILE.fullmatch(path)
    project = tree.nearest(path, _GRADLE_BUILDS)
    tasks = [
        n for n, word in enumerate(command.words) if n and _GRADLE_TASK.fullmatch(word)
    ]
    if (
        not match
        or project is None
        or command.folder
        or not tasks
        or "--tests" in command.words
    ):
        return None
    if (project and not is_plain(project)) or ":" in project:
        return None
    package = _JVM_PACKAGE.search(tree.read(path) or "")
    name = f"{package[1]}.{match[3]}" if package else match[3]
    task = f":{project.replace('/', ':')}:{match[2]}" if project else f":{match[2]}"
    # In its place, because tasks such as `clean` run in the order in which they are named.
    first, *more = tasks
    words = [word for n, word in enumerate(command.words) if n not in more]
    return command.with_words(
        *words[:first], task, "--tests", name, *words[first + 1 :]
    )


def parse_maven(output: str) -> ParsedOutput:
    """Parse what Maven prints: it counts the tests of each class and names those that failed.

    So a class is a test here.
    """
    lines = output.split("\n")
    found: list[tuple[str, str]] = []
    for line in lines:
        if match := _MAVEN_CLASS.match(line):
            run, failures, errors, skipped = (
                int(number) for number in match.groups()[:4]
            )
            bad, all_skipped = failures + errors > 0, run == skipped
            found.append(
                (match[5], FAILED if bad else SKIPPED if all_skipped else PASSED)
            )
        elif match := _MAVEN_TEST.match(line):
            found.append((f"{match[2]}.{match[1]}" if match[2] else match[1], FAILED))
    return ParsedOutput(worst(found), blocks(lines, _MAVEN_TEST, _MAVEN_END))


MAVEN = RunnerSupport(
    re.compile(COMMAND_START + r"mvn[dw]?(?:\.sh)?(?!\S)"),
    suffixes=_JVM,
    parsers=(parse_maven,),
    parser_names=("maven", "mvn"),
    swebench_parser="parse_log_maven",
    writes_reports=True,
    reports=("-Dmaven.test.failure.ignore", "-fn"),
    report_option="-Dmaven.test.failure.ignore=true",
    whole=WholeSuite(
        re.compile(r"(?:[\w./-]*/)?mvn[dw]?(?= )(?= (?:.* )?(?:test|verify)\b)"),
        re.compile(
            r"test|verify|-B|-q|-o|-fae|-fn|--offline|--batch-mode|-Dstyle\.color=never"
        ),
        frozenset({"-T"}),
    ),
    one_file=maven_file,
)


GRADLE = RunnerSupport(
    re.compile(COMMAND_START + r"gradlew?(?!\S)"),
    suffixes=_JVM,
    parsers=(GRADLE_LINES.parse,),
    parser_names=("gradle",),
    swebench_parser="parse_log_gradle_custom",
    writes_reports=True,
    reports=("--continue",),
    report_option="--continue",
    whole=WholeSuite(
        re.compile(r"(?:[\w./-]*/)?gradlew?(?= )"),
        re.compile(
            r"test|--continue|--offline|--no-daemon|--console=\w+|--rerun-tasks"
        ),
    ),
    one_file=gradle_file,
)


JVM_TESTS = Convention(
    (".java", ".kt", ".kts", ".groovy", ".scala"),
    re.compile(
        r"(?:^|/)src/\w*[tT]est\w*/(?:.*/)?(?P<subject>\w+?)(?:Tests?|TestCase|IT|Spec)\.\w+$"
        r"|(?:^|/)src/\w*[tT]est\w*/(?:.*/)?Test(?P<behind>[A-Z]\w*)\.\w+$"
    ),
    (r"\b{stem}\b",),
)
