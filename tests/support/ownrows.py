"""Rows of repositories of one's own with the hidden half, as the miner writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support import write_files
from tests.support.ownworld import make_repository, run_git

Files = Mapping[str, str | bytes | None]
CREATED = "2024-05-14T12:00:00Z"


def add_row(
    root: Path,
    name: str,
    base: Files | None,
    fix: Files,
    tests: Files,
    **fields: Any,
) -> dict[str, Any]:
    """Commit ``base`` in the repository ``root``, or take its head; return a row on it.

    ``fix`` and ``tests`` are the changes of the gold and the test patch. ``fields`` are those of
    the row; of ``own_repository`` and the lists of tests, they are no JSON texts.
    """
    if base is not None and root.exists():
        write_files(root, base)
        run_git(root, "add", "--all")
        run_git(root, "commit", "--quiet", "-m", name)
    elif base is not None:
        make_repository(root, base)
    lists = {key: fields.pop(key, []) for key in ("FAIL_TO_PASS", "PASS_TO_PASS")}
    row = {
        "instance_id": name,
        "repo": f"local/{root.name}",
        "base_commit": run_git(root, "rev-parse", "HEAD"),
        "problem_statement": f"{name} is wrong.",
        "version": "",
        "created_at": "",
        "own_repository": {},
        "patch": patch_of(root, fix),
        "test_patch": patch_of(root, tests),
        "hints_text": "",
        **fields,
    }
    for key, names in lists.items():
        row[key] = json.dumps(names)
    return row


def patch_of(root: Path, changes: Files) -> str:
    """Return the changes as a patch of the head, None for a deleted file; the work tree stays."""
    write_files(root, changes)
    for path, content in changes.items():
        if content is None:
            (root / path).unlink()
    run_git(root, "add", "--all", "--force")
    patch = run_git(root, "diff", "--cached", "--binary", "HEAD")
    run_git(root, "reset", "--quiet", "--hard")
    return f"{patch}\n"


def write_rows(path: Path, *rows: Mapping[str, Any]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path
