"""The options of a run on one's own repository and issue."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from core.options import option, option_group

OWN = "One's own repository"
_part = partial(option, panel=OWN)
_start = partial(option, panel=OWN, recorded=False)


@option_group
class OwnOptions:
    """What to work on, how its tests run, and where the result goes."""

    repo: str = _part(
        "", "Work on this git repository, a path or an address.", "--repo"
    )
    issue: str = _part(
        "",
        "What to solve there: a file, - for standard input, a text, or the address of an issue "
        "(GitHub, GitLab, Gitea).",
        "--issue",
    )
    base: str = _part("", "Start from this commit; default: HEAD.", "--base")
    include_changes: bool = _part(
        False, "Uncommitted changes are part of the base.", "--include-changes"
    )
    setup_cmd: tuple[str, ...] = _part(
        (),
        "Installs what the tests need, with a network; repeatable. Default: found.",
        "--setup-cmd",
        given=list[str],
    )
    test_cmd: str = _part("", "Runs all tests. Default: found.", "--test-cmd")
    lint_cmd: str = _part("", "Checks the tree. Default: found.", "--lint-cmd")
    image: str = _part("", "Run tests in containers of this image.", "--image")
    apply: bool = _start(False, "Apply a plausible patch to the work tree.", "--apply")
    apply_anyway: bool = _start(
        False, "--apply and --branch take the least bad patch too.", "--apply-anyway"
    )
    branch: str = _start("", "Commit a plausible patch to this new branch.", "--branch")
    patch: Path | None = _start(None, "Write the patch to this file.", "--patch")
