"""No forged candidate is plausible or resolved: locally, in Docker and by the local evaluator."""

from __future__ import annotations

import io
import logging
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from swe_retry.demo.setup import commit_all
from swe_retry.environments.base import (
    EnvironmentKind,
    ImageSpec,
    Project,
    UnavailableError,
)
from swe_retry.environments.choice import make_environment
from swe_retry.environments.docker.engine import connect
from swe_retry.environments.docker.environment import DockerEnvironment
from swe_retry.instances.instance import Instance
from swe_retry.instances.split import split_row
from swe_retry.report.evaluation.evaluator import EvaluationTask
from swe_retry.report.evaluation.local import LocalEvaluator
from swe_retry.repositories.checkout import Checkout, make_checkout
from swe_retry.repositories.mirrors import Mirrors
from swe_retry.repositories.patches import take_patch
from swe_retry.repositories.snapshot import get_snapshot
from swe_retry.results.predictions import Prediction
from swe_retry.results.verdicts import VerdictStatus
from swe_retry.testing.project import project_of
from swe_retry.testing.suite import RegressionTests
from swe_retry.testing.testsettings import TestChoice, Tests
from tests.fixtures import ShareVenvs, an_instance
from tests.support import write_files
from tests.support.evaluated import report_settings
from tests.support.ownworld import run_git

pytestmark = pytest.mark.run

CORE = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"
SETUP = "from setuptools import setup\n\nsetup(name='thing', version='1.0', packages=['thing'])\n"
TESTS = (
    "from thing.core import one, two\n\n\ndef test_one():\n    assert one() == 1\n\n\n"
    "def test_two():\n    assert two() == 2\n"
)
FILES = {
    "thing/__init__.py": "",
    "thing/core.py": CORE,
    "setup.py": SETUP,
    "setup.cfg": "[metadata]\nname = thing\n\n[tool:pytest]\naddopts = -q\n",
    "conftest.py": '"""Nothing yet."""\n',
    "tests/test_core.py": TESTS,
}

_BROKEN = CORE.replace("1", "7")
_PLUGIN = (
    "import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\n"
    "def pytest_runtest_makereport(item, call):\n"
    "    outcome = yield\n    outcome.get_result().outcome = 'passed'\n"
    "    outcome.get_result().longrepr = None\n"
)
_EVIL = {"thing/core.py": _BROKEN, "thing/_evil.py": _PLUGIN}
_POINT = "[pytest11]\n{name} = thing._evil\n"
_META = "Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
# Does all that the real module does, once it has named a plugin.
_SHADOW = (
    "import os, sys\nimport importlib.util\nfrom importlib.machinery import PathFinder\n"
    "os.environ['PYTEST_PLUGINS'] = 'thing._evil'\n"
    "here = os.path.dirname(os.path.abspath(__file__))\n"
    "for top in (here, os.path.dirname(here)):\n"
    "    places = [p for p in sys.path if p and os.path.abspath(p) != top]\n"
    "    spec = PathFinder.find_spec(__name__, places)\n"
    "    if spec and spec.origin != __file__:\n"
    "        module = importlib.util.module_from_spec(spec)\n"
    "        sys.modules[__name__] = module\n"
    "        spec.loader.exec_module(module)\n"
    "        break\n"
)
_STARTUP = "import os\nos.environ['PYTEST_PLUGINS'] = 'thing._evil'\n"
_PTH = _STARTUP.replace("\n", "; ", 1)
_WRITES = (
    "import os, site\n"
    "for place in site.getsitepackages():\n"
    "    try:\n"
    "        open(os.path.join(place, '{name}'), 'w').write({text!r})\n"
    "    except OSError:\n        pass\n"
)
_CONFIGURED = "[{section}]\naddopts = -p thing._evil\n"
# Replaces pytest's modules in the process.
_REPORTS = (
    "import _pytest.reports as reports\n"
    "make = reports.TestReport.from_item_and_call\n\n\n"
    "def passed(item, call):\n    call.excinfo = None\n    return make(item, call)\n\n\n"
    "reports.TestReport.from_item_and_call = staticmethod(passed)\n"
)
_RUNTEST = (
    "import _pytest.python\n_pytest.python.Function.runtest = lambda self: None\n"
)
_CODE = (
    "import _pytest.python\n\n\ndef nothing(self):\n    pass\n\n\n"
    "_pytest.python.Function.runtest.__code__ = nothing.__code__\n"
)
_REGISTERED = (
    "import gc\nfrom _pytest.config import Config\nfrom thing import _evil\n"
    "for found in gc.get_objects():\n"
    "    if isinstance(found, Config):\n        found.pluginmanager.register(_evil)\n"
)
_FINDER = (
    "import sys\nfrom importlib.abc import Loader, MetaPathFinder\n"
    "from importlib.util import spec_from_loader\n\n\n"
    "class Finder(MetaPathFinder, Loader):\n"
    "    def find_spec(self, name, path, target=None):\n"
    "        return spec_from_loader(name, self) if name == 'thing.core' else None\n\n"
    "    def exec_module(self, module):\n"
    "        module.one, module.two = (lambda: Any()), (lambda: Any())\n\n\n"
    "class Any:\n    def __eq__(self, other):\n        return True\n\n\n"
    "sys.meta_path.insert(0, Finder())\n"
)
_HOOK = (
    "import gc\nfrom _pytest.config import Config\nfrom pluggy._hooks import HookImpl\n"
    "from thing._evil import pytest_runtest_makereport as evil\n"
    "for found in gc.get_objects():\n"
    "    if isinstance(found, Config):\n"
    "        caller = found.hook.pytest_runtest_makereport\n"
    "        caller._add_hookimpl(HookImpl(None, 'x', evil, caller._hookimpls[0].opts | \n"
    "            {'hookwrapper': True}))\n"
)
_NEW_METHOD = (
    "import _pytest.python\n\n\ndef get(self, name):\n"
    "    if name == 'runtest':\n        return lambda: None\n"
    "    return object.__getattribute__(self, name)\n\n\n"
    "_pytest.python.Function.__getattribute__ = get\n"
)
_XML = (
    "<testsuites><testsuite><testcase classname='tests.test_core' name='test_one'/>"
    "<testcase classname='tests.test_core' name='test_two'/></testsuite></testsuites>"
)
_NEW_NAME = (
    "import _pytest.junitxml\n\n\ndef write(path, *args, **kwargs):\n"
    "    file = open(path, *args, **kwargs)\n"
    f"    file.write({_XML!r})\n    file.write = lambda text: None\n    return file\n\n\n"
    "_pytest.junitxml.open = write\n"
)
_SKIPS = CORE.replace("return", "import unittest; raise unittest.SkipTest\n    return")
_XFAILS = CORE.replace("return", "import pytest; pytest.xfail()\n    return")
_LEAVES = (
    "import atexit, os, sys\n\n\ndef leave():\n"
    "    for word in sys.argv:\n        if word.startswith('--junitxml='):\n"
    f"            open(word[11:], 'w').write({_XML!r})\n"
    "    os.write(1, b'PASSED tests/test_core.py::test_one\\n'\n"
    "                b'PASSED tests/test_core.py::test_two\\n')\n"
    "    os._exit(0)\n\n\n"
)
_ASSERTS = (
    "import builtins\n\n\nclass Quiet(Exception):\n    pass\n\n\n"
    "import _pytest.assertion.rewrite\nimport _pytest.runner\n"
    "_pytest.runner.CallInfo.from_call = classmethod(\n"
    "    lambda cls, func, when, reraise=None: cls(None, None, 0, 0, 0, when, _ispytest=True))\n"
)


def _metadata(folder: str, name: str, about: str) -> Mapping[str, str]:
    point = name
    if "mock" in name:
        point = "pytest_mock"
    return {
        **_EVIL,
        f"{folder}/entry_points.txt": _POINT.format(name=point),
        f"{folder}/{about}": _META.format(name=name),
    }


def _own(code: str) -> Mapping[str, str]:
    return {**_EVIL, "thing/__init__.py": code}


CANDIDATES: Mapping[str, Mapping[str, str]] = {
    # Metadata of plugins.
    "upper-case dist-info": _metadata("evil-1.0.DIST-INFO", "evil", "METADATA"),
    "dist-info": _metadata("evil-1.0.dist-info", "evil", "METADATA"),
    "mixed egg-info": _metadata("evil.Egg-Info", "evil", "PKG-INFO"),
    "egg-info": _metadata("thing.egg-info", "thing", "PKG-INFO"),
    "a known plugin's metadata": _metadata(
        "pytest_mock-9.Dist-Info", "pytest-mock", "METADATA"
    ),
    "entry points in setup.py": {
        **_EVIL,
        "setup.py": SETUP.replace(
            "'])\n", "'], entry_points={'pytest' + '11': ['evil = thing._evil']})\n"
        ),
    },
    "entry points in setup.cfg": {
        **_EVIL,
        "setup.cfg": FILES["setup.cfg"]
        + "\n[options.entry_points]\npytest11 =\n    evil = thing._evil\n",
    },
    # Modules in place of the environment's.
    "_distutils_hack": {**_EVIL, "_distutils_hack.py": _SHADOW},
    "_distutils_hack as a package": {**_EVIL, "_distutils_hack/__init__.py": _SHADOW},
    "an installed plugin": {**_EVIL, "pytest_mock.py": _PLUGIN},
    "an installed plugin as a package": {**_EVIL, "pytest_mock/__init__.py": _PLUGIN},
    "iniconfig": {**_EVIL, "iniconfig.py": _SHADOW},
    "pluggy": {**_EVIL, "pluggy/__init__.py": _SHADOW},
    "a standard module": {**_EVIL, "json.py": _SHADOW},
    "pytest": {**_EVIL, "pytest.py": _SHADOW},
    "setuptools": {**_EVIL, "setuptools/__init__.py": _SHADOW},
    # The interpreter's start.
    "sitecustomize": {**_EVIL, "sitecustomize.py": _STARTUP},
    "usercustomize": {**_EVIL, "usercustomize/__init__.py": _STARTUP},
    "a .pth file": {**_EVIL, "evil.pth": _PTH},
    "a .pth file of setup.py": {
        **_EVIL,
        "setup.py": SETUP + _WRITES.format(name="evil.pth", text=_PTH),
    },
    "sitecustomize of setup.py": {
        **_EVIL,
        "setup.py": SETUP + _WRITES.format(name="sitecustomize.py", text=_STARTUP),
    },
    "variables of tox": {
        **_EVIL,
        "tox.ini": "[testenv]\nsetenv =\n    PYTEST_PLUGINS = thing._evil\n",
    },
    # Test configuration.
    "conftest.py": {**_EVIL, "conftest.py": _PLUGIN},
    "a new conftest.py": {**_EVIL, "tests/conftest.py": _PLUGIN},
    "pytest.ini": {**_EVIL, "pytest.ini": _CONFIGURED.format(section="pytest")},
    "setup.cfg": {**_EVIL, "setup.cfg": _CONFIGURED.format(section="tool:pytest")},
    "tox.ini": {**_EVIL, "tox.ini": _CONFIGURED.format(section="pytest")},
    "pyproject.toml": {
        **_EVIL,
        "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '-p thing._evil'\n",
    },
    # Hooks of the package's own code.
    "replaced reports": _own(_REPORTS),
    "a replaced method": _own(_RUNTEST),
    "a method's new code": _own(_CODE),
    "a replaced call": _own(_ASSERTS),
    "a hook": _own(_HOOK),
    "a new name in a class": _own(_NEW_METHOD),
    "a new name in a module": _own(_NEW_NAME),
    "skipped tests": {"thing/core.py": _SKIPS},
    "tests that are expected to fail": {"thing/core.py": _XFAILS},
    "a skipped file": {
        "thing/core.py": f"import unittest\nraise unittest.SkipTest\n{CORE}"
    },
    "a registered plugin": _own(_REGISTERED),
    "a finder": _own(_FINDER),
    "a forged report at the end": _own(_LEAVES + "atexit.register(leave)\n"),
    "a forged report at once": _own(_LEAVES + "leave()\n"),
}
FEW = (
    "upper-case dist-info",
    "_distutils_hack",
    "an installed plugin",
    "usercustomize",
    "a new conftest.py",
    "replaced reports",
    "a hook",
    "a new name in a class",
    "a new name in a module",
    "skipped tests",
    "tests that are expected to fail",
    "a skipped file",
    "a registered plugin",
    "a forged report at the end",
)


def changes(name: str) -> dict[str, bytes | None]:
    texts = CANDIDATES[name]
    return {path: text.encode() for path, text in texts.items()}


IMAGE = "swe-retry-harness/forged:test"
# A plugin, because the base image may have none.
PLUGIN = {
    "pytest_mock.py": "",
    "setup.py": "from setuptools import setup\n\nsetup(name='pytest-mock', version='3.0',"
    " py_modules=['pytest_mock'], entry_points={'pytest11': ['pytest_mock = pytest_mock']})\n",
}
ROW: dict[str, Any] = {
    "instance_id": "own__thing-1",
    "repo": "own/thing",
    "problem_statement": "It is broken.",
    "version": "1.0",
    "log_parser": "parse_log_pytest",
    "eval_type": "pass_and_fail",
    "image": "",
    "eval_script": "",
    "FAIL_TO_PASS": ["tests/test_core.py::test_one"],
    "PASS_TO_PASS": ["tests/test_core.py::test_two"],
    "spec": {
        "python": "3",
        "install": "python -m pip install -e .",
        "test_cmd": "pytest -rA",
        "pip_packages": ["pytest", "pytest-mock"],
    },
}
HIDDEN = (
    "diff --git a/tests/test_core.py b/tests/test_core.py\n--- a/tests/test_core.py\n"
    "+++ b/tests/test_core.py\n@@ -2,7 +2,7 @@\n \n \n def test_one():\n"
    "-    assert one() == 1\n+    assert one() == 5\n \n \n def test_two():\n"
)
SOUND_CORE = CORE.replace("return 2", "return 3 - 1")
RIGHT_CORE = CORE.replace("return 1", "return 5")
SOUND: dict[str, bytes | None] = {"thing/core.py": SOUND_CORE.encode()}
RIGHT: dict[str, bytes | None] = {"thing/core.py": RIGHT_CORE.encode()}


def forms(few: tuple[str, ...] = ()) -> list[Any]:
    rows = []
    for name in CANDIDATES:
        marks = [pytest.mark.long]
        if name in few:
            marks = []
        rows.append(pytest.param(name, marks=marks, id=name))
    return rows


@pytest.fixture(scope="module")
def project(
    tmp_path_factory: pytest.TempPathFactory, share_venvs: ShareVenvs
) -> tuple[Path, dict[str, Any]]:
    """A mirror of the project, and the row of its instance."""
    root = tmp_path_factory.mktemp("forged")
    work = root / "source"
    write_files(work, FILES)
    commit = commit_all(work, "Begin")
    write_files(work, RIGHT)
    gold = run_git(work, "diff")
    (root / "mirrors").mkdir()
    (work / ".git").rename(root / "mirrors/own__thing.git")
    # The session of other tests holds the project's own environment.
    share_venvs(root / "evaluating/environments")
    return root, {**ROW, "base_commit": commit, "test_patch": HIDDEN, "patch": gold}


def suite(
    session: Any,
    files: list[str],
    read: Callable[[str], Any],
    cache: Path,
) -> RegressionTests:
    return RegressionTests(
        instance=an_instance(),
        session=session,
        choice=TestChoice.RELATED,
        limits=Tests(timeout=60, baseline_timeout=60),
        files=files,
        read=read,
        cache=cache,
        identity=session.identity,
        log=logging.getLogger("test"),
    )


def checkout_of(instance: Instance, root: Path, folder: Path) -> Checkout:
    mirrors = Mirrors(root / "mirrors")
    snapshots = root / "snapshots"
    commit = instance.base_commit
    mirror = mirrors.get(instance.repo, commit)
    snapshot = get_snapshot(snapshots, mirror, instance.repo, commit)
    return make_checkout(snapshot, folder)


@pytest.fixture(scope="module")
def local(
    project: tuple[Path, dict[str, Any]], cache: Path
) -> Iterator[RegressionTests]:
    root, row = project
    instance, _ = split_row(row)
    base = checkout_of(instance, root, root / "base")
    environment = make_environment(EnvironmentKind.LOCAL, cache, print)
    session = environment.start(project_of(instance, base))
    files = list(base.tracked_files())
    yield suite(session, files, base.read_base, root / "local")
    session.stop()


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegressionTests]:
    client = connect()
    assert client
    context = io.BytesIO()
    texts = {f"testbed/{path}": text for path, text in FILES.items()}
    for path, text in PLUGIN.items():
        texts[f"plugin/{path}"] = text
    texts["Dockerfile"] = (
        "FROM python:3.11-slim\nCOPY plugin /plugin\nCOPY testbed /testbed\nWORKDIR /testbed\n"
        "RUN python -m pip install --no-build-isolation --no-deps --no-index /plugin\n"
        "RUN python -m pip install --no-build-isolation --no-deps --no-index -e .\n"
    )
    with tarfile.open(fileobj=context, mode="w") as archive:
        for path, text in texts.items():
            info = tarfile.TarInfo(path)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    context.seek(0)
    client.images.build(
        fileobj=context,
        custom_context=True,
        tag=IMAGE,
        rm=True,
        network_mode="none",
    )
    spec = ImageSpec(IMAGE, ("python -m pip install -e .",), "pytest -rA")
    folder = tmp_path_factory.mktemp("docker")
    project = Project(
        key="own__thing-1",
        group="own/thing",
        version="",
        root=folder,
        revision="",
        venv=UnavailableError("not needed"),
        image=spec,
    )
    session = DockerEnvironment(client).start(project)
    yield suite(session, list(FILES), FILES.get, folder)
    session.stop()


@pytest.mark.parametrize("name", forms(FEW))
def test_no_forged_candidate_is_plausible_locally(
    local: RegressionTests, name: str
) -> None:
    report = local.run(changes(name))
    if report.outcome is not False:
        assert report.outcome is None
        assert report.suspect


def test_a_sound_candidate_is_plausible_locally(local: RegressionTests) -> None:
    report = local.run(SOUND)
    assert report.outcome is True, report.untested
    assert not report.suspect, "the doubt about forged ones stays with them"


@pytest.mark.long
@pytest.mark.docker
@pytest.mark.parametrize("name", ["sound", *CANDIDATES])
def test_no_forged_candidate_is_plausible_in_docker(
    docker: RegressionTests, name: str
) -> None:
    edits = SOUND
    if name != "sound":
        edits = changes(name)
    report = docker.run(edits)
    assert (report.outcome is True) is (name == "sound"), report.untested


@pytest.mark.long
@pytest.mark.parametrize("name", ["right", *CANDIDATES])
def test_no_forged_candidate_is_resolved(
    project: tuple[Path, dict[str, Any]],
    tmp_path: Path,
    name: str,
) -> None:
    root, row = project
    instance, evaluation = split_row(row)
    edits = RIGHT
    status = VerdictStatus.RESOLVED
    if name != "right":
        edits = changes(name)
        status = VerdictStatus.UNRESOLVED
    tree = checkout_of(instance, root, tmp_path / "tree")
    write_files(tree.root, edits)
    # With all files, also those that the harness does not predict.
    prediction = Prediction(instance.instance_id, "me", take_patch(tree))
    settings = report_settings(
        root / "evaluating",
        "local",
        repos=root / "mirrors",
        timeout=60.0,
    )
    evaluator = LocalEvaluator("local", tmp_path, settings, "", "test", print)
    task = EvaluationTask(prediction, instance, evaluation)
    (verdict,) = evaluator.evaluate([task], "r")
    assert verdict.status is status, verdict.reason
