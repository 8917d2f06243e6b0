"""Check the outcomes of a tree that an agent left without a result of its own."""

from __future__ import annotations

from collections.abc import Callable

from agent.conversation.outcomes import Ending, Result
from agent.conversation.testreport import TestReport
from agent.lint import Change, Finding, Linter
from agent.workspace import TextFile
from bench.repos.checkout import Checkout
from core.git import git
from core.worktree import Changes


def check_outcomes(
    checkout: Checkout, linter: Linter, run_tests: Callable[[Changes], TestReport] | None
) -> Result:
    """Return the outcomes of the tree: changed at all, no new fatal finding, no newly failing test.

    ``take_over`` must have prepared the tree.
    """
    changes = changes_of(checkout)
    clean = not _findings(checkout, linter, changes) if changes else None
    test = run_tests(changes).outcome if clean and run_tests else None
    return Result(
        ending=Ending.DONE,
        edit=True if changes else None,
        lint=clean,
        test=test,
        chat_files=(),
        edited_files=tuple(changes),
        reflections=0,
    )


def changes_of(checkout: Checkout) -> Changes:
    """Return the present bytes of every file that differs from the base commit, by path, sorted.

    New files that the tree ignores are left out; a file that became a link counts as gone.
    """
    root = checkout.root
    git("add", "--all", ".", cwd=root)
    listing = git(
        "diff", "--cached", "--name-status", "--no-renames", "-z", checkout.base_commit, cwd=root
    )
    words = listing.decode("utf-8", "surrogateescape").split("\0")
    changes: dict[str, bytes | None] = {}
    for status, path in sorted(zip(words[::2], words[1::2], strict=False), key=lambda w: w[1]):
        place = root / path
        there = status != "D" and place.is_file() and not place.is_symlink()
        changes[path] = place.read_bytes() if there else None
    return changes


def _findings(checkout: Checkout, linter: Linter, changes: Changes) -> tuple[Finding, ...]:
    tracked = set(checkout.tracked_files())
    return linter.new_findings(
        [
            Change(
                path,
                _base_text(checkout, path) if path in tracked else None,
                TextFile.decode(data).text,
            )
            for path, data in changes.items()
            if data is not None
        ]
    )


def _base_text(checkout: Checkout, path: str) -> str:
    data = git("cat-file", "blob", f"{checkout.base_commit}:{path}", cwd=checkout.root)
    return TextFile.decode(data).text
