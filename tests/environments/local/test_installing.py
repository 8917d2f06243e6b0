"""How the local environment installs a project, and with which Python."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path

import pytest

from swe_retry.core.git import git
from swe_retry.core.processes import without_secrets
from swe_retry.environments.base import (
    BrokenEnvironmentError,
    Setup,
    SetupWay,
    VenvSpec,
)
from swe_retry.environments.local.toolchains import find_python
from swe_retry.environments.local.venvs import shared_name, spec_key
from swe_retry.frameworks import Runner
from swe_retry.instances.instance import Spec, TestSetup
from swe_retry.instances.split import split_row
from swe_retry.repositories.checkout import make_checkout
from swe_retry.repositories.mirrors import Mirrors
from swe_retry.testing.baselines import Baselines, TestFiles
from swe_retry.testing.project import (
    local_command,
    project_of,
    required_packages,
    snapshot_of,
)
from tests.fixtures import MakeCheckout, MakeMirror, an_instance
from tests.support import write_files


def test_requirements_by_the_rules_of_swebench() -> None:
    files = {
        "requirements/dev.txt": "-r base.txt\n# note\n-e .\ngit+https://x/y\nsphinx # docs\n",
        "requirements/base.txt": "click>=8\n-c pins.txt\n",
        "environment.yml": "dependencies:\n- python=3.9\n- numpy=1.2\n- scipy>=1\n"
        "- pip:\n  - ipython\n",
    }
    flask = Spec(packages="requirements.txt")
    assert required_packages("pallets/flask", flask, files.get) == [
        "click>=8",
        "sphinx",
    ]
    conda = Spec(packages="environment.yml")
    assert required_packages("own/x", conda, files.get) == [
        "numpy==1.2",
        "scipy>=1",
        "ipython",
    ]
    quoted = Spec(packages="'numpy==1.19.2' cython")
    assert required_packages("own/x", quoted, files.get) == ["numpy==1.19.2", "cython"]


@pytest.mark.parametrize(
    ("packages", "text", "cause"),
    [
        ("requirements.txt", None, "does not have"),
        ("environment.yml", None, "does not have"),
        ("environment.yml", "- [", "no list of packages"),
    ],
)
def test_a_file_of_packages_that_cannot_be_read_is_named(
    packages: str, text: str | None, cause: str
) -> None:
    with pytest.raises(BrokenEnvironmentError, match=cause) as caught:
        required_packages("own/x", Spec(packages=packages), {packages: text}.get)
    assert packages in str(caught.value)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("pytest -rA", "python -m pytest -rA"),
        ("tox --current-env -epy39 -v --", "python -m pytest -rA"),
        ("PYTHONWARNINGS='x' bin/test -C", "PYTHONWARNINGS='x' bin/test -C"),
    ],
)
def test_local_commands(command: str, expected: str) -> None:
    assert local_command(Spec(test_cmd=command)) == expected


def test_what_older_versions_kept_is_found_again(
    make_tree: MakeCheckout, tmp_path: Path
) -> None:
    """The names of shared virtual environments never change.

    That of a baseline changes with the code that states results of tests from inside of their
    process, as by its format in 0.13: such a baseline is measured again. Since 0.13 it has no id of
    an instance.
    """
    spec = Spec(
        packages="requirements.txt",
        pip_packages=("wheel",),
        pre_install=("apt-get update", "sed -i s/a/b/ setup.py"),
        install="pip install -e .[test]",
        test_cmd="tox -e py39",
    )
    base = make_tree({"requirements.txt": "numpy\n"})
    project = project_of(an_instance(spec=spec, base_commit="a" * 40), base)
    venv = project.venv
    assert isinstance(venv, VenvSpec)
    assert (venv.setup, venv.install) == (("sed -i s/a/b/ setup.py",), ".[test]")
    assert shared_name(venv, Path("/usr/bin/python3")) == "042be7cefe71"
    assert spec_key(venv, ()) == "f74562c4c170"
    tests = TestFiles(
        an_instance(base_commit="a" * 40), Runner.PYTEST, "pytest -rA", ()
    )
    identity = f"docker:sha256:0:{Setup(SetupWay.ON_PATH, ('src',))}"
    baselines = Baselines(tests, tmp_path, identity, 150.0, logging.getLogger("test"))
    assert (
        baselines._file("tests/test_a.py").name
        == "own__thing-b0ec593d694a7ed7.841b65451c1d518c7b6c25bdae2c87df.json"
    )


def test_a_file_of_packages_is_that_of_the_commit_that_the_row_names(
    make_mirror: MakeMirror, tmp_path: Path
) -> None:
    """So does SWE-bench: a base commit of a version may be older than the file."""
    mirror, base_commit = make_mirror({"setup.py": ""})
    work = tmp_path / "source" / "own__thing"
    write_files(work, {"requirements.txt": "six\n"})
    git("add", "--all", cwd=work)
    date = {"GIT_COMMITTER_DATE": "2031-02-03T12:00:00Z"}
    git("commit", "-q", "-m", "Later", cwd=work, env=date)
    git("push", "-q", str(mirror), "HEAD:refs/heads/later", cwd=work)
    later = git("rev-parse", "HEAD", cwd=work).decode().strip()
    row = {
        "instance_id": "own__thing-1",
        "repo": "own/thing",
        "base_commit": base_commit,
        "problem_statement": "It is broken.",
        "created_at": "2030-02-03",
        "environment_setup_commit": later,
        "spec": {"packages": "requirements.txt", "test_cmd": "pytest"},
    }
    mirrors = Mirrors(tmp_path / "mirrors")
    instance = split_row(row)[0]
    snapshot = snapshot_of(instance, mirrors, tmp_path / "snapshots")
    base = make_checkout(snapshot, tmp_path / "checkout")
    venv = project_of(instance, base, mirrors).venv
    assert isinstance(venv, VenvSpec)
    assert venv.packages == ("six",)
    assert venv.date == "2031-02-03"
    assert not venv.from_conda
    del row["environment_setup_commit"]
    cause = project_of(split_row(row)[0], base, mirrors).venv
    assert isinstance(cause, BrokenEnvironmentError)
    assert "environment_setup_commit" in str(cause)


def test_httpbin_is_there_for_requests_in_local_environments_only(
    make_tree: MakeCheckout,
) -> None:
    base = make_tree({"setup.py": ""})
    spec = Spec(packages="pytest", test_cmd="pytest -rA")
    instance = an_instance(spec=spec, test_setup=TestSetup((), "pytest -rA"))
    other = project_of(instance, base)
    project = project_of(replace(instance, repo="psf/requests"), base)
    assert isinstance(project.venv, VenvSpec)
    assert project.venv.server is not None
    assert project.venv.server.packages == ["httpbin", "gunicorn", "trustme"]
    assert '("httpbin.org", 443): 5001' in project.venv.server.start
    assert replace(project.venv, server=None) == other.venv
    assert project.image == other.image


def test_our_own_python_is_found() -> None:
    interpreter = find_python("3")
    assert interpreter is not None
    assert os.access(interpreter, os.X_OK)


def test_secrets_are_left_out() -> None:
    variables = {
        "PATH": "/bin",
        "OPENAI_API_KEY": "x",
        "GH_TOKEN": "x",
        "GIT_DIR": "x",
        "AWS_REGION": "x",
    }
    assert without_secrets(variables) == {"PATH": "/bin"}
