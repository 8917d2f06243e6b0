"""Checkouts of two versions of the harness, side by side, and their commands."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from core.git import git

TOP = Path(__file__).resolve().parents[1]
SECONDS = 3600


@dataclass(frozen=True)
class Tree:
    """A checkout of the harness and the folders that its commands write to."""

    name: str
    top: Path
    work: Path

    @property
    def out(self) -> Path:
        """The folder that holds ``predictions/``."""
        return self.work / f"out-{self.name}"

    def run_folder(self, run: str) -> Path:
        """Return a run's folder."""
        return self.out / "predictions" / run

    def command(self, *words: str, folders: bool = True) -> list[str]:
        """Return a command line of this tree."""
        out = ["--out", str(self.out)] if folders and words[0] == "harness.py" else []
        cache = ["--cache", str(self.work / f"cache-{self.name}")] if folders else []
        return [sys.executable, *words, *out, *cache]

    def call(self, *words: str, folders: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command of this tree to its end."""
        command = self.command(*words, folders=folders)
        return subprocess.run(
            command, cwd=self.top, capture_output=True, text=True, timeout=SECONDS, check=False
        )

    def done(self, *words: str) -> None:
        """Run a command that must succeed; what failed for some instances (1) is a result."""
        print(f"{self.name}: python {' '.join(words)}", flush=True)
        result = self.call(*words)
        if result.returncode not in (0, 1):
            raise SystemExit(f"{self.name}: exit {result.returncode}\n{result.stderr}")


@contextmanager
def worktree(commit: str, work: Path) -> Iterator[Tree]:
    """Check a commit out beside this tree for as long as it is needed."""
    top = work / f"tree-{commit}"
    git("worktree", "add", "--quiet", "--detach", top, commit, cwd=TOP)
    try:
        yield Tree(commit, top, work)
    finally:
        git("worktree", "remove", "--force", top, cwd=TOP)
