"""The folders of the harness in one's own repository: hidden from git, and none of the user's."""

from __future__ import annotations

from pathlib import Path

from swe_retry.core.errors import UserError
from swe_retry.record.keys import RUN_FILE
from swe_retry.record.runlock import LOCK_FILES

IGNORING = ".gitignore"


def own_files(tree: Path, out: Path, cache: Path, patch: Path | None) -> set[str]:
    """Return the files and folders in ``tree`` that are the harness's own, not the user's.

    What this version makes is hidden from git; runs of earlier ones are known by their files.
    """
    paths = [cache]
    for folder in (out / "predictions").glob("*"):
        files = [folder / name for name in (RUN_FILE, *LOCK_FILES)]
        if any(file.exists() for file in files):
            paths += [folder, out / "logs" / folder.name]
    for journal in (out / "logs").glob("*/journals/*.jsonl"):
        paths.append(journal.parent.parent)
    if patch:
        paths.append(patch)
    if cache.is_relative_to(tree):
        _check_cache(cache, tree)
        hide(cache)
    ours = set()
    for path in paths:
        if path.is_relative_to(tree):
            ours.add(path.relative_to(tree).as_posix())
    return ours


def _check_cache(cache: Path, tree: Path) -> None:
    """Refuse a folder in the repository that holds files of others."""
    is_used = cache.exists() and any(cache.iterdir())
    marks = [cache / IGNORING, *cache.glob("own/*/*__*.git")]
    is_ours = any(mark.exists() for mark in marks)
    if cache == tree or (is_used and not is_ours):
        raise UserError(
            f"folders.cache {cache}: it holds files of the repository; give another folder"
        )


def hide(folder: Path) -> None:
    """Make a folder of the harness's own such that no work tree around it shows it."""
    folder.mkdir(parents=True, exist_ok=True)
    in_tree = any((parent / ".git").exists() for parent in folder.parents)
    if in_tree and not (folder / IGNORING).exists():
        (folder / IGNORING).write_text("*\n")
