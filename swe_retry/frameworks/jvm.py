"""Maven and Gradle: tests in commands, output and files. Pure."""

from __future__ import annotations

import re

from swe_retry.frameworks.results import (
    FAILED,
    FORMATS,
    PASSED,
    SKIPPED,
    ParsedOutput,
    blocks_below,
    worst_statuses,
)
from swe_retry.frameworks.shell import SimpleCommand, is_plain
from swe_retry.frameworks.support import BaseTree, Runner, support_of

_MAVEN_GOALS = frozenset({"test", "verify", "install", "package", "integration-test"})
# Groups: folder of the project, source set, class.
_JVM_FILE = re.compile(
    r"(?:(.*)/)?src/(\w+)/(?:java|kotlin|groovy|scala)/(?:.*/)?(\w+)\.\w+"
)
_JVM_PACKAGE = re.compile(r"(?m)^\s*package\s+([\w.]+)")
_GRADLE_TASK = re.compile(r"(?::?[\w-]+)*:?(test\w*|check|build|\w+Test)")
_GRADLE_BUILDS = ("build.gradle", "build.gradle.kts")
# Groups: run, failures, errors, skipped, class.
_MAVEN_CLASS = re.compile(
    r"^(?:\[\w+\] )?Tests run: (\d+), Failures: (\d+), Errors: (\d+), Skipped: (\d+), "
    r"Time elapsed: .*?-{1,2} in (\S+)"
)
# Groups: test, class.
_MAVEN_TEST = re.compile(
    r"^(?:\[ERROR\] )?(\S+?)(?:\(([\w.$]+)\))? +(?:-- )?Time elapsed: .* <<< (?:FAILURE|ERROR)!$"
)
_MAVEN_END = re.compile(r"^\[|^Tests run:|^$")


def maven_file(command: SimpleCommand, path: str, tree: BaseTree) -> str | None:
    """Run one class, in the module that holds it and in those that it depends on."""
    match = _JVM_FILE.fullmatch(path)
    module = tree.nearest(path, "pom.xml")
    goals = {token.rpartition(":")[2] for token in command.tokens}
    if not match or module is None or command.folder or not goals & _MAVEN_GOALS:
        return None
    if module and not is_plain(module):
        return None
    tokens = [token for token in command.tokens if not token.startswith("-Dtest=")]
    if module and "-pl" not in tokens:
        tokens += ["-pl", module, "-am"]
    # Nested classes have names of their own; a module without the class does not fail.
    name = match[3]
    return command.with_tokens(
        *tokens,
        f"-Dtest='{name},{name}$*'",
        "-DfailIfNoTests=false",
        "-Dsurefire.failIfNoSpecifiedTests=false",
    )


def gradle_file(command: SimpleCommand, path: str, tree: BaseTree) -> str | None:
    """Run one class by the task of its project and of its source set."""
    match = _JVM_FILE.fullmatch(path)
    project = tree.nearest(path, *_GRADLE_BUILDS)
    if not match or project is None or command.folder or "--tests" in command.tokens:
        return None
    if (project and not is_plain(project)) or ":" in project:
        return None
    package = _JVM_PACKAGE.search(tree.read(path) or "")
    name = f"{package[1]}.{match[3]}" if package else match[3]
    task = f":{match[2]}"
    if project:
        task = f":{project.replace('/', ':')}{task}"
    # In its place, because tasks such as `clean` run in the order in which they are named.
    tokens = list(command.tokens[:1])
    selected = False
    for token in command.tokens[1:]:
        if not _GRADLE_TASK.fullmatch(token):
            tokens.append(token)
        elif not selected:
            tokens += [task, "--tests", name]
            selected = True
    return command.with_tokens(*tokens) if selected else None


def parse_maven(output: str) -> ParsedOutput:
    """Parse what Maven prints: it counts the tests of each class and names those that failed.

    So a class is a test here.
    """
    lines = output.split("\n")
    pairs = []
    for line in lines:
        counts = _MAVEN_CLASS.match(line)
        failed = _MAVEN_TEST.match(line)
        if counts:
            pairs.append((counts[5], _maven_status(counts)))
        elif failed:
            name = f"{failed[2]}.{failed[1]}" if failed[2] else failed[1]
            pairs.append((name, FAILED))
    details = blocks_below(lines, _MAVEN_TEST, _MAVEN_END)
    return ParsedOutput(worst_statuses(pairs), details)


def _maven_status(counts: re.Match[str]) -> str:
    if int(counts[2]) or int(counts[3]):
        return FAILED
    all_skipped = int(counts[1]) == int(counts[4])
    return SKIPPED if all_skipped else PASSED


MAVEN = support_of(Runner.MAVEN, parsers=(parse_maven,), one_file=maven_file)


GRADLE = support_of(
    Runner.GRADLE,
    parsers=(FORMATS["gradle"].parse,),
    one_file=gradle_file,
)
