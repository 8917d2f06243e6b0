"""What models read of failing tests: equal with interpreters elsewhere, and nothing of ours."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import distribution
from pathlib import Path

import pytest

from exercises.tests.support.exercism import profile_of, six
from swe_retry.environments.base import EnvironmentKind
from swe_retry.environments.local.bubblewrap import bubblewrap_works
from swe_retry_exercises.exercism.catalog import Exercise, read_catalog
from swe_retry_exercises.exercism.tester import ExerciseTester

pytestmark = pytest.mark.skipif(
    not bubblewrap_works(), reason="bubblewrap is not installed"
)
OF_PYTEST = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
_MACHINE = re.compile(
    r"""(?<![\w.])/(?:usr|root|home|opt|var|work|tmp/(?!tmp\.\.))[\w./+-]*"""
)
# Each reaches frames or paths in another way.
WRONG = {
    "raises": "def __getattr__(name): return lambda *_, **__: 1 / 0\n",
    "raises in a module of Python": (
        "import json, random\n"
        "def __getattr__(name): return lambda *_, **__: random.choice([]) or json.loads('{')\n"
    ),
    "returns a wrong value": "def __getattr__(name): return lambda *_, **__: 'wrong'\n",
    "prints its stack": (
        "import sys, tempfile, traceback\n"
        "def call(*_, **__):\n"
        "    print(sys.executable, traceback.__file__, tempfile.mkdtemp(), flush=True)\n"
        "    traceback.print_stack()\n"
        "def __getattr__(name): return call\n"
    ),
    "interrupts": "def call(*_): raise KeyboardInterrupt\ndef __getattr__(name): return call\n",
    "interrupts at import": "raise KeyboardInterrupt\n",
    "raises at import": "import json\njson.loads('{')\n",
    "imports what is not there": "import numpy_of_nobody\n",
    "a signal": "import faulthandler, os\nfaulthandler.enable()\nos.abort()\n",
    "recurses": "def call(*_): return call()\ndef __getattr__(name): return call\n",
}
# One after the other: each of the exercise's tests meets another.
_IN_TURN = (
    "raises",
    "raises in a module of Python",
    "returns a wrong value",
    "prints its stack",
    "recurses",
)
SHORT = {
    "in turn": (
        f"ways = []\nfor code in {[WRONG[name] for name in _IN_TURN]!r}:\n"
        "    exec(compile(code, __file__, 'exec'), way := {})\n    ways.append(way)\n"
        "def strikes(*given):\n"
        "    ways.append(ways.pop(0))\n    return ways[-1]['__getattr__']('strikes')(*given)\n"
    ),
    "interrupts": WRONG["interrupts"],
    "a signal": WRONG["a signal"],
}


@pytest.fixture(scope="module")
def interpreters(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Path]:
    """Interpreters of one minor version with pytest: this one, and one elsewhere."""
    venv = tmp_path_factory.mktemp("elsewhere") / "deeper" / "env"
    command = [sys.executable, "-m", "venv", "--without-pip", "--copies", str(venv)]
    subprocess.run(command, check=True)
    (site,) = venv.glob("lib/python3*/site-packages")
    for name in OF_PYTEST:
        package = distribution(name)
        for top in {
            file.parts[0] for file in package.files or () if file.parts[0] != ".."
        }:
            source = Path(str(package.locate_file(top)))
            if source.is_dir():
                shutil.copytree(source, site / top)
            else:
                shutil.copyfile(source, site / top)
    return [Path(sys.executable), venv / "bin" / "python"]


@pytest.fixture(scope="module")
def system_interpreters(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Path]:
    """The system's interpreter, perhaps of another patch version, without pytest."""
    system = Path(f"/usr/bin/python{sys.version_info[0]}.{sys.version_info[1]}")
    venv = tmp_path_factory.mktemp("system") / "env"
    command = [str(system), "-m", "venv", "--without-pip", str(venv)]
    if not system.exists() or subprocess.run(command, check=False).returncode:
        return []
    return [venv / "bin" / "python"]


@pytest.fixture(params=[True, False], ids=["2023", "current"])
def testers(
    request: pytest.FixtureRequest,
    interpreters: Sequence[Path],
    system_interpreters: Sequence[Path],
    tmp_path: Path,
) -> Iterator[Sequence[ExerciseTester]]:
    unittest = bool(request.param)
    pythons = [*interpreters, *(system_interpreters if unittest else [])]
    profile = profile_of(unittest)
    made = []
    for python in pythons:
        made.append(
            ExerciseTester(profile, EnvironmentKind.LOCAL, tmp_path, "m", python=python)
        )
    yield made
    for tester in made:
        tester.close()


def outputs(
    tester: ExerciseTester, exercise: Exercise, codes: Sequence[str]
) -> list[str]:
    solutions = []
    for code in codes:
        solutions.append({**exercise.stubs(), exercise.solution[0]: code.encode()})
    tried = [tester.test(exercise, result) for result in [*solutions, exercise.stubs()]]
    assert not any(result.solved for result in tried[:-1])
    return [result.output for result in tried]


def faults(
    testers: Sequence[ExerciseTester],
    exercise: Exercise,
    codes: Sequence[str],
) -> str:
    """Return what is wrong with what a model reads of ``exercise``, empty for nothing."""
    first, *others = (outputs(tester, exercise, codes) for tester in testers)
    for texts in zip(first, *others, strict=True):
        if len({*texts}) > 1:
            return "\n--- differs:\n".join(texts)
        for sign in ('File "<string>"', "exercises/exercism", "guard", "altered"):
            if sign in texts[0]:
                return f"{sign} is seen:\n{texts[0]}"
        machine_path = _MACHINE.search(texts[0])
        if machine_path:
            return f"{machine_path[0]} is seen:\n{texts[0]}"
    return ""


def test_messages_are_equal_with_interpreters_at_different_paths(
    testers: Sequence[ExerciseTester],
) -> None:
    codes = [*SHORT.values()] if testers[0].profile.unittest else [SHORT["in turn"]]
    assert not faults(testers, six()["cuckoo-clock"], codes)


@pytest.mark.long
def test_messages_are_equal_in_each_way(testers: Sequence[ExerciseTester]) -> None:
    assert not faults(testers, six()["cuckoo-clock"], [*WRONG.values()])


@pytest.mark.long
@pytest.mark.skipif("EXERCISM" not in os.environ, reason="EXERCISM names no exercises")
def test_messages_of_all_exercises_are_equal(testers: Sequence[ExerciseTester]) -> None:
    every = read_catalog(Path(os.environ["EXERCISM"])).exercises
    codes = []
    for name in ("raises in a module of Python", "returns a wrong value"):
        codes.append(WRONG[name])
    with ThreadPoolExecutor(2) as pool:
        reasons = list(
            pool.map(lambda exercise: faults(testers, exercise, codes), every)
        )
    differing = {
        exercise.name: fault
        for exercise, fault in zip(every, reasons, strict=True)
        if fault
    }
    assert not differing
