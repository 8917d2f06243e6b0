"""The wheel of the exercises: its files, and its command beside the wheel of the house."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from exercises.tests.support.exercism import SIX
from swe_retry.record.versions import HARNESS_VERSION
from tests.support import TOP, read_json
from tests.test_wheel import run, uv
from tests.test_wheel import wheel as house  # noqa: F401 - a fixture

pytestmark = pytest.mark.system
EXERCISES = TOP / "exercises"
RECORDED = TOP / "tests/data/run-0.12/predictions/exercism"


@pytest.fixture(scope="module")
def wheel(house: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: F811
    folder = tmp_path_factory.mktemp("wheel")
    build = ("build", "--quiet", "--wheel", "--out-dir", folder)
    uv(*build, EXERCISES, cwd=folder)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def command(
    house: Path,  # noqa: F811
    wheel: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The command in an environment that has both wheels and what they depend on."""
    home = tmp_path_factory.mktemp("installed")
    uv("venv", "--quiet", "--python", sys.executable, "environment", cwd=home)
    python = home / "environment/bin/python"
    install = ("pip", "install", "--quiet", "--python", python)
    uv(*install, house, wheel, cwd=home)
    return python.with_name("retry-exercises")


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.check_output(
        [*argv, "swe_retry_exercises"], cwd=EXERCISES, text=True
    )
    files = {name for name in listed.split("\0") if (EXERCISES / name).is_file()}
    archive = ZipFile(wheel)
    names = archive.namelist()
    assert {name for name in names if ".dist-info/" not in name} == files
    (facts,) = [name for name in names if name.endswith("METADATA")]
    metadata = archive.read(facts).decode()
    assert f"Requires-Dist: swe-retry-harness=={HARNESS_VERSION}\n" in metadata
    assert "Requires-Dist: trl" in metadata.partition("Provides-Extra: train")[2]


@pytest.mark.parametrize("line", ["exercism run", "canitedit report", "editpack mine"])
def test_the_command_says_its_own_name(
    command: Path, tmp_path: Path, line: str
) -> None:
    done = run(command, *line.split(), "--help", cwd=tmp_path)
    assert done.stdout.startswith(f"Usage: retry-exercises {line} [OPTIONS]"), (
        done.stderr
    )


def test_a_recorded_run_is_replayed_in_another_folder(
    command: Path, tmp_path: Path
) -> None:
    line = f"exercism run --models gpt-4o --formats whole,diff --replay {RECORDED} "
    line += f"--exercises {SIX} --environment local --run again "
    line += "--set exercises.ids=cuckoo-clock,garden-path,tidy-receipt "
    line += f"--set folders.cache={tmp_path}/cache"
    done = run(command, *line.split(), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    results = "results/gpt-4o.diff.1/python/tidy-receipt.json"
    again = read_json(tmp_path / "predictions/again" / results)
    recorded = read_json(RECORDED / results)
    assert again["tests_outcomes"] == recorded["tests_outcomes"]
    report = run(command, "exercism", "report", "again", cwd=tmp_path)
    assert "3 of 3" in report.stdout, report.stderr
