"""Rows of one's own repositories as a data set: where they run, and where their mirrors are."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from swe_retry.attempts.benchmark import make_mirrors
from swe_retry.attempts.config import RunConfig
from swe_retry.cli.start import check_run
from swe_retry.core.errors import InfrastructureError, UserError
from swe_retry.environments.base import EnvironmentKind
from swe_retry.own.opening import open_repository
from tests.support.ownrows import add_row, write_rows
from tests.support.ownworld import make_repository, run_git
from tests.support.runs import config

IMAGE = {"own_repository": {"test": "pytest", "image": "python:3.11-slim"}}


def start(tmp_path: Path, *rows: dict[str, Any], **changes: Any) -> RunConfig:
    """Return what a run on the rows uses where an engine answers."""
    file = write_rows(tmp_path / "rows.jsonl", *rows)
    run = config(dataset=str(file), replay=None, dry_run=True, **changes)
    run = replace(run, environment=EnvironmentKind.DOCKER)
    return check_run(run, print).config


def test_rows_without_an_image_run_locally(tmp_path: Path) -> None:
    row = add_row(tmp_path / "calc", "calc-1", {"a.py": "A = 1\n"}, {}, {})
    in_image = {**row, **IMAGE, "instance_id": "calc-2"}
    assert start(tmp_path, row).environment is EnvironmentKind.LOCAL
    assert start(tmp_path, row, in_image).environment is EnvironmentKind.DOCKER
    assert start(tmp_path, row, in_image, ids=("calc-1",)).environment == "local"
    with pytest.raises(UserError, match=r"--environment docker: .* --environment loc"):
        start(tmp_path, row, tests_environment="docker")


def test_mirrors_of_opened_repositories_are_found(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = make_repository(tmp_path / "a/thing", {"a.txt": "a"})
    second = make_repository(tmp_path / "b/thing", {"b.txt": "b"})
    mirrors = make_mirrors(config(dataset="rows.jsonl", cache=cache))
    for root in (first, second):
        opened = open_repository(str(root), "", cache)
        run_git(root, "commit", "--quiet", "--allow-empty", "-m", "Later")
        for commit in (opened.commit, run_git(root, "rev-parse", "HEAD")):
            assert mirrors.get("local/thing", commit) == opened.mirror
    # Without the commit another source is asked, if it can have the repository.
    elsewhere = replace(mirrors, source=f"{tmp_path}/none/{{repo}}")
    with pytest.raises(UserError, match="it has no address: mine it again"):
        elsewhere.get("local/thing", "1" * 40)
    with pytest.raises(InfrastructureError, match="cannot clone"):
        elsewhere.get("owner/thing", "1" * 40)
    # A folder that a setting names comes first, if it has the commit.
    head = run_git(first, "rev-parse", "HEAD")
    named = tmp_path / "named/thing.git"
    shutil.copytree(first / ".git", named)
    mirrors = make_mirrors(config(dataset="r.jsonl", cache=cache, repos=named.parent))
    assert mirrors.get("local/thing", head) == named
    other = run_git(second, "rev-parse", "HEAD")
    assert mirrors.get("local/thing", other).is_relative_to(cache / "own")
