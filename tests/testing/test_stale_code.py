"""The tests import the candidate's code, or their outcome is unknown: in Docker and locally.

The image is that of psf__requests-863 in small: the project is installed as a copy, and pip wants
to fetch a build backend, which a container without network cannot.
"""

from __future__ import annotations

import io
import logging
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import docker.errors
import pytest

from swe_retry.environments.base import (
    ImageSpec,
    Project,
    Setup,
    SetupWay,
    UnavailableError,
)
from swe_retry.environments.docker.engine import connect
from swe_retry.environments.docker.environment import DockerEnvironment
from swe_retry.environments.docker.setupscript import (
    command_script,
    failed_commands,
    installs_project,
    setup_lines,
    setup_script,
)
from swe_retry.frameworks import Runner
from swe_retry.testing.baselines import TestFiles
from swe_retry.testing.setups import Package, edited_packages
from swe_retry.testing.suite import RegressionTests
from swe_retry.testing.testsettings import TestChoice, Tests
from tests.fixtures import an_instance
from tests.support.environments import FolderSession

IMAGE = "swe-retry-harness/stale:test"
FILES = {
    "setup.py": "import wares\nfrom setuptools import setup\n\n"
    "setup(name='wares', version=wares.VERSION, packages=['wares'])\n",
    "pyproject.toml": "[build-system]\nrequires = ['setuptools', 'wheel']\n"
    "build-backend = 'setuptools.build_meta:__legacy__'\n",
    "wares/__init__.py": "VERSION = '1.0'\n",
    "wares/hooks.py": "def dispatch(value):\n    return value\n",
    "tests/test_hooks.py": "from wares.hooks import dispatch\n\n\n"
    "def test_dispatch():\n    assert dispatch(1) == 1\n",
    "tests/test_wares.py": "import pathlib\nimport subprocess\nimport sys\n\nimport wares.hooks\n\n"
    "SITE = pathlib.Path(wares.__file__)\n\n\n"
    "def test_leaves_much_behind():\n"
    "    home, tmp = pathlib.Path.home(), pathlib.Path('/tmp')\n"
    "    places = [home / 'x', tmp / 'x', pathlib.Path('x'), SITE.with_name('x')]\n"
    "    assert not any(place.exists() for place in places)\n"
    "    assert b'sleep 4321' not in subprocess.run(['ps', 'ax'], stdout=-1).stdout\n"
    "    for place in places:\n        place.write_text('x')\n"
    "    subprocess.Popen(['setsid', 'sleep', '4321'])\n"
    "    SITE.write_text('raise RuntimeError')\n",
}
RAISES = "raise RuntimeError('broken')\n"


@pytest.fixture(scope="module")
def image() -> str:
    """An image with the project installed as a copy, whose pip cannot build it without network."""
    client = connect()
    if client is None:
        pytest.skip("no Docker engine answers")
    files = {f"testbed/{path}": text for path, text in FILES.items()}
    files["Dockerfile"] = (
        "FROM python:3.11-slim\nCOPY testbed /testbed\nWORKDIR /testbed\n"
        "RUN python -m pip install --no-build-isolation --no-deps . && rm -rf build\n"
    )
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        for path, text in files.items():
            info = tarfile.TarInfo(path)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    context.seek(0)
    try:
        client.images.build(
            fileobj=context,
            custom_context=True,
            tag=IMAGE,
            rm=True,
            network_mode="none",
        )
    except docker.errors.BuildError as error:
        # Another base image may lack pip's backend.
        pytest.skip(f"the image cannot be built: {error}")
    return IMAGE


def regression_tests(image: str, folder: Path, *install: str) -> RegressionTests:
    setup = install or ("python -m pip install .",)
    project = Project(
        key="own__wares-1",
        group="own/wares",
        version="",
        root=folder,
        revision="",
        venv=UnavailableError("not needed"),
        image=ImageSpec(image, setup, "pytest -rA"),
    )
    files = list(FILES)
    # Slow, and not needed.
    files.remove("tests/test_wares.py")
    return RegressionTests(
        instance=an_instance(),
        session=DockerEnvironment(connect()).start(project),
        choice=TestChoice.RELATED,
        limits=Tests(timeout=60, baseline_timeout=60),
        files=files,
        read=FILES.get,
        cache=folder,
        identity=image,
        log=logging.getLogger("test"),
    )


def edit(path: str, text: str) -> dict[str, bytes | None]:
    return {path: text.encode()}


HOOKS = "wares/hooks.py"
FAILING = f"def dispatch(value):\n    {RAISES}"
BROKEN = edit(HOOKS, FAILING)
NOT_INSTALLING = "python -m pip install --no-such-option ."


@pytest.fixture(scope="module")
def tests(image: str, tmp_path_factory: pytest.TempPathFactory) -> RegressionTests:
    return regression_tests(image, tmp_path_factory.mktemp("baselines"))


def ways_of(tests: RegressionTests) -> set[SetupWay]:
    return {proven.setup.way for proven in tests._setups.values()}


@pytest.mark.docker
@pytest.mark.parametrize(
    ("path", "text", "name"),
    [
        (HOOKS, FAILING, "test_hooks.py::test_dispatch"),
        # The test below breaks the set-up too.
        pytest.param(
            "wares/__init__.py",
            RAISES,
            "set-up: python -m pip install",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "setup.py",
            RAISES,
            "set-up: python -m pip install",
            marks=pytest.mark.long,
        ),
    ],
)
def test_the_code_that_is_tested_is_the_candidates(
    tests: RegressionTests, path: str, text: str, name: str
) -> None:
    report = tests.run(edit(path, text))
    assert report.outcome is False
    assert name in report.failures[0].name
    assert "broken" in report.failures[0].detail
    assert ways_of(tests) == {SetupWay.NO_ISOLATION}


@pytest.mark.docker
@pytest.mark.long
def test_an_installation_that_cannot_work_is_replaced_by_the_path(
    image: str, tmp_path: Path
) -> None:
    tests = regression_tests(image, tmp_path, NOT_INSTALLING)
    assert tests.run(BROKEN).outcome is False
    unbroken = edit(HOOKS, FILES[HOOKS] + "#\n")
    assert tests.run(unbroken).outcome is True
    setups = {proven.setup for proven in tests._setups.values()}
    assert setups == {Setup(SetupWay.ON_PATH, ("",))}
    report = tests.run(edit("setup.py", RAISES))
    assert "installation of the project" in report.failures[0].name


@pytest.mark.docker
@pytest.mark.long
def test_modules_of_an_editable_installation_need_no_new_one(
    image: str, tmp_path: Path
) -> None:
    """In a real image the set-up made it; here the first line does."""
    site = "$(python -c 'import wares, os; print(os.path.dirname(wares.__path__[0]))')"
    editable = f"cd / && S={site} && rm -r $S/wares && echo /testbed >$S/wares.pth; cd /testbed"
    tests = regression_tests(image, tmp_path, editable, NOT_INSTALLING)
    assert tests.run(BROKEN).outcome is False
    assert ways_of(tests) == {SetupWay.INSTALLED}
    assert tests.run({**BROKEN, "wares/data.c": b""}).outcome is False
    assert ways_of(tests) > {SetupWay.INSTALLED}


@pytest.mark.docker
@pytest.mark.long
def test_what_one_file_leaves_behind_is_gone_for_the_next(
    tests: RegressionTests, image: str
) -> None:
    """Both test files give the same results in one set-up as in a container each."""
    session: Any = tests.session
    together = []
    alone = {}
    command = session.test_command
    test_files = TestFiles(tests.instance, Runner.PYTEST, command, list(FILES))
    names = ["tests/test_wares.py", "tests/test_wares.py", "tests/test_hooks.py"]
    setup = Setup(SetupWay.NO_ISOLATION)
    with session.prepare({}, setup) as prepared:
        for name in names:
            _, run = test_files.run(prepared, name, 60)
            together.append(run.results)
    for name in set(names):
        with session.prepare({}, setup) as prepared:
            _, run = test_files.run(prepared, name, 60)
            alone[name] = run.results
    assert together == [alone[name] for name in names]
    for results in together:
        assert set(results.values()) == {"PASSED"}


def test_the_same_is_proven_without_containers(tmp_path: Path) -> None:
    """An older copy is first on the path of the local session."""
    first = "import sys\nsys.path.insert(0, 'old')\n"
    files = {
        "wares/__init__.py": FILES["wares/__init__.py"],
        HOOKS: FILES[HOOKS],
        "tests/test_hooks.py": first + FILES["tests/test_hooks.py"],
        "old/wares/__init__.py": "",
        f"old/{HOOKS}": FILES[HOOKS],
    }
    tests = RegressionTests(
        instance=an_instance(),
        session=FolderSession(tmp_path / "folder", files=files),
        choice=TestChoice.RELATED,
        limits=Tests(timeout=120, baseline_timeout=120),
        files=list(files),
        read=files.get,
        cache=tmp_path / "cache",
        identity="folder",
        log=logging.getLogger("test"),
    )
    report = tests.run(BROKEN)
    assert report.outcome is None
    assert "the tests import wares from" in report.untested
    assert "not from the work tree" in report.untested


PACKAGED_FILES = """
src/flask/__init__.py src/flask/json/__init__.py six.py setup.py docs/conf.py src/flask/cli.py
src/flask/json/tag.py
"""


def test_the_top_level_package_of_an_edited_file() -> None:
    files = set(PACKAGED_FILES.split())
    flask = Package("flask", "src", "src/flask/__init__.py")
    for path in ("src/flask/cli.py", "src/flask/json/tag.py", "src/flask/data.txt"):
        assert edited_packages([path], files) == (flask,)
    six = Package("six", "", "six.py")
    assert edited_packages(["six.py"], files) == (six,)
    for path in ("setup.py", "docs/conf.py", "new_module.py", "README.md"):
        assert edited_packages([path], files) == (), path


INSTALLING = (
    "python -m pip install -e .",
    "python -m pip install .",
    "pip install -e .[test]",
    "pip install '.[all, dev]'",
    "python -m pip install -v --no-use-pep517 --no-build-isolation -e .",
    "python setup.py build_ext --inplace",
)
OTHER_LINES = (
    "python -m pip install -r requirements.txt",
    "python -m pip install ./vendored==1",
    "conda activate testbed",
)


def test_lines_that_install_the_project_are_told() -> None:
    for line in (*INSTALLING, *OTHER_LINES):
        installs = line in INSTALLING
        assert installs_project(line) is installs
        on_path = setup_lines([line], Setup(SetupWay.ON_PATH))
        assert (line in on_path) is not installs
        isolated, *_ = setup_lines([line], Setup(SetupWay.NO_ISOLATION))
        assert isolated.endswith(line.partition("install ")[2])
        assert ("--no-deps" in isolated) is (installs and "pip" in line)


def run_setup(tmp_path: Path, *lines: str) -> tuple[str, ...]:
    harness = tmp_path / "h"
    harness.mkdir(exist_ok=True)
    script = setup_script(lines, "TOKEN")
    script = script.replace("/harness", str(harness))
    script = script.replace("/testbed", str(tmp_path))
    done = subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        check=False,
    )
    failures = failed_commands(done.stdout, "TOKEN")
    return tuple(failure.command for failure in failures)


def test_a_set_up_line_that_fails_is_named(tmp_path: Path) -> None:
    lines = (
        "if false; then true; fi",
        "ls /nowhere || true",
        "ls /nowhere",
        "export A='b c'",
    )
    assert run_setup(tmp_path, *lines) == ("ls /nowhere",)
    assert run_setup(tmp_path, "true", "exit 0") == ("the set-up of the tests",)
    run_setup(tmp_path, "export A='b c'")
    script = command_script('echo "$A"')
    script = script.replace("/harness", str(tmp_path / "h"))
    script = script.replace("/testbed", "/")
    done = subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "b c\n"
