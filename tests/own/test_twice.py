"""The documented command in one's own repository, again and again: its files are no changes."""

from __future__ import annotations

import os
import shlex
from functools import partial
from pathlib import Path

import pytest

from swe_retry.core.errors import UserError
from swe_retry.own.folders import own_files
from tests.support import wait_until, write_files
from tests.support.ownworld import ISSUE, RIGHT, World, run_git
from tests.support.provider import Answer, Provider


def command_line(world: World, options: str) -> list[str]:
    """Return the documented command, with recorded replies unless a server is named."""
    # Where the packages are installed, these folders are the default.
    folders = f"--out . --set folders.cache={world.cache}"
    untested = "--environment none --set tests.required=false"
    usual = f"--repo . --tries 1 {untested} {folders}"
    if "--api-base" not in options:
        usual += f" --replay {world.folder}/replies --models a,b"
    return ["--issue", ISSUE, *shlex.split(f"{usual} {options}")]


def start(world: World, root: Path, options: str = "", code: int = 0) -> str:
    """Run the command in ``root``, which must end with ``code``; return its output."""
    command = command_line(world, options)
    done = world.preloaded.run(*command, cwd=root)
    assert done.returncode == code, done.stdout
    return done.stdout


def git_status(root: Path) -> str:
    return run_git(root, "status", "--porcelain", "--untracked-files=all")


def test_the_same_command_works_twice(world: World, calc: Path) -> None:
    world.record("local/calc", RIGHT)
    (calc / "mine.py").write_text("MINE = 1\n")
    before = git_status(calc)
    command = "--set project.include_changes=true"
    start(world, calc, command)
    assert git_status(calc) == before
    assert "1 done before" in start(world, calc, command)
    (run,) = (calc / "predictions").iterdir()  # the base is the same
    options = ("--continue", run.name, "--out", ".")
    continued = world.preloaded.run(*options, cwd=calc)
    assert continued.returncode == 0, continued.stdout
    assert "1 done before" in continued.stdout
    assert git_status(calc) == before
    patch = (run / "candidate.patch").read_text()
    assert patch.count("diff --git") == 1
    assert "predictions" not in patch
    of_predictions = run / ".gitignore"
    of_logs = calc / "logs" / run.name / ".gitignore"
    assert of_predictions.read_text() == of_logs.read_text()


def test_a_cache_and_a_patch_may_lie_in_the_repository_too(
    world: World, calc: Path
) -> None:
    world.record("local/calc", RIGHT)
    command = "--set folders.cache=.cache --set project.patch=fix.diff"
    for done_before in (False, True):
        output = start(world, calc, command)
        assert ("1 done before" in output) is done_before
        assert git_status(calc) == "?? fix.diff"  # the user wanted it there


def test_after_a_kill_the_same_command_continues(
    world: World,
    calc: Path,
    provider: Provider,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    slow = Answer(RIGHT[1], hang=20)
    provider.will_answer(RIGHT[0], slow)
    model = "--models gpt-4o@diff --set calls.retries=0"
    options = f"--api-base {provider.url} {model}"
    command = command_line(world, options)
    process = world.preloaded.start(*command, cwd=calc)
    wait_until(lambda: len(provider.requests) >= 2)
    assert git_status(calc) == ""
    process.kill()
    process.wait(60)
    assert git_status(calc) == ""
    provider.answers.clear()
    provider.will_answer(RIGHT[1])
    output = start(world, calc, options)
    assert "continuing from what it left" in output
    assert git_status(calc) == ""
    runs = list((calc / "predictions").iterdir())
    assert len(runs) == 1


def test_folders_of_the_user_stay_the_users(world: World, calc: Path) -> None:
    """Only the folders of runs are hidden; a run of version 0.12 was not."""
    write_files(calc, {"logs/mine.txt": "1\n", "predictions/mine/a.csv": "1\n"})
    run_git(calc, "add", "--all")
    run_git(calc, "commit", "--quiet", "-m", "Mine")
    files_of_runs = {
        "predictions/r--a/run.json": "{}\n",
        "predictions/r--a/harness.log": "x\n",
        "logs/r--a/x.unfinished.json": "{}\n",
        "logs/gone/journals/x.jsonl": "{}\n",
        "predictions/killed/.run.owner": "{}\n",
    }
    write_files(calc, files_of_runs)
    world.record("local/calc", RIGHT)
    before = git_status(calc)
    start(world, calc)
    assert git_status(calc) == before
    assert not (calc / "logs/.gitignore").exists()
    assert not (calc / "predictions/.gitignore").exists()
    write_files(calc, {"logs/more.txt": "2\n", "predictions/mine/b.csv": "2\n"})
    refusal = start(world, calc, code=2)
    assert "uncommitted changes (logs/more.txt, predictions/mine/b.csv)" in refusal


def test_staged_and_committed_files_of_a_run_are_no_changes(
    world: World, calc: Path
) -> None:
    """Earlier versions advised to commit them."""
    committed = {
        "predictions/old/run.json": "{}\n",
        "logs/old/redo.json": "{}\n",
    }
    write_files(calc, committed)
    run_git(calc, "add", "--all")
    run_git(calc, "commit", "--quiet", "-m", "As advised")
    staged = {
        "predictions/old/run.json": '{"a": 1}\n',
        "predictions/old/new.md": "x\n",
    }
    write_files(calc, staged)
    run_git(calc, "add", "--all")
    (calc / "mine.py").write_text("MINE = 1\n")
    world.record("local/calc", RIGHT)
    cache = world.folder / "cache"
    settings = f"--set project.include_changes=true --set folders.cache={cache}"
    start(world, calc, settings)
    (mirror,) = cache.glob("own/*/local__calc.git")
    (row,) = mirror.parent.glob("*.json")
    _, _, rest = row.read_text().partition('"base_commit": "')
    base = rest[:40]
    names = run_git(mirror, "ls-tree", "-r", "--name-only", base).splitlines()
    assert "mine.py" in names
    assert "predictions/old/new.md" not in names
    assert run_git(mirror, "show", f"{base}:predictions/old/run.json") == "{}"


@pytest.mark.parametrize("cache", [".", "lib", "made"])
def test_a_cache_is_no_folder_of_the_users(calc: Path, cache: str) -> None:
    folder = calc / cache
    find = partial(
        own_files,
        tree=calc,
        out=calc / "out",
        cache=folder,
        patch=None,
    )
    if cache == "made":
        folder.mkdir()
        assert find() == {"made"}
        assert find() == {"made"}
        assert (folder / ".gitignore").exists()
        return
    with pytest.raises(UserError, match="it holds files of the repository"):
        find()
    assert not (folder / ".gitignore").exists()
    assert os.listdir(folder)
