"""The two commands under every Python that is here, before its packages are known."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from swe_retry.oldest import OLDEST
from swe_retry.record.versions import HARNESS_VERSION
from tests.support import TOP, WITH_EXERCISES

SCRIPTS = ("harness.py", "report.py")
PYENV = Path("~/.pyenv/versions").expanduser()
INTERPRETERS = {path.parents[1].name: path for path in PYENV.glob("*/bin/python")}
needs_environment = pytest.mark.skipif(
    not (TOP / ".venv/bin/python").exists(), reason="there is no .venv"
)


def start(*argv: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in argv],
        cwd=TOP,
        env={**os.environ, **WITH_EXERCISES},
        capture_output=True,
        text=True,
        check=False,
    )


def version_of(name: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", name)[:2]))


OLD = [name for name in INTERPRETERS if version_of(name) < OLDEST]
OLD_RUN = TOP / "tests/data/run-0.12/predictions/demo"
NEW = [name for name in INTERPRETERS if version_of(name) >= OLDEST]


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("name", OLD)
def test_a_python_that_is_too_old_says_so_in_one_line(name: str, script: str) -> None:
    done = start(INTERPRETERS[name], "-B", script, "--version")
    assert done.returncode == 2
    assert done.stderr == (
        f"error: Python {'.'.join(map(str, version_of(name)))} is too old; "
        "use Python 3.11 or newer\n"
    )
    assert done.stdout == ""


@needs_environment
@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("flag", ["-S", "-B"])
@pytest.mark.parametrize("name", NEW)
def test_a_python_without_packages_uses_those_of_the_environment(
    name: str,
    flag: str,
    script: str,
) -> None:
    done = start(INTERPRETERS[name], flag, script, "--version")
    assert done.stderr == ""
    assert done.stdout == f"swe-retry-harness {HARNESS_VERSION}\n"


@needs_environment
@pytest.mark.parametrize("script", SCRIPTS)
def test_the_python_of_the_environment_finds_its_packages(script: str) -> None:
    done = start(TOP / ".venv/bin/python", "-S", script, "--version")
    assert done.stdout == f"swe-retry-harness {HARNESS_VERSION}\n", done.stderr


@needs_environment
def test_subcommands_and_modules_are_started_again_as_they_were() -> None:
    for command in (
        ["harness.py", "list"],
        ["-m", "swe_retry_exercises.editpack", "mine"],
    ):
        done = start(sys.executable, "-S", *command, "--help")
        assert (
            f"Usage: {' '.join(command[:2]).replace('-m ', 'python -m ')}"
            in done.stdout
        )


@needs_environment
@pytest.mark.parametrize(
    ("script", "words", "package"),
    [
        ("harness", "--dataset demo --models gpt-4o --run x --dry-run", "litellm"),
        ("harness", "list models", "litellm"),
        ("report", f"verify {OLD_RUN}", "swebench"),
    ],
)
def test_a_package_that_a_command_imports_late_is_named_in_one_line(
    script: str,
    words: str,
    package: str,
) -> None:
    """An environment may be half made."""
    code = (
        f"import sys; sys.modules[{package!r}] = None; "
        f"sys.argv = {[f'{script}.py', *words.split()]!r}; "
        f"from swe_retry.cli import {script}; sys.exit({script}.main())"
    )
    done = start(TOP / ".venv/bin/python", "-c", code)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: the package {package}")


def test_the_oldest_python_is_stated_alike() -> None:
    stated = ".".join(map(str, OLDEST))
    project = (TOP / "pyproject.toml").read_text()
    assert f'requires-python = ">={stated}"' in project
    assert f'python_version = "{stated}"' in project
    assert f'target-version = "py{stated.replace(".", "")}"' in project
    for name in ("README.md", "docs/action.md"):
        assert f"Python {stated} or newer" in (TOP / name).read_text()
