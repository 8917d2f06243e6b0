"""One file of tests of Go, Rust, Java and Kotlin in a whole suite's command. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from bench.regression.commands.shell import SimpleCommand, is_plain, place_of, quoted
from bench.regression.commands.wrappers import Read

_GO_VALUES = frozenset(
    {"-run", "-timeout", "-tags", "-count", "-p", "-parallel", "-cpu", "-shuffle", "-skip"}
    | {"-coverprofile", "-covermode", "-coverpkg", "-ldflags", "-gcflags", "-mod", "-vet", "-exec"}
    | {"-bench", "-benchtime", "-o", "-outputdir", "-fuzz", "-fuzztime", "-asmflags", "-overlay"}
)
_CARGO_VALUES = frozenset(
    {"-p", "--package", "--features", "-F", "--exclude", "--test", "--bin", "--example", "--bench"}
    | {"--target", "--target-dir", "--manifest-path", "--message-format", "--config", "--profile"}
    | {"-j", "--jobs", "--color", "-Z", "--cargo-profile", "-E", "--filter-expr", "--retries"}
)
_CARGO_TARGETS = frozenset(
    {"--workspace", "--all", "--all-targets", "--lib", "--bins", "--tests", "--doc", "--examples"}
    | {"--benches", "-p", "--package", "--test", "--bin", "--example", "--bench", "--exclude"}
)
_CARGO_NAME = re.compile(r'^\[package\][^\[]*?^\s*name\s*=\s*["\']([\w-]+)["\']', re.M | re.S)
_RUST_NAME = re.compile(r"[A-Za-z_][\w-]*")
_MAVEN_GOALS = frozenset({"test", "verify", "install", "package", "integration-test"})
_JVM_FILE = re.compile(r"(?:(.*)/)?src/(\w+)/(?:java|kotlin|groovy|scala)/(?:.*/)?(\w+)\.\w+")
_JVM_PACKAGE = re.compile(r"^\s*package\s+([\w.]+)", re.M)
_GRADLE_TASK = re.compile(r"(?::?[\w-]+)*:?(test\w*|check|build|\w+Test)")
_GRADLE_BUILDS = ("build.gradle", "build.gradle.kts")


@dataclass(frozen=True)
class BaseTree:
    """The files of the base commit, and how to read them."""

    files: Collection[str]
    read: Read

    def nearest(self, path: str, names: Iterable[str]) -> str | None:
        """Return the folder above ``path`` that holds one of ``names``; empty for the root."""
        wanted = tuple(names)
        for folder in map(str, PurePosixPath(path).parents):
            prefix = "" if folder == "." else f"{folder}/"
            if any(f"{prefix}{name}" in self.files for name in wanted):
                return prefix.rstrip("/")
        return None


def go_file(command: SimpleCommand, path: str, tree: BaseTree) -> str | None:
    """Run the package of ``path``: Go compiles all files of a folder together."""
    place = place_of(command.words, re.compile("test"))
    here = command.path_here(path)
    module = tree.nearest(path, ("go.mod",))
    if place is None or here is None or module is None or command.folder not in ("", module):
        return None
    kept = _kept_options(command.words[place + 1 :], _GO_VALUES, "-args")
    package = quoted(f"./{PurePosixPath(path.removeprefix(f'{module}/')).parent}")
    if kept is None or package is None:
        return None
    enter = module if not command.folder and module else ""
    if enter and not is_plain(enter):
        return None
    changed = command.with_words(*command.words[: place + 1], *kept, package.removesuffix("/."))
    return f"cd {enter} && {changed}" if enter else changed


def _kept_options(words: Iterable[str], takes: Collection[str], end: str) -> list[str] | None:
    kept: list[str] = []
    waiting = False
    for word in words:
        if word == end:
            break
        if waiting or word.startswith("-") or ">" in word:
            kept.append(word)
        elif word.startswith(("$", "`", '"$')):
            return None
        waiting = word in takes
    return kept


def cargo_file(command: SimpleCommand, path: str, tree: BaseTree) -> str | None:
    """Run a test program of ``tests/``, or the tests inside the module ``path``."""
    place = place_of(command.words, re.compile("test|run"))
    crate = tree.nearest(path, ("Cargo.toml",))
    if place is None or crate is None or command.folder:
        return None
    inside = path.removeprefix(f"{crate}/") if crate else path
    target = _cargo_target(inside, crate, tree)
    name = _CARGO_NAME.search(tree.read(f"{crate}/Cargo.toml" if crate else "Cargo.toml") or "")
    kept = _kept_options(command.words[place + 1 :], _CARGO_VALUES, "--")
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
    return ("--bins",) if parts[1:] == ("main",) else (program, *_module(parts[1:], "lib"))


def _module(parts: tuple[str, ...], root: str) -> tuple[str, ...]:
    names = parts[:-1] if parts and parts[-1] in ("mod", root, "tests") else parts
    return (f"{'::'.join(names)}::",) if names else ()


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
    # Nested classes have names of their own; modules without the class are no failure.
    found = f"{selected}-Dtest='{match[3]},{match[3]}$*' -DfailIfNoTests=false"
    return command.with_words(*words, f"{found} -Dsurefire.failIfNoSpecifiedTests=false")


def gradle_file(command: SimpleCommand, path: str, tree: BaseTree) -> str | None:
    """Run one class by the task of its project and of its source set."""
    match = _JVM_FILE.fullmatch(path)
    project = tree.nearest(path, _GRADLE_BUILDS)
    tasks = [n for n, word in enumerate(command.words) if n and _GRADLE_TASK.fullmatch(word)]
    if not match or project is None or command.folder or not tasks or "--tests" in command.words:
        return None
    if (project and not is_plain(project)) or ":" in project:
        return None
    package = _JVM_PACKAGE.search(tree.read(path) or "")
    name = f"{package[1]}.{match[3]}" if package else match[3]
    task = f":{project.replace('/', ':')}:{match[2]}" if project else f":{match[2]}"
    # In its place, because tasks such as `clean` run in the order in which they are named.
    first, *more = tasks
    words = [word for n, word in enumerate(command.words) if n not in more]
    return command.with_words(*words[:first], task, "--tests", name, *words[first + 1 :])
