"""Commands on one's own repository that are refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.ownworld import ISSUE, World

WRONG_STARTS = [
    (("--repo", "{calc}"), "give both --repo and --issue"),
    (("--repo", "{folder}/none", "--issue", "x y"), "does not exist"),
    (("--repo", "{folder}", "--issue", "x y"), "is not in a git repository"),
    (
        ("--repo", "{calc}", "--issue", "x y", "--set", "project.base=nothing"),
        "it has no commit 'nothing'",
    ),
    (
        ("--repo", "{calc}", "--issue", "x y", "--set", "project.base=--all"),
        "it has no commit '--all'",
    ),
    (
        ("--repo", "{calc}", "--issue", "x y", "--dataset", "demo"),
        "leave --dataset out",
    ),
    (("--repo", "{calc}", "--issue", "{folder}/none.md"), "none.md"),
    (
        ("--repo", "{calc}", "--issue", "x y", "--branch", "a..b"),
        "is not a name for a branch",
    ),
    (
        ("--repo", "{calc}", "--issue", "x y", "--branch", "main"),
        "there is main; choose another",
    ),
    (
        ("--repo", "{calc}", "--issue", "x y", "--branch", "main/x"),
        "there is main; choose another",
    ),
    (
        ("--repo", "{calc}", "--issue", "x y", "--set", "project.patch={folder}"),
        "a file cannot be written",
    ),
    (
        ("--repo", "{calc}", "--issue", "x y", "--set", "project.patch=/proc/x/y"),
        "a file cannot be written",
    ),
    (("--repo", "~nobody-here/calc", "--issue", "~x is broken"), "does not exist"),
    (
        (
            "--repo",
            "{calc}",
            "--issue",
            "x y",
            "--set",
            "project.image=i",
            "--environment",
            "local",
        ),
        "project.image",
    ),
    (
        ("--repo", "{calc}", "--issue", "x y", "--environment", "docker"),
        "project.image",
    ),
    (("--repo", "ext::sh -c true", "--issue", "x y"), "--repo"),
]


@pytest.mark.parametrize(("words", "said"), WRONG_STARTS)
def test_wrong_starts_are_one_line(
    world: World,
    calc: Path,
    words: tuple[str, ...],
    said: str,
) -> None:
    given = [word.format(calc=calc, folder=world.folder) for word in words]
    places = ("--set", f"folders.cache={world.cache}", "--out", str(world.folder))
    done = world.preloaded.run(*given, *places, "--models", "gpt-4o")
    lines = done.stdout.strip().splitlines()
    assert (done.returncode, len(lines)) == (2, 1) and said in lines[0], done.stdout


def test_an_address_that_is_not_reached_is_one_line(world: World, calc: Path) -> None:
    address = "http://127.0.0.1:9/me/calc"
    for given in (
        (calc, "--issue", f"{address}/issues/5"),
        (address, "--issue", ISSUE),
    ):
        done = world.preloaded.run(
            "--repo",
            *map(str, given),
            "--models",
            "gpt-4o",
            "--set",
            f"folders.cache={world.cache}",
        )
        assert done.returncode == 1 and "127.0.0.1:9" in done.stdout, done.stdout
        assert len(done.stdout.strip().splitlines()) == 1
