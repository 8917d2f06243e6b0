"""Ways of setting up a tree for its tests: proven at the base commit, checked with a candidate.

A set-up counts only where the tests import the work tree and no older copy of the project. Images
hold the project installed. Where that installation is a copy and cannot be repeated without
network, the tests would run the old code, whatever a candidate changes. So a marker is written into
the tree, and the test runner must state that it imports the file that holds it.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from swe_retry.agent.conversation.testreport import Failure
from swe_retry.core.worktree import Changes
from swe_retry.environments.base import AS_GIVEN, Prepared, Session, Setup, SetupWay
from swe_retry.environments.docker.setupscript import WHOLE_SETUP, installs_project
from swe_retry.frameworks import Runner
from swe_retry.frameworks.shell import Read
from swe_retry.testing.origins import mark_of, split_statements, with_statements

_IMPORT_ROOTS = ("", "src", "lib")
# The process ends itself once everything is imported.
_SECONDS = 120.0
_BUILD_SECONDS = 300.0
_MAX_LINES = 30
_VERSION = re.compile(r"\d+(?:\.\d+)+")
_BUILD_FILES = frozenset({"setup.py", "setup.cfg", "pyproject.toml", "MANIFEST.in"})
# Other files that setup scripts read: versions, long descriptions, lists of requirements.
_READ_BY_BUILDS = re.compile(
    r"(?i)[^/]*\.(py|txt|in|cfg|toml|rst|md)|VERSION|(.*/)?(_?version|__about__|__init__)\.py",
)
# Computes the project's metadata as an installation would, and installs nothing.
_BUILD_CHECK = """export SETUPTOOLS_SCM_PRETEND_VERSION={version} PIP_DISABLE_PIP_VERSION_CHECK=1
if python -m pip install --help | grep -q -e --dry-run; then
  python -m pip install -q --dry-run --no-index --no-deps --no-build-isolation --ignore-installed .
else
  python setup.py -q --name
fi"""


@dataclass(frozen=True)
class Package:
    """A top-level package or module; imports find it in the folder ``root`` of the tree."""

    name: str
    root: str
    file: str


@dataclass(frozen=True)
class ProvenSetup:
    """A way of setting the tree up in which its tests import the tree.

    Attributes:
        failing: set-up commands that fail at the base commit too.
        installs: whether the set-up installs the project from the changed tree.
        reason: why no outcome can be trusted; empty where it can.
    """

    setup: Setup = AS_GIVEN
    failing: tuple[str, ...] = ()
    installs: bool = False
    reason: str = ""


def edited_packages(
    edited: Iterable[str], files: Collection[str]
) -> tuple[Package, ...]:
    """Return the top-level packages and modules of the base tree that contain ``edited``."""
    packages = set()
    for path in edited:
        package = _package(PurePosixPath(path), files)
        if package is not None:
            packages.add(package)
    return tuple(sorted(packages, key=lambda package: package.file))


def _package(path: PurePosixPath, files: Collection[str]) -> Package | None:
    top = None
    for folder in path.parents[:-1]:
        if f"{folder}/__init__.py" not in files:
            break
        top = folder
    if top is not None:
        return Package(top.name, _root(top), f"{top}/__init__.py")
    root = _root(path)
    if path.suffix != ".py" or str(path) not in files:
        return None
    if root not in _IMPORT_ROOTS:
        return None
    # Nothing imports a setup script, and pytest imports conftest files by their paths.
    if path.name in ("setup.py", "conftest.py"):
        return None
    return Package(path.stem, root, str(path))


def _root(path: PurePosixPath) -> str:
    root = str(path.parent)
    return "" if root == "." else root


def concerns_build(edited: Iterable[str]) -> bool:
    """Return whether one of ``edited`` may affect the installation of the project."""
    return any(map(_READ_BY_BUILDS.fullmatch, edited))


def needs_rebuild(edited: Collection[str], packages: Sequence[Package]) -> bool:
    """Return whether edits may change what an installation does; edits of modules do not."""
    if not packages or concerns_build(edited):
        return True
    folders = tuple(package.file.removesuffix("__init__.py") for package in packages)
    return not all(path.endswith(".py") and path.startswith(folders) for path in edited)


def build_files(edited: Iterable[str]) -> list[str]:
    return [path for path in edited if path in _BUILD_FILES]


def find_setup(
    session: Session,
    packages: Sequence[Package],
    read: Read,
    command: str,
    runner: Runner,
    *,
    rebuild: bool,
) -> ProvenSetup:
    """Return the best way of setting up in which ``command`` imports ``packages`` from the tree.

    A way in which the installation works is preferred to one that only puts the tree on the path,
    because it also shows that a candidate breaks the installation. Without ``rebuild`` no
    installation is needed where the tests import the tree already.
    """
    token = secrets.token_hex(16)
    names = [package.name for package in packages]
    command = with_statements(command, token, runner, names)
    changes = {}
    for package in packages:
        text = read(package.file) or ""
        marked = f"{text}\n# {mark_of(token)}\n"
        changes[package.file] = marked.encode("utf-8", "surrogateescape")
    roots = {package.root for package in packages} or {""}
    without_installation: ProvenSetup | None = None
    reason = ""
    for way in session.ways:
        if way is SetupWay.INSTALLED and rebuild:
            continue
        if way is SetupWay.ON_PATH and without_installation:
            break
        setup = Setup(way)
        if way is SetupWay.ON_PATH:
            setup = Setup(way, tuple(sorted(roots)))
        reason = ""
        with session.prepare(changes, setup) as prepared:
            failing = tuple(failed.command for failed in prepared.failed_commands)
            if packages:
                output = prepared.run(command, _SECONDS).output
                reason = _doubt(output, token, packages)
        installable = session.installs(setup)
        installs = installable and not any(map(installs_project, failing))
        proven = ProvenSetup(setup, failing, installs, reason)
        if reason:
            continue
        if installs or not installable:
            return proven
        if WHOLE_SETUP not in failing:
            without_installation = without_installation or proven
    return without_installation or ProvenSetup(reason=reason)


def _doubt(output: str, token: str, packages: Sequence[Package]) -> str:
    _, statements = split_statements(output, token)
    end = statements.get("end", {})
    paths = dict(end.get("outside", {}))
    paths.update(end.get("inside", {}))
    names = [package.name for package in packages]
    imported = [name for name in names if name in paths]
    for name in imported:
        if name not in end["marked"]:
            return f"the tests import {name} from {paths[name]}, not from the work tree"
    if imported:
        return ""
    return f"no selected test was seen to import {' or '.join(names)}"


def setup_failures(prepared: Prepared, proven: ProvenSetup) -> tuple[Failure, ...]:
    """Return the set-up commands that fail with the candidate and not at the base commit."""
    failures = []
    for failed in prepared.failed_commands:
        if failed.command not in proven.failing:
            failures.append(_setup_failure(failed.command, failed.output))
    return tuple(failures)


def build_failures(
    session: Session,
    prepared: Prepared,
    proven: ProvenSetup,
    changes: Changes,
    version: str,
) -> tuple[tuple[Failure, ...], str]:
    """Return what prevents the installation of the project, or why that is unknown.

    Where the set-up installs the project from the changed tree, nothing is checked.
    """
    if proven.installs or not concerns_build(changes):
        return (), ""
    number = "0.0"
    match = _VERSION.search(version)
    if match:
        number = match.group()
    command = _BUILD_CHECK.format(version=number)
    result = prepared.run(command, _BUILD_SECONDS)
    if result.exit_code == 0:
        return (), ""
    with session.prepare({}, proven.setup) as base:
        if base.run(command, _BUILD_SECONDS).exit_code == 0:
            failure = _setup_failure("the installation of the project", result.output)
            return (failure,), ""
    if not build_files(changes):
        return (), ""
    return (), "the project's build cannot be tried here, and the edits concern it"


def _setup_failure(what: str, output: str) -> Failure:
    lines = output.strip().splitlines()
    end = "\n".join(lines[-_MAX_LINES:])
    return Failure(f"set-up: {what}", f"{what} fails with these edits:\n{end}")
