"""The documented command in one's own repository, again and again: its files are no changes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench.cli.own import own_files
from core.errors import UserError
from tests.support import wait_until, write_files
from tests.support.ownworld import ISSUE, RIGHT, World, run_git
from tests.support.provider import Answer, Provider


def words(world: World, *more: str) -> tuple[str, ...]:
    """Return the documented command, with recorded replies."""
    given = ("--repo", ".", "--issue", ISSUE, "--tries", "1", "--environment", "none")
    # Where the packages are installed, this is the default.
    given += ("--out", ".", "--set", f"folders.cache={world.cache}")
    replay = ("--replay", str(world.folder / "replies"), "--models", "a,b")
    return (*given, *(() if "--api-base" in more else replay), *more)


def start(world: World, root: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return world.preloaded.run(*words(world, *more), cwd=root)


def shown(root: Path) -> str:
    return run_git(root, "status", "--porcelain", "--untracked-files=all")


def the_run(root: Path) -> Path:
    (found,) = (root / "predictions").iterdir()
    return found


@pytest.mark.parametrize(
    "more",
    [
        (),
        (
            "--set",
            "project.include_changes=true",
        ),
    ],
)
def test_the_same_command_works_twice(
    world: World,
    calc: Path,
    more: tuple[str, ...],
) -> None:
    world.record("local/calc", RIGHT)
    if more:
        (calc / "mine.py").write_text("MINE = 1\n")
    before = shown(calc)
    first = start(world, calc, *more)
    assert first.returncode == 0 and shown(calc) == before, first.stdout
    again = start(world, calc, *more)
    assert again.returncode == 0 and "1 done before" in again.stdout, again.stdout
    (run,) = (calc / "predictions").iterdir()  # the base is the same
    continued = world.preloaded.run("--continue", run.name, "--out", ".", cwd=calc)
    assert continued.returncode == 0 and "1 done before" in continued.stdout, (
        continued.stdout
    )
    assert shown(calc) == before
    patch = (run / "candidate.patch").read_text()
    assert patch.count("diff --git") == 1 and "predictions" not in patch
    assert (run / ".gitignore").read_text() == (
        calc / "logs" / run.name / ".gitignore"
    ).read_text()


def test_a_cache_and_a_patch_may_lie_in_the_repository_too(
    world: World, calc: Path
) -> None:
    world.record("local/calc", RIGHT)
    for number in range(2):
        done = start(
            world,
            calc,
            "--set",
            "folders.cache=.cache",
            "--set",
            "project.patch=fix.diff",
        )
        assert done.returncode == 0, done.stdout
        assert ("1 done before" in done.stdout) is bool(number)
        assert shown(calc) == "?? fix.diff"  # the user wanted it there


def test_after_a_kill_the_same_command_continues(
    world: World,
    calc: Path,
    provider: Provider,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    provider.will_answer(RIGHT[0], Answer(RIGHT[1], hang=20))
    live = (
        "--api-base",
        provider.url,
        "--models",
        "gpt-4o@diff",
        "--set",
        "calls.retries=0",
    )
    process = world.preloaded.start(*words(world, *live), cwd=calc)
    wait_until(lambda: len(provider.requests) >= 2)
    assert shown(calc) == ""
    process.kill()
    process.wait(60)
    assert shown(calc) == ""
    provider.answers.clear()
    provider.will_answer(RIGHT[1])
    done = start(world, calc, *live)
    assert done.returncode == 0 and "continuing from what it left" in done.stdout, (
        done.stdout
    )
    assert shown(calc) == "" and len([*(calc / "predictions").iterdir()]) == 1


def test_folders_of_the_user_stay_the_users(world: World, calc: Path) -> None:
    """Only the folders of runs are hidden; a run of version 0.12 was not."""
    write_files(calc, {"logs/mine.txt": "1\n", "predictions/mine/a.csv": "1\n"})
    run_git(calc, "add", "--all")
    run_git(calc, "commit", "--quiet", "-m", "Mine")
    old = {"predictions/r--a/run.json": "{}\n", "predictions/r--a/harness.log": "x\n"}
    old |= {"logs/r--a/x.unfinished.json": "{}\n", "logs/gone/journals/x.jsonl": "{}\n"}
    old |= {"predictions/killed/.run.owner": "{}\n"}
    write_files(calc, old)
    world.record("local/calc", RIGHT)
    before = shown(calc)
    done = start(world, calc)
    assert done.returncode == 0 and shown(calc) == before, done.stdout
    assert (
        not (calc / "logs/.gitignore").exists()
        and not (calc / "predictions/.gitignore").exists()
    )
    write_files(calc, {"logs/more.txt": "2\n", "predictions/mine/b.csv": "2\n"})
    refused = start(world, calc)
    assert refused.returncode == 2, refused.stdout
    assert (
        "uncommitted changes (logs/more.txt, predictions/mine/b.csv)" in refused.stdout
    )


def test_staged_and_committed_files_of_a_run_are_no_changes(
    world: World, calc: Path
) -> None:
    """Earlier versions advised to commit them."""
    write_files(
        calc, {"predictions/old/run.json": "{}\n", "logs/old/redo.json": "{}\n"}
    )
    run_git(calc, "add", "--all")
    run_git(calc, "commit", "--quiet", "-m", "As advised")
    write_files(
        calc,
        {"predictions/old/run.json": '{"a": 1}\n', "predictions/old/new.md": "x\n"},
    )
    run_git(calc, "add", "--all")
    (calc / "mine.py").write_text("MINE = 1\n")
    world.record("local/calc", RIGHT)
    cache = world.folder / "cache"
    done = start(
        world,
        calc,
        "--set",
        "project.include_changes=true",
        "--set",
        f"folders.cache={cache}",
    )
    assert done.returncode == 0, done.stdout
    (mirror,) = cache.glob("own/*/local__calc.git")
    (row,) = mirror.parent.glob("*.json")
    base = row.read_text().partition('"base_commit": "')[2][:40]
    listed = run_git(mirror, "ls-tree", "-r", "--name-only", base).splitlines()
    assert "mine.py" in listed and "predictions/old/new.md" not in listed
    assert run_git(mirror, "show", f"{base}:predictions/old/run.json") == "{}"


def test_a_run_elsewhere_gets_no_file_of_git(world: World, calc: Path) -> None:
    world.record("local/calc", RIGHT)
    done = start(world, calc, "--out", str(world.folder / "elsewhere"))
    assert done.returncode == 0, done.stdout
    assert not [*(world.folder / "elsewhere").rglob(".gitignore")]


@pytest.mark.parametrize("cache", [".", "lib", "made"])
def test_a_cache_is_no_folder_of_the_users(calc: Path, cache: str) -> None:
    place = calc / cache
    given: dict[str, Any] = {
        "tree": calc,
        "out": calc / "out",
        "cache": place,
        "patch": None,
    }
    if cache == "made":
        place.mkdir()
        assert own_files(**given) == {"made"}
        assert own_files(**given) == {"made"} and (place / ".gitignore").exists()
        return
    with pytest.raises(UserError, match="it holds files of the repository"):
        own_files(**given)
    assert not (place / ".gitignore").exists() and os.listdir(place)
