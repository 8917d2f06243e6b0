"""The half of an instance that the harness may know. No hidden value has a place in it.

``Instance.bug`` is the one exception: the reverse of the patch that plants a bug is the fix. It is
used to make the buggy tree and its container, and nothing prints it.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field

from swe_retry.core.hashing import sha256_of
from swe_retry.core.plaintext import abbreviate
from swe_retry.environments.base import ANY_PYTHON
from swe_retry.frameworks import OF_PYTHON, runner_of
from swe_retry.frameworks.commands import whole_suite

START_MARKER = ">>>>> Start Test Output"
END_MARKER = ">>>>> End Test Output"
_MAX_TITLE = 200
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_DROPPED_LINE = re.compile(
    r"^\s*(git\s+(checkout|apply|status|show|diff|-c\s)|rm\s|patch\s|#!|set\s+-)"
)
_RUNNER = re.compile(
    r"(^|[\s/])(pytest|py\.test|runtests\.py|bin/test|unittest|tox|nosetests)\b"
)
# Options of the benchmark's runners whose value is the next word.
_TAKES_VALUE = frozenset({
    "-p", "-n", "-W", "-e", "-c", "-o", "-t", "--verbosity", "--parallel", "--settings",
    "--rootdir", "--maxfail", "--tag",
})  # fmt: skip
# Options that select tests: the harness may not know which.
_SELECTS = re.compile(r"\s(-k|-m|--deselect|--ignore|--last-failed)\b")


@dataclass(frozen=True)
class TestSetup:
    """How tests run in an instance's image: shell lines, then a command without names of files.

    Attributes:
        setup: lines that activate, install or rebuild the changed tree.
        command: runs all tests.
        show: lines that print the results after ``command``, if it does not print them itself.
    """

    __test__ = False

    setup: tuple[str, ...]
    command: str
    show: tuple[str, ...] = ()


def bare_setup(script: str, hidden_paths: Collection[str]) -> TestSetup | None:
    """Return the harness's half of ``script``; None if its test command is not understood.

    ``hidden_paths`` are the files of the test patch: lines that name one of them are left out.
    """
    lines = list(_without_heredocs(script))
    start = _find_line(lines, START_MARKER)
    end = _find_line(lines, END_MARKER)
    if start is None or end is None or not start < end - 1:
        return None
    test_line = lines[end - 1]
    command = bare_command(test_line) or whole_suite(test_line)
    if command is None or _names_path(command, hidden_paths):
        return None
    # Other commands of a runner name hidden tests too: one a line, or to compile them.
    allowed_runners = {None, *OF_PYTHON}
    setup = []
    for line in lines[:start] + lines[start + 1 : end - 1]:
        if _DROPPED_LINE.match(line) or runner_of(line) not in allowed_runners:
            continue
        if line.strip() and not _names_path(line, hidden_paths):
            setup.append(line)
    return TestSetup(tuple(setup), command)


def _find_line(lines: Sequence[str], text: str) -> int | None:
    """Return the index of the first line that holds ``text``."""
    for index, line in enumerate(lines):
        if text in line:
            return index
    return None


def _names_path(line: str, hidden_paths: Collection[str]) -> bool:
    """Return whether a line holds one of the paths, or the last part of one, as a whole name."""
    names = set(hidden_paths)
    for path in hidden_paths:
        names.add(path.rsplit("/", 1)[-1])
    if not names:
        return False
    pattern = "|".join(map(re.escape, names))
    match = re.search(rf"(?<![\w.-])(?:{pattern})(?![\w-])", line)
    return match is not None


def _without_heredocs(script: str) -> Iterator[str]:
    end_mark = None
    for line in script.splitlines():
        if end_mark is not None:
            if line.strip() == end_mark:
                end_mark = None
            continue
        opening = _HEREDOC.search(line)
        if opening:
            end_mark = opening.group(2)
        else:
            yield line


def bare_command(line: str) -> str | None:
    """Return a test command without the tests in it; None for an unknown runner.

    Example: ``pytest -rA tests/test_a.py`` becomes ``pytest -rA``.
    """
    match = _RUNNER.search(line)
    if match is None:
        return None
    tail = line[match.end() :]
    if _SELECTS.search(tail):
        return None
    options: list[str] = []
    for word in tail.split():
        is_value = bool(options) and options[-1] in _TAKES_VALUE
        if word.startswith("-") or is_value:
            options.append(word)
    head = line[: match.end()].strip()
    command = " ".join([head, *options])
    try:
        arguments = shlex.split(command)
    except ValueError:
        return None
    return command if arguments else None


@dataclass(frozen=True)
class Spec:
    """How SWE-bench installs and tests one version of a repository (its ``MAP_REPO_VERSION``)."""

    python: str = ANY_PYTHON
    packages: str = ""
    pip_packages: tuple[str, ...] = ()
    pre_install: tuple[str, ...] = ()
    install: str = ""
    test_cmd: str = ""

    @classmethod
    def of(cls, raw: object) -> Spec:
        """Read a row's ``spec``, a mapping or its JSON text; unknown keys are left out."""
        if isinstance(raw, str):
            raw = json.loads(raw)
        if not isinstance(raw, Mapping):
            raise ValueError("not a mapping")
        command = raw.get("test_cmd") or ""
        if isinstance(command, list):
            command = command[-1]
        return cls(
            python=str(raw.get("python", ANY_PYTHON)),
            packages=str(raw.get("packages") or ""),
            pip_packages=tuple(raw.get("pip_packages") or ()),
            pre_install=tuple(raw.get("pre_install") or ()),
            install=str(raw.get("install") or ""),
            test_cmd=str(command),
        )


@dataclass(frozen=True)
class ImageLayout:
    """Where a set's images hold the repository, and how commands run in them.

    The image's own entry point never runs.

    Attributes:
        folder: absolute path of the repository.
        user: that commands run as; empty for the image's.
        activation: shell lines before all others, such as ``conda activate testbed``.
        keeps_home: ``HOME`` stays the image's: caches of Go, Maven or Cargo are below it.
        one_commit: the repository in the image shows later commits, so it is replaced by one
            that has a single commit before anything runs.
        fresh_tree: the image's files are not those of the base commit, so its tracked files are
            replaced before anything runs.
        removed: absolute paths of files with hidden data, removed before anything runs.
    """

    folder: str = "/testbed"
    user: str = ""
    activation: tuple[str, ...] = ()
    keeps_home: bool = False
    one_commit: bool = False
    fresh_tree: bool = False
    removed: tuple[str, ...] = ()


def _as_lines(value: object) -> object:
    if isinstance(value, str):
        return (value,)
    return value


class Commands(BaseModel, frozen=True, extra="forbid"):
    """How one's own repository is set up, tested and linted; empty where nothing is known."""

    # Shell lines, with a network; a single one may be a text.
    setup: Annotated[tuple[str, ...], BeforeValidator(_as_lines)] = ()
    test: str = ""
    lint: str = ""
    image: str = ""
    python: Annotated[str, Field(pattern=r"^(3(\.\d{1,2})?)?$")] = ""


@dataclass(frozen=True)
class Instance:
    """One problem: what the harness may know of it.

    Attributes:
        instance_id: names it everywhere; a neutral one where the set's own id shows hidden data.
        log_parser: the set's name of the parser for test output; may be unknown here.
        test_setup: how pre-existing tests run in the image; None where the row does not say.
        layout: how the image is laid out.
        parser_source: Python that defines ``parser(log)``, which returns a status by test. It is
            foreign code: run it in an environment only.
        bug: a patch that is applied to ``base_commit`` to make the tree that is worked on.
        setup_commit: has the files of packages that ``spec`` names; empty for the base commit.
        image_label: stands for ``image`` in files of the run where its name shows hidden data.
        commands: of a repository of one's own; None for an instance of a task set.
    """

    instance_id: str
    repo: str
    base_commit: str
    problem_statement: str
    version: str
    image: str
    log_parser: str = ""
    spec: Spec | None = None
    test_setup: TestSetup | None = None
    layout: ImageLayout = ImageLayout()
    created_at: str = ""
    image_urls: tuple[str, ...] = ()
    setup_commit: str = ""
    parser_source: str = field(default="", repr=False)
    bug: str = field(default="", repr=False)
    image_label: str = ""
    commands: Commands | None = None

    @property
    def title(self) -> str:
        """The first line of the issue."""
        lines = self.problem_statement.strip().splitlines() or [""]
        return abbreviate(lines[0].lstrip("# "), _MAX_TITLE)

    @property
    def tested_as(self) -> str:
        """The key of environments and baselines, which issues and images do not decide."""
        decisive = replace(
            self,
            instance_id="",
            problem_statement="",
            image="",
            image_urls=(),
            image_label="",
        )
        # Empty values are left out, so that a new field changes no key.
        values = {name: value for name, value in asdict(decisive).items() if value}
        digest = sha256_of(json.dumps(values, default=str, sort_keys=True))
        return f"{self.repo.replace('/', '__')}-{digest[:16]}"

    @property
    def shown_image(self) -> str:
        return self.image_label or self.image


def derived_image(instance_id: str) -> str:
    """Return the official image for an instance whose row names none (as in swebench 5)."""
    return f"swebench/sweb.eval.x86_64.{instance_id.lower().replace('__', '_1776_')}:latest"
