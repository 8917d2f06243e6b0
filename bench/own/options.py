"""The options of a run on one's own repository and issue."""

from __future__ import annotations

from pathlib import Path

from core.options import option, option_group

OWN = "One's own repository"


@option_group
class OwnOptions:
    """What to work on, how its tests run, and where the result goes."""

    repo: str = option(
        "", "Work on this git repository, a path or an address, instead of a data set.",
        "--repo", panel=OWN,
    )  # fmt: skip
    issue: str = option(
        "",
        "What to solve there: a file, - for standard input, a text, or the address of an issue "
        "(GitHub, GitLab, Gitea).",
        "--issue",
        panel=OWN,
    )
    base: str = option("", "Start from this commit; default: HEAD.", "--base", panel=OWN)
    include_changes: bool = option(
        False, "Uncommitted changes are part of the base.", "--include-changes", panel=OWN
    )
    setup_cmd: tuple[str, ...] = option(
        (),
        "Installs what the tests need, with a network; repeatable. Default: found.",
        "--setup-cmd",
        panel=OWN,
        given=list[str],
    )
    test_cmd: str = option("", "Runs all tests. Default: found.", "--test-cmd", panel=OWN)
    lint_cmd: str = option("", "Checks the tree. Default: found.", "--lint-cmd", panel=OWN)
    image: str = option(
        "", "Run tests in this container image, with --environment docker.", "--image", panel=OWN
    )
    save_config: bool = option(
        False,
        "Write the commands to .retry-harness.toml, which later starts read.",
        "--save-config",
        panel=OWN,
        recorded=False,
    )
    apply: bool = option(
        False, "Apply a plausible patch to the work tree.", "--apply", panel=OWN, recorded=False
    )
    apply_anyway: bool = option(
        False,
        "--apply and --branch take the least bad patch too.",
        "--apply-anyway",
        panel=OWN,
        recorded=False,
    )
    branch: str = option(
        "", "Commit a plausible patch to this new branch.", "--branch", panel=OWN, recorded=False
    )
    patch: Path | None = option(
        None, "Write the patch to this file.", "--patch", panel=OWN, recorded=False
    )
