"""Commands on one's own repository that are refused in one line."""

from __future__ import annotations

import shlex
from pathlib import Path

from tests.support.ownworld import World

CALC = "--repo {calc} --issue 'x y'"
WRONG_STARTS = {
    "--repo {calc}": "give both --repo and --issue",
    "--repo {folder}/none --issue 'x y'": "does not exist",
    "--repo {folder} --issue 'x y'": "is not in a git repository",
    "--repo ~nobody-here/calc --issue '~x is broken'": "does not exist",
    "--repo 'ext::sh -c true' --issue 'x y'": "repository ext::",
    "--repo {calc} --issue {folder}/none.md": "none.md",
    f"{CALC} --set project.base=nothing": "has no commit 'nothing'",
    f"{CALC} --set project.base=--all": "has no commit '--all'",
    f"{CALC} --dataset demo": "leave --dataset out",
    f"{CALC} --branch a..b": "is not a name for a branch",
    f"{CALC} --branch main": "there is main; choose another",
    f"{CALC} --branch main/x": "there is main; choose another",
    f"{CALC} --set project.patch={{folder}}": "a file cannot be written",
    f"{CALC} --set project.patch=/proc/x/y": "a file cannot be written",
    f"{CALC} --set project.image=i --environment local": "project.image",
    f"{CALC} --environment docker": "project.image",
}


def start(world: World, calc: Path, options: str) -> tuple[int, str]:
    """Return the exit code and the one line that was printed."""
    command = options.format(calc=calc, folder=world.folder)
    folders = f"--set folders.cache={world.cache} --out {world.folder}"
    argv = shlex.split(f"{command} {folders} --models gpt-4o")
    done = world.preloaded.run(*argv)
    lines = done.stdout.strip().splitlines()
    assert len(lines) == 1, (options, lines)
    return done.returncode, lines[0]


def test_wrong_starts_are_one_line(world: World, calc: Path) -> None:
    for options, message in WRONG_STARTS.items():
        code, line = start(world, calc, options)
        assert code == 2, (options, line)
        assert message in line, options


def test_an_address_that_is_not_reached_is_one_line(world: World, calc: Path) -> None:
    address = "http://127.0.0.1:9/me/calc"
    for options in (
        f"--repo {{calc}} --issue {address}/issues/5",
        f"--repo {address} --issue 'x y'",
    ):
        code, line = start(world, calc, options)
        assert code == 2, (options, line)
        assert "127.0.0.1:9" in line, options
