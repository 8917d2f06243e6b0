"""CPU seconds and peak memory of making maps, against those of the reference agent.

``python -m benchmarks.map_speed DIR TEXT STORE`` measures this harness. Run as a file by another
Python, with ``reference`` as STORE, it measures the repo map of the agent that is installed there.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

TOKENS = 1024


def main(folder: str, text_file: str, store: str) -> None:
    """Make a map, then another for a longer text, and print the figures of each as JSON."""
    text = Path(text_file).read_text(encoding="utf-8")
    with contextlib.redirect_stderr(io.StringIO()):
        make = _reference if store == "reference" else _ours
        render = make(folder, store)
        render(text)
        first = _cpu_seconds()
        render(f"{text}\nThe same holds for evaluate and for lambdify.")
    message = _cpu_seconds() - first
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    figures = {"first": first, "message": message, "peak": peak}
    print(json.dumps(figures))


def _cpu_seconds() -> float:
    """Return the CPU seconds of this process and its children."""
    seconds = 0.0
    for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(whose)
        seconds += usage.ru_utime + usage.ru_stime
    return seconds


def _ours(folder: str, store: str) -> Callable[[str], object]:
    from swe_retry.agent.repomap.build import RepoMap
    from swe_retry.agent.repomap.scanning.store import TagStore
    from swe_retry.agent.repomap.scanning.tree import blobs_below

    root = Path(folder)
    tags = TagStore(Path(store))
    repo_map = RepoMap.of(blobs_below(root), root, tags)
    return lambda text: repo_map.render(text, TOKENS)


def _reference(folder: str, _: str) -> Callable[[str], object]:
    from aider.repomap import RepoMap  # type: ignore[import-not-found]

    argv = ["git", "ls-files", "-z"]
    listing = subprocess.check_output(argv, cwd=folder, text=True)
    files = []
    for name in listing.split("\0"):
        if name:
            files.append(str(Path(folder, name)))
    repo_map = RepoMap(
        map_tokens=TOKENS,
        root=folder,
        main_model=_Model(),
        io=_Files(),
        max_context_window=128_000,
        map_mul_no_files=1,
    )

    def render(text: str) -> object:
        return repo_map.get_repo_map(
            set(),
            files,
            mentioned_idents=set(re.split(r"\W+", text)),
            force_refresh=True,
        )

    return render


class _Model:
    """Counts as this harness does, so that no tokenizer is measured."""

    def token_count(self, text: str) -> float:
        return len(text) / 4


class _Files:
    """The part of the reference agent's input and output that its map needs."""

    def read_text(self, path: str, silent: bool = False) -> str | None:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            return Path(path).read_text(encoding="utf-8")
        return None

    def tool_output(self, *args: object, **options: object) -> None:
        pass

    tool_warning = tool_error = tool_output


if __name__ == "__main__":
    main(*sys.argv[1:])
