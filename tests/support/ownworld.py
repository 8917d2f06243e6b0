"""Repositories of a user, recorded replies for them, and the command that works on them."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swe_retry.core.git import git
from tests.support import read_json, write_files, write_json
from tests.support.commands import Preloaded, Started

ISSUE = "add subtracts\n\nadd(2, 3) is -1, should be 5."
SOURCE = "def add(a, b):\n    return a - b\n\n\ndef mul(a, b):\n    return a * b\n"
TESTS = """from calc import add, mul


def test_mul():
    assert mul(2, 3) == 6


def test_add_zero():
    assert add(2, 0) == 2
"""
FILES: dict[str, str | bytes | None] = {
    "lib/calc.py": SOURCE,
    "tests/test_calc.py": TESTS,
    "pytest.ini": "[pytest]\npythonpath = lib\n",
}
# The same files are the same commit, whose environment and baselines are kept.
SAME_TIME = dict.fromkeys(
    ("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), "2026-01-01T00:00:00+00:00"
)
LOOK = "lib/calc.py, please."


def edit(
    new: str,
    path: str = "lib/calc.py",
    old: str = "    return a - b\n",
) -> str:
    """Return a reply that replaces a line."""
    fence = "<<<<<<< SEARCH\n{}=======\n{}>>>>>>> REPLACE\n"
    return f"Like this:\n\n{path}\n```\n{fence.format(old, new)}```\n"


WRONG = [LOOK, edit("    return a * b\n"), "I do not know."]
RIGHT = [LOOK, edit("    return a + b\n")]


def run_git(root: Path, *arguments: str) -> str:
    """Run git as the user does, with a name of the user's own."""
    user = ("-c", "user.name=U Ser", "-c", "user.email=u@example.org")
    files = ("-c", "protocol.file.allow=always")
    result = subprocess.run(
        ["git", *user, *files, *arguments],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **SAME_TIME},
    )
    return result.stdout.strip()


def make_repository(
    root: Path, files: Mapping[str, str | bytes | None] | None = None
) -> Path:
    """Make a repository with one commit, on the branch main."""
    write_files(root, FILES if files is None else files)
    git("init", "--quiet", "--initial-branch=main", cwd=root)
    run_git(root, "add", "--all")
    run_git(root, "commit", "--quiet", "-m", "First")
    run_git(root, "config", "user.name", "U Ser")
    run_git(root, "config", "user.email", "u@example.org")
    return root


def state(root: Path) -> tuple[str, ...]:
    """Return what may not change in a user's repository."""
    refs = run_git(root, "for-each-ref")
    head = (root / ".git/HEAD").read_text()
    files = {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and ".git" not in path.relative_to(root).parts
    }
    index = {
        path.name: path.read_bytes() for path in sorted((root / ".git").glob("*index*"))
    }
    with_locks = run_git(root, "--no-optional-locks", "status", "--porcelain")
    return refs, head, with_locks, f"{files}{index}"


@dataclass(frozen=True)
class World:
    """A user's folder: replies, cache and runs lie in it."""

    folder: Path
    cache: Path
    preloaded: Preloaded

    def record(
        self,
        name: str,
        *attempts: list[str],
        issue: str = ISSUE,
        number: str = "",
    ) -> Path:
        """Write the replies of models ``a`` and ``b`` in turn; return the folder."""
        key = number or hashlib.sha256(issue.encode()).hexdigest()[:8]
        records: list[dict[str, Any]] = []
        for replies in attempts:
            record = {
                "attempt": len(records) + 1,
                "model": "ab"[len(records) % 2],
                "edit_format": "diff",
                "messages": [{"role": "assistant", "content": r} for r in replies],
                "recorded": {"cost": 0.0},
            }
            records.append(record)
        folder = self.folder / "replies"
        instance = f"{name.replace('/', '__')}-{key}"
        content = {"instance_id": instance, "attempts": records}
        return write_json(folder / f"{instance}.json", content).parent

    def start(
        self,
        repo: Path | str,
        *arguments: str,
        **changes: Any,
    ) -> subprocess.CompletedProcess[str]:
        """Run the command on ``repo``, without ``--api-base`` with the recorded replies."""
        process = self.begin(repo, *arguments, **changes)
        printed, _ = process.communicate()
        return subprocess.CompletedProcess(process.args, process.wait(), printed, "")

    def begin(
        self,
        repo: Path | str,
        *arguments: str,
        **changes: Any,
    ) -> Started:
        options = ["--repo", repo, "--out", self.folder]
        options += ["--set", f"folders.cache={self.cache}"]
        if "--issue" not in arguments:
            options += ["--issue", ISSUE]
        if "--tries" not in arguments:
            options += ["--tries", "1"]
        if "--api-base" not in arguments:
            options += ["--replay", self.folder / "replies", "--models", "a,b"]
        argv = [*map(str, options), *arguments]
        return self.preloaded.start(*argv, cwd=self.folder, **changes)

    @property
    def run(self) -> Path:
        """The folder of the one run."""
        (folder,) = (self.folder / "predictions").iterdir()
        return folder

    @property
    def prediction(self) -> Any:
        (path,) = (p for p in self.run.glob("*-*.json"))
        return read_json(path)
