"""A run on one's own repository and issue."""

from __future__ import annotations

from typing import Annotated

from swe_retry.core.settings import Folder, Section, SplitLines

# The files of a result, which reports read too, and where the patch begins in the summary.
SUMMARY = "summary.md"
PATCH = "candidate.patch"
PATCH_HEADING = "## Patch"


class ProjectSettings(Section):
    """What to work on, how its tests run, and where the result goes."""

    repo: str = ""
    """Work on this git repository: a folder or an address."""

    issue: str = ""
    """Solve this: a file, an address of an issue, a text, or - for standard input."""

    base: str = ""
    """Start from this commit; default: HEAD."""

    include_changes: bool = False
    """Take uncommitted changes as a part of the base."""

    setup: Annotated[tuple[str, ...], SplitLines] = ()
    """Install with this command what the tests need; repeatable; by default it is
    found."""

    test: str = ""
    """Run all tests with this command; by default it is found."""

    lint: str = ""
    """Check the tree with this command; by default it is found."""

    image: str = ""
    """Run tests in containers of this image."""

    trust_commands: bool = False
    """Run the commands that .retry-harness.toml of a cloned repository names."""

    apply: bool = False
    """Apply a plausible patch to the work tree."""

    branch: str = ""
    """Commit a plausible patch to this new branch."""

    patch: Folder | None = None
    """Write the patch to this file."""

    least_bad: bool = False
    """Apply and commit the least bad patch too."""
