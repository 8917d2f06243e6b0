"""Pure: the parts of a patch, and the files that must not be predicted.

Patches are handled as bytes and split at their headers only: content may hold carriage returns,
form feeds, any encoding, or text that looks like headers.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath

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
TEST_CONFIGURATION = frozenset(
    {
        "pytest.ini",
        ".pytest.ini",
        "pytest.toml",
        ".pytest.toml",
        "conftest.py",
        ".coveragerc",
    }
)
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
_RUNNER_NAMES = frozenset(
    {"pytest.py", "pytest", "_pytest", "pluggy", "pluggy.py", "unittest"}
)
SOURCE_ROOTS = ("src", "lib")
"""Folders besides the root from which repositories import."""

# Folders in which new modules would replace what the runner imports. A script's own folder is one
# too, and sympy's runner is bin/test.
_IMPORT_ROOTS = ("", *SOURCE_ROOTS, "bin")
_IMPORTED_BY_RUNNERS = (
    sys.stdlib_module_names
    | STARTUP_MODULES
    | {
        "pytest",
        "_pytest",
        "pluggy",
        "iniconfig",
        "packaging",
        "exceptiongroup",
        "tomli",
        "attr",
        "attrs",
        "py",
        "pygments",
        "colorama",
        "typing_extensions",
        "xdist",
        "pytest_cov",
        "tox",
        "atomicwrites",
        "coverage",
        "execnet",
        "hypothesis",
        "importlib_metadata",
        "more_itertools",
        "pathlib2",
        "six",
        "toml",
        "wcwidth",
        "zipp",
    }
)
_BUILD_FOLDERS = frozenset(
    {
        "build",
        "dist",
        "__pycache__",
        ".pytest_cache",
        ".tox",
        ".eggs",
        "node_modules",
        ".venv",
    }
)
_BUILD_SUFFIXES = (
    ".pyc",
    ".pyo",
    ".so",
    ".o",
    ".orig",
    ".rej",
    ".egg-info",
    ".dist-info",
    ".pth",
)


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


def split_patch(data: bytes) -> Iterator[FilePatch]:
    """Yield the parts of a git patch, one per file, without any text before the first.

    Lines of content begin with a space, ``+``, ``-`` or ``\\``, so ``diff --git`` at the
    beginning of a line is always a header.
    """
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
    submitted = []
    dropped = []
    for part in split_patch(patch.encode("utf-8", "surrogateescape")):
        if is_excluded(part.path, new=part.new):
            dropped.append(part.path)
        else:
            submitted.append(part.data)
    return SubmittablePatch(
        b"".join(submitted).decode("utf-8", "surrogateescape"), tuple(dropped)
    )


def patch_paths(patch: str) -> tuple[str, ...]:
    return tuple(p.path for p in split_patch(patch.encode("utf-8", "surrogateescape")))
