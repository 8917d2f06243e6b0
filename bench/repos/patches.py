"""Take patches from a checkout, exclude files that must not be predicted, and check patches.

Patches are handled as bytes and split at their headers only: content may hold carriage returns,
form feeds, any encoding, or text that looks like headers.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath

from bench.repos.checkout import BASE_INDEX, Checkout
from core.git import git, git_result
from core.worktree import differences, stamps

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
_NEW_ONLY_NAMES = TEST_CONFIGURATION | {"tox.ini", "setup.cfg", "pyproject.toml"}
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
# Of touched files: the length of a command line is limited.
_MOST_NAMED = 500
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
    return parts[-1][-3:] != ".py" and any(one.search(path) for one in others)


def is_excluded(path: str, *, new: bool) -> bool:
    """Return whether a change of ``path`` is excluded from predictions (docs/predictions.md)."""
    parts = PurePosixPath(path).parts
    if is_test_path(path):
        return True
    if not new or not parts:
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
    root = "" if str(module.parent) == "." else str(module.parent)
    name = module.name if is_package else module.stem
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
    """Exclude tests, new test configuration and build output from ``patch``."""
    kept, dropped = [], []
    for part in split_patch(patch.encode("utf-8", "surrogateescape")):
        if is_excluded(part.path, new=part.new):
            dropped.append(part.path)
        else:
            kept.append(part.data)
    return SubmittablePatch(
        b"".join(kept).decode("utf-8", "surrogateescape"), tuple(dropped)
    )


def patch_paths(patch: str) -> tuple[str, ...]:
    return tuple(p.path for p in split_patch(patch.encode("utf-8", "surrogateescape")))


def take_patch(checkout: Checkout, *, ignored: bool = True) -> str:
    """Return the differences between the work tree of ``checkout`` and its base commit.

    With ``ignored``, new files count even if a ``.gitignore`` names them. Files that are not UTF-8
    become git's binary patches: a prediction is JSON text, and the evaluator writes it as UTF-8.
    """
    root, base = checkout.root, checkout.base_commit
    touched, new = differences(checkout.fresh, stamps(root))
    if new:
        # They are added to the index first.
        git("add", "--all", *(["--force"] if ignored else []), ".", cwd=root)
        compared = ["--cached", base, "--"]
    elif touched:
        # Most files of a fresh checkout are as new as its index, so git would read them all.
        compared = [base, "--", *(touched if len(touched) <= _MOST_NAMED else [])]
    else:
        return ""
    # --text overrides attributes: a model may also write .gitattributes.
    plain = _diff(root, "--text", *compared)
    odd = [part.path for part in split_patch(plain) if not _is_utf8(part.data)]
    if not odd:
        return plain.decode("utf-8")
    attributes = root / ".git" / "info" / "attributes"
    before = attributes.read_bytes()
    try:
        attributes.write_bytes(
            before + b"".join(_pattern(path) + b" -diff\n" for path in odd)
        )
        return _diff(root, *compared).decode("utf-8", "surrogateescape")
    finally:
        attributes.write_bytes(before)


def _diff(root: Path, *options: str) -> bytes:
    return git(
        "diff",
        "--binary",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        "--no-renames",
        "--src-prefix=a/",
        "--dst-prefix=b/",
        *options,
        cwd=root,
        env={"GIT_LITERAL_PATHSPECS": "1"},
    )


def _pattern(path: str) -> bytes:
    escaped = re.sub(rb"([*?\[\\])", rb"\\\1", path.encode("utf-8", "surrogateescape"))
    quoted = b"".join(
        bytes([byte]) if 32 <= byte < 127 and byte not in b'"\\' else b"\\%03o" % byte
        for byte in escaped
    )
    return b'"/' + quoted + b'"'


def _is_utf8(data: bytes) -> bool:
    try:
        return "\0" not in data.decode("utf-8")
    except UnicodeDecodeError:
        return False


def applies_to(repository: Path, commit: str, patch: str) -> bool:
    """Return whether ``patch`` applies to ``commit`` of a repository, which may be bare.

    Raises:
        GitError: the repository has no such commit.
    """
    with tempfile.TemporaryDirectory() as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder, "index"))}
        git("read-tree", commit, cwd=repository, env=index)
        data = patch.encode("utf-8", "surrogateescape")
        argv = ("apply", "--check", "--cached", "-")
        return git_result(*argv, cwd=repository, stdin=data, env=index).returncode == 0


def applies(root: Path, patch: str) -> bool:
    """Return whether ``patch`` applies to the base commit of the checkout at ``root``.

    The check uses the checkout's index of that commit, not the work tree.
    """
    data = patch.encode("utf-8", "surrogateescape")
    index = {"GIT_INDEX_FILE": str((root / BASE_INDEX).resolve())}
    result = git_result(
        "apply", "--check", "--cached", "-", cwd=root, stdin=data, env=index
    )
    return result.returncode == 0
