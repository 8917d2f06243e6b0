from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from swe_retry.agent.repomap.__main__ import app
from swe_retry.agent.repomap.scanning.tree import blob_hash, blobs_below
from swe_retry.core.errors import UserError
from swe_retry.core.git import git
from tests.support import write_files


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    files = {
        "pkg/a.py": "def first(): ...\n",
        "pkg/b.py": "def second(): ...\n",
        "pkg/b space é.py": "def third(): ...\n",
    }
    root = write_files(tmp_path / "repo", files)
    (root / "link.py").symlink_to("pkg/a.py")
    git("init", "--quiet", cwd=root)
    git("add", "-A", cwd=root)
    git("commit", "--quiet", "-m", "one", cwd=root)
    return root


def test_a_clean_checkout_has_the_hashes_of_its_commit(checkout: Path) -> None:
    expected = git("rev-parse", "HEAD:pkg/a.py", cwd=checkout).decode().strip()
    blobs = blobs_below(checkout)
    assert sorted(blobs) == ["pkg/a.py", "pkg/b space é.py", "pkg/b.py"]
    assert blobs["pkg/a.py"] == expected == blob_hash(b"def first(): ...\n")


def test_a_changed_file_counts_as_it_is_now(checkout: Path) -> None:
    (checkout / "pkg/a.py").write_text("def changed(): ...\n")
    (checkout / "pkg/b.py").unlink()
    (checkout / "untracked.py").write_text("def no(): ...\n")
    blobs = blobs_below(checkout)
    assert blobs["pkg/a.py"] == blob_hash(b"def changed(): ...\n")
    assert "pkg/b.py" not in blobs
    assert "untracked.py" not in blobs


def test_a_folder_inside_a_checkout_has_its_own_paths(checkout: Path) -> None:
    (checkout / "pkg/a.py").write_text("def changed(): ...\n")
    blobs = blobs_below(checkout / "pkg")
    assert blobs["a.py"] == blob_hash(b"def changed(): ...\n")


def test_a_plain_folder_is_hashed_as_git_would(checkout: Path) -> None:
    tracked = blobs_below(checkout)
    subprocess.run(["rm", "-r", checkout / ".git"], check=True)
    (checkout / ".hidden").mkdir()
    (checkout / ".hidden/c.py").write_text("def hidden(): ...\n")
    assert blobs_below(checkout) == tracked


def test_what_is_no_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="missing is not a folder"):
        blobs_below(tmp_path / "missing")


def test_the_command_prints_files_with_scores_and_reasons(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = tmp_path / "issue.txt"
    text.write_text("pkg/b.py: second() fails")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    arguments = [str(checkout), "--text", str(text), "--tokens", "12"]
    as_json = CliRunner().invoke(app, [*arguments, "--format", "json"])
    assert as_json.exit_code == 0
    first, second, *_ = json.loads(as_json.stdout)
    assert first["path"] == "pkg/b.py"
    assert first["shown"] is True
    assert first["reasons"][0] == "named"
    assert first["score"] > second["score"]
    as_text = CliRunner().invoke(app, arguments)
    assert as_text.exit_code == 0
    assert as_text.stdout.startswith("pkg/b.py:\n def second()\n")
    assert (tmp_path / "cache/swe-retry-harness/tags.sqlite").is_file()


def test_wrong_usage_is_one_line(tmp_path: Path) -> None:
    no_text = [str(tmp_path), "--text", str(tmp_path / "none")]
    no_folder = [str(tmp_path / "no"), "--text", "/dev/null"]
    for arguments in (no_text, no_folder):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 2
        (line,) = result.stderr.splitlines()
        assert line.startswith("error: ")


def test_the_module_can_be_run(checkout: Path, tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "swe_retry.agent.repomap", str(checkout), "--text", "-"],
        input="first",
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "def first()" in result.stdout
