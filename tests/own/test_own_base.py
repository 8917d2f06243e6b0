"""The base of a run on one's own repository: checks before it, its folder, set-up and tests."""

from __future__ import annotations

import re
import secrets
import shlex
import signal
from pathlib import Path

import pytest

from swe_retry.own.base import timed_step
from swe_retry.record.runlock import run_lock
from tests.own.test_own_run import (
    FIXED,
    LOCAL,
    NAME,
    PYTEST,
    outcomes,
    start,
)
from tests.support import change_json, command_lines, still_running, wait_until
from tests.support.ownworld import (
    FILES,
    RIGHT,
    WRONG,
    World,
    make_repository,
    run_git,
    state,
)


def test_what_needs_no_set_up_is_checked_before_it(world: World, calc: Path) -> None:
    world.record(NAME, RIGHT)
    command = f"{PYTEST} --run r"
    output = start(world, calc, command)
    end = r"at (its|the) base commit: done in \d+:\d\d\n"
    for step in ("setting up the repository", "running all tests"):
        assert re.search(f"{step} {end}", output)

    def refusal(options: str = "") -> str:
        output = start(world, calc, f"{command} {options}", code=2)
        assert "base commit:" not in output
        return output

    assert "r was started with different" in refusal("--set choice.stop=all")
    with run_lock(world.run):
        assert "is worked on by process" in refusal()
    run_file = world.run / "run.json"
    change_json(run_file, lambda run: run["deciding"].update(harness="0"))
    assert "version of the harness was 0" in refusal()
    run_file.unlink()
    assert "has predictions but no run.json" in refusal()


def test_ctrl_c_while_the_base_is_measured_says_a_word(
    world: World, calc: Path
) -> None:
    world.record(NAME, RIGHT)
    mark = f"6{secrets.randbelow(10**6):06}"
    command = f"{LOCAL} --setup-cmd true --test-cmd 'sleep {mark}'"
    process = world.begin(calc, *shlex.split(command))
    wait_until(lambda: command_lines(mark))
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    lines = output.splitlines()
    assert "stopping; no model was called, and the same command starts again" in lines
    assert not still_running(mark)


def test_a_long_step_says_how_long_it_takes() -> None:
    lines: list[str] = []
    with timed_step("building", lines.append, every=0.05):
        wait_until(lambda: len(lines) > 2)
    assert lines[:2] == ["building …", "building: at work for 0:00"]
    assert lines[-1] == "building: done in 0:00"


@pytest.mark.system  # pip installs
def test_the_folder_is_the_project(world: World, tmp_path: Path) -> None:
    """Neither other folders nor what changed in them count."""
    files = {f"services/calc/{path}": text for path, text in FILES.items()}
    files["services/calc/requirements.txt"] = ""
    files["test_root.py"] = "def test_broken():\n    assert False\n"
    mono = make_repository(tmp_path / "mono", files)
    (mono / "test_root.py").write_text("changed")
    world.record("local/mono", WRONG, RIGHT)
    folder = mono / "services/calc"
    output = start(world, folder / "lib", f"{LOCAL} --branch fix --apply")
    assert "services/calc" in output.split("issue")[0]
    assert "Tests before, `python -m pytest`: 2 pass, 0 fail" in output
    assert outcomes(world) == [False, True]
    assert (folder / "lib/calc.py").read_text() == FIXED
    changed = run_git(mono, "diff", "--name-only", "main", "fix")
    assert changed == "services/calc/lib/calc.py"
    (folder / "new.py").write_text("NEW = 1\n")
    refusal = start(world, folder, LOCAL, code=2)
    assert "(services/calc/lib/calc.py, services/calc/new.py)" in refusal
    run_git(mono, "checkout", "--quiet", "services")
    include = "--set project.include_changes=true --dry-run"
    assert "changes" in start(world, folder, f"{LOCAL} {include}")
    (folder / "new.py").unlink()
    run_git(mono, "branch", "--quiet", "-D", "fix")
    command = f"--continue {world.run.name} --out {world.folder}"
    continued = world.preloaded.run(*shlex.split(command), cwd=world.folder)
    assert "folder services/calc" in continued.stdout
    assert "1 done before" in continued.stdout


def test_a_file_of_the_repository_pulls_no_image(world: World, tmp_path: Path) -> None:
    container = '{"image": "registry.invalid/any"}'
    files = {**FILES, ".devcontainer.json": container}
    calc = make_repository(tmp_path / "calc", files)
    world.record(NAME, RIGHT)
    assert "environment  local\n" in start(world, calc, "--dry-run")


def baselines_in(cache: Path) -> list[Path]:
    return sorted((cache / "baselines").iterdir())


def environments_in(cache: Path) -> dict[Path, int]:
    """Return when each environment was completed."""
    markers = (cache / "environments/instances").glob("*/.complete")
    return {marker: marker.stat().st_mtime_ns for marker in markers}


def test_a_second_issue_builds_and_measures_nothing_again(
    world: World, calc: Path
) -> None:
    other = "mul is slow"
    world.record(NAME, RIGHT)
    world.record(NAME, RIGHT, issue=other)
    start(world, calc, PYTEST)
    baselines = baselines_in(world.cache)
    environments = environments_in(world.cache)
    start(world, calc, f"{PYTEST} --issue '{other}'")
    assert baselines_in(world.cache) == baselines
    assert environments_in(world.cache) == environments


@pytest.mark.system  # pip installs
def test_check_shows_commands_and_all_output_and_calls_no_model(
    world: World, calc: Path
) -> None:
    """Also of an editable installation, which names a folder that is there in runs alone."""
    package = "[project]\nname = 'calc'\nversion = '1'\n[tool.setuptools]\n"
    package += "package-dir = {'' = 'lib'}\npy-modules = ['calc']\n"
    (calc / "pyproject.toml").write_text(package)
    loud = "def test_many():\n    print(*range(999), sep='\\n')\n    assert 0\n"
    (calc / "tests/test_loud.py").write_text(loud)
    run_git(calc, "add", "--all")
    run_git(calc, "commit", "--quiet", "-m", "Add a package")
    before = state(calc)
    options = f"--set folders.cache={world.cache} {LOCAL}"
    command = ["check", *shlex.split(options)]
    done = world.preloaded.run(*command, cwd=calc)
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    assert "set-up       pip install -e .; pip install pytest" in done.stdout
    assert "$ bash -c 'pip install -e .'" in lines
    assert "Successfully installed calc-1" in done.stdout
    assert {"  | 0", "  | 500", "  | 998"} <= set(lines)
    results = [line for line in lines if line.startswith("Tests before")]
    assert any("2 pass, 1 fail" in line for line in results)
    assert state(calc) == before
    assert not (calc / "predictions").exists()
    command += ["--test-cmd", "pytest -k nothing"]
    again = world.preloaded.run(*command, cwd=calc)
    assert again.returncode == 3, again.stdout
    assert "No baseline: no " in again.stdout
