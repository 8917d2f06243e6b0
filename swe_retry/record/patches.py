"""Pure: the parts of a patch, and the files that must not be predicted.

Patches are handled as bytes and split at their headers only: content may hold carriage returns,
form feeds, any encoding, or text that looks like headers.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath

from swe_retry.core.data import read_yaml

_NAMES: dict[str, list[str]] = read_yaml(__file__, "patches.yaml")
_HEADER = b"diff --git "
_TEST_FOLDERS = frozenset({"tests", "__tests__", "e2e"})
_ROOT_TEST_FOLDERS = frozenset({"test", "testing", "tests", "spec"})
_TEST_NAME = re.compile(
    r"^(test_.*|.*_tests?|tests)\.pyi?$|\.(test|spec)\.[cm]?[jt]sx?$|_test\.go$|_(test|spec)\.rb$"
    r"|^(test_.*|.*_(unit)?tests?)\.(c|cc|cpp|cxx)$|^(tests|.*_tests)\.rs$"
)
# Sources of Maven, Gradle and PHPUnit; folders of the others' tests, unless they lie in sources.
_JVM_TEST = re.compile(r"(^|/)src/(test/|\w*Test/.*\.(java|kt|kts|groovy|scala)$)")
_PHP_TEST = re.compile(r"(^|/)[tT]ests/(.*/)?\w+\.php$")
_OTHER_TEST = re.compile(
    r"^(?!(.*/)?(src|lib|app|main)/).*/(test|spec)/.*\.([cm]?[jt]sx?|rb|c|cc|cpp|cxx|h|hpp)$"
)
TEST_CONFIGURATION = frozenset(_NAMES["test_configuration"])
"""Names of files that only configure tests."""

RUNNER_CONFIGURATION = re.compile(
    r"(jest|vitest|ava)\.(config|workspace|setup)\.[\w.]+|karma\.conf\.\w+|\.mocharc(\.\w+)?"
    r"|phpunit\.xml(\.dist)?|\.rspec"
)
"""Names of files that only configure the runners of other languages."""

STARTUP_MODULES = frozenset({"sitecustomize", "usercustomize"})
"""Modules that Python imports when it starts."""

# New files with these names would change how tests run.
_NEW_ONLY_NAMES = TEST_CONFIGURATION | {"setup.cfg", "pyproject.toml"}
# New at the root, these would replace the test runner.
_RUNNER_NAMES = frozenset(_NAMES["runner_names"])
SOURCE_ROOTS = ("src", "lib")
"""Folders besides the root from which repositories import."""

# Folders in which new modules would replace what the runner imports. A script's own folder is one
# too, and sympy's runner is bin/test.
_IMPORT_ROOTS = ("", *SOURCE_ROOTS, "bin")
_IMPORTED_BY_RUNNERS = sys.stdlib_module_names.union(
    STARTUP_MODULES, _NAMES["imported_by_runners"]
)
_BUILD_FOLDERS = frozenset(_NAMES["build_folders"])
_BUILD_SUFFIXES = tuple(_NAMES["build_suffixes"])


@dataclass(frozen=True)
class FilePatch:
    path: str
    new: bool
    data: bytes


@dataclass(frozen=True)
class SubmittablePatch:
    """The part of a patch that may be predicted, and the paths that were excluded."""

    patch: str
    dropped: tuple[str, ...] = ()


def is_test_path(path: str) -> bool:
    """Return whether ``path`` is a test in the conventions of the benchmark's repositories."""
    parts = PurePosixPath(path).parts
    if not parts:
        return False
    folders = frozenset(parts[:-1])
    in_root = len(parts) > 1 and parts[0] in _ROOT_TEST_FOLDERS
    if folders & _TEST_FOLDERS or in_root or _TEST_NAME.search(parts[-1]):
        return True
    # A package of Python may be called "test", as `django.test` is.
    others = (_JVM_TEST, _PHP_TEST, _OTHER_TEST)
    if parts[-1].endswith(".py"):
        return False
    return any(pattern.search(path) for pattern in others)


def is_excluded(path: str, *, new: bool) -> bool:
    """Return whether a change of ``path`` is excluded from predictions (docs/predictions.md)."""
    parts = PurePosixPath(path).parts
    if not parts:
        return False
    # The harness of May 2024 dropped edits of this file as it did those of tests.
    if is_test_path(path) or parts[-1] == "tox.ini":
        return True
    if not new:
        return False
    built = set(parts[:-1]) & _BUILD_FOLDERS or any(
        p.endswith(_BUILD_SUFFIXES) for p in parts
    )
    named = parts[-1] in _NEW_ONLY_NAMES or parts[0] in _RUNNER_NAMES
    configures = RUNNER_CONFIGURATION.fullmatch(parts[-1])
    return bool(built or configures) or named or _shadows_an_import(path)


def _shadows_an_import(path: str) -> bool:
    module = PurePosixPath(
        path.removesuffix("/__init__.py") if path.count("/") else path
    )
    is_package = str(module) != path
    if not is_package and module.suffix != ".py":
        return False
    root = ""
    if str(module.parent) != ".":
        root = str(module.parent)
    name = module.stem
    if is_package:
        name = module.name
    return root in _IMPORT_ROOTS and name in _IMPORTED_BY_RUNNERS


def split_patch(data: bytes | str) -> Iterator[FilePatch]:
    """Yield the parts of a git patch, one per file, without any text before the first.

    Lines of content begin with a space, ``+``, ``-`` or ``\\``, so ``diff --git`` at the
    beginning of a line is always a header.
    """
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogateescape")
    lines = data.removesuffix(b"\n").split(b"\n")
    starts = [number for number, line in enumerate(lines) if line.startswith(_HEADER)]
    for start, end in pairwise([*starts, len(lines)]):
        section = b"\n".join(lines[start:end]) + b"\n"
        path, new = _path_of(section)
        yield FilePatch(path, new, section)


def _path_of(section: bytes) -> tuple[str, bool]:
    head = section.split(b"\n@@ ", 1)[0].split(b"\nGIT binary patch", 1)[0].split(b"\n")
    new = any(line.startswith(b"new file mode") for line in head)
    names = {line[:4]: line[4:].rstrip(b"\t\r") for line in head}
    for mark in (b"+++ ", b"--- "):
        if names.get(mark, b"/dev/null") != b"/dev/null":
            return _unquote(names[mark], strip=True), new
    moved = next((line[10:] for line in head if line.startswith(b"rename to ")), None)
    if moved is not None:
        return _unquote(moved, strip=False), new
    both = head[0][len(_HEADER) :].rstrip(b"\r")
    half = (
        both[: (len(both) - 1) // 2]
        if not both.endswith(b'"')
        else both[: len(both) // 2]
    )
    return _unquote(half, strip=True), new


def _unquote(name: bytes, *, strip: bool) -> str:
    if name.startswith(b'"') and name.endswith(b'"'):
        name = (
            name[1:-1].decode("unicode_escape", "replace").encode("latin-1", "replace")
        )
    if strip and name[:2] in (b"a/", b"b/"):
        name = name[2:]
    return name.decode("utf-8", "surrogateescape")


def submittable_patch(patch: str) -> SubmittablePatch:
    """Exclude tests, tox.ini, new test configuration and build output from ``patch``."""
    return without_files(patch, lambda part: is_excluded(part.path, new=part.new))


def without_files(
    patch: str, excludes: Callable[[FilePatch], bool]
) -> SubmittablePatch:
    submitted = []
    dropped = []
    for part in split_patch(patch):
        if excludes(part):
            dropped.append(part.path)
        else:
            submitted.append(part.data)
    return SubmittablePatch(
        b"".join(submitted).decode("utf-8", "surrogateescape"), tuple(dropped)
    )


def patch_paths(patch: str) -> tuple[str, ...]:
    return tuple(part.path for part in split_patch(patch))
