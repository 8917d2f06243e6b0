"""Set-ups that commits share, and what keeps them from sharing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from swe_retry.environments.base import Project, UnavailableError, VenvSpec, run_once
from swe_retry.environments.local.environment import LocalEnvironment
from swe_retry.environments.local.sharing import setup_state
from tests.fixtures import ShareVenvs
from tests.support import write_files

FILES: dict[str, str | bytes | None] = {
    "setup.cfg": "[metadata]\nname = thing\nversion = attr: thing.core.VERSION\n",
    "pyproject.toml": '[project.scripts]\nthing = "thing.cli:main"\n',
    "requirements/test.txt": "pytest\n",
    "README.md": "A thing.\n",
    "thing/__init__.py": "",
    "thing/_version.py": "number = 1\n",
    "thing/core.py": "VERSION = '1'\n",
    "thing/cli.py": "def main(): ...\n",
    "tests/test_cli.py": "def test_it(): ...\n",
}
DECIDING = (
    "setup.cfg",
    "pyproject.toml",
    "requirements/test.txt",
    "thing/__init__.py",
    "thing/_version.py",
    "thing/core.py",  # setup.cfg names it
    "new.py",
    "thing/inner/module.py",  # a folder that builds may list
    "thing/data.bin",
    "tests/requirements.txt",
    ".python-version",
)
OTHERS = ("README.md", "thing/cli.py", "thing/new.py", "tests/test_cli.py", "docs.md")


def test_files_that_a_build_may_read_decide(tmp_path: Path) -> None:
    before = setup_state(write_files(tmp_path / "base", FILES), ["pip install -e ."])
    for path in (*DECIDING, *OTHERS):
        root = write_files(tmp_path / path, {**FILES, path: "changed"})
        after = setup_state(root, ["pip install -e ."])
        assert (after == before) is (path in OTHERS), path
    other_line = setup_state(tmp_path / "base", ["python thing/cli.py"])
    root = write_files(tmp_path / "run", {**FILES, "thing/cli.py": "changed"})
    assert setup_state(root, ["python thing/cli.py"]) != other_line


@pytest.fixture(scope="module")
def environment(cache: Path, share_venvs: ShareVenvs) -> LocalEnvironment:
    share_venvs(cache / "sharing")
    return LocalEnvironment(cache / "sharing", print)


def project(root: Path, *lines: str) -> Project:
    write_files(root, {**FILES, "thing/cli.py": f"NAME = '{root.name}'\n"})
    return Project(
        key=f"own__{root.parent.name}-{root.name}",
        group="own/thing",
        version="",
        root=root,
        revision=root.name,
        venv=VenvSpec(setup=lines, test_command="true", source={"python": ""}),
        image=UnavailableError(""),
    )


def python_of(session: Any) -> Path:
    path: Path = session.built.python
    return path


def test_each_commit_has_its_own_files_and_what_set_up_left(
    tmp_path: Path, environment: LocalEnvironment
) -> None:
    line = f"mkdir t.egg-info && echo {tmp_path.name} >t.egg-info/x && pwd >$VIRTUAL_ENV/at"
    first, second = (project(tmp_path / name, line) for name in ("first", "second"))
    pythons = set()
    for commit in (first, second, first):
        session = environment.start(commit)
        pythons.add(python_of(session))
        command = "cat thing/cli.py t.egg-info/x; test $PWD = $(cat $VIRTUAL_ENV/at)"
        result = run_once(session, {}, command, 60)
        assert result.output == f"NAME = '{commit.root.name}'\n{tmp_path.name}\n"
        assert result.exit_code == 0
    (python,) = pythons
    # What was touched since is set up again, from the files of another commit.
    (python.parent.parent / "at").write_text("elsewhere")
    assert run_once(environment.start(second), {}, command, 60).exit_code == 0
    # Of another version, metadata may be another.
    later = environment.start(replace(second, version="2.0", key="own__later"))
    assert python_of(later) != python


@pytest.mark.parametrize(
    "line",
    [
        "cp -r thing $VIRTUAL_ENV/lib",  # as an installation that is no link
        "echo >>thing/core.py",
        "rm thing/core.py",
        "mkdir build && cp thing/cli.py build/out",
        "touch thing/fast.so",
    ],
)
def test_what_may_be_made_of_sources_is_not_shared(
    tmp_path: Path, environment: LocalEnvironment, line: str
) -> None:
    pythons = set()
    for name in ("first", "second"):
        session = environment.start(project(tmp_path / name, line))
        pythons.add(python_of(session))
        output = run_once(session, {}, "cat thing/cli.py", 60).output
        assert output == f"NAME = '{name}'\n"
    assert len(pythons) == 2
