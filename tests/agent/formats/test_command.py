"""``python -m swe_retry.agent.formats`` as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from swe_retry.agent.formats import format_names
from swe_retry.agent.formats.__main__ import app
from tests.support import TOP
from tests.support.formats import block

EDIT = block("a.py", "x = 1\n", "x = 2\n")


def run(*args: str) -> tuple[int, str]:
    """Run the command and return exit code and standard output."""
    done = subprocess.run(
        [sys.executable, "-m", "swe_retry.agent.formats", *args],
        cwd=TOP,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stdout


def call(*args: str) -> tuple[int, str]:
    """Do as ``run`` in this process, which has imported everything."""
    result = CliRunner().invoke(app, args)
    return result.exit_code, result.stdout


def apply(
    root: Path,
    reply: str,
    *options: str,
    form: str = "diff",
    command: Callable[..., tuple[int, str]] = call,
) -> tuple[int, Any]:
    """Return the exit code and what was printed about the edits of ``reply``."""
    path = root.parent / "reply.txt"
    path.write_text(reply)
    arguments = ["apply", form, str(path), "--root", str(root), *options]
    code, output = command(*arguments)
    return code, json.loads(output)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    (folder / "a.py").write_text("x = 1\n")
    return folder


def test_all_applied(root: Path) -> None:
    code, result = apply(root, EDIT, command=run)
    assert code == 0
    assert result["failed"] == []
    assert result["feedback"] == ""
    assert result["applied"] == [{"edit": 1, "path": "a.py", "step": "exact"}]
    assert (root / "a.py").read_text() == "x = 2\n"


def test_some_failed(root: Path) -> None:
    wrong = block("a.py", "y\n", "z\n")
    code, result = apply(root, EDIT + wrong)
    assert code == 1
    assert [edit["edit"] for edit in result["applied"]] == [1]
    failure = result["failed"][0]
    assert failure["edit"] == 2
    assert "not in a.py" in failure["reason"]
    assert failure["reason"] in result["feedback"]
    assert (root / "a.py").read_text() == "x = 2\n"


def test_a_dry_run_writes_nothing(root: Path) -> None:
    code, result = apply(root, EDIT, "--dry-run")
    assert code == 0
    assert len(result["applied"]) == 1
    assert (root / "a.py").read_text() == "x = 1\n"


def test_a_call_as_json(root: Path) -> None:
    arguments = {"path": "b/c.py", "content": "y\n"}
    reply = json.dumps({"name": "write_file", "arguments": arguments})
    code, _ = apply(root, reply, form="whole-func")
    assert code == 0
    assert (root / "b/c.py").read_text() == "y\n"


@pytest.mark.parametrize("path", ["../out.py", ".git/config", "/etc/x"])
def test_nothing_is_written_outside(root: Path, path: str) -> None:
    code, result = apply(root, block(path, "", "evil\n"))
    assert code == 1
    assert result["applied"] == []
    assert not (root.parent / "out.py").exists()
    assert [file.name for file in root.iterdir()] == ["a.py"]


def test_a_reply_without_edits(root: Path) -> None:
    code, result = apply(root, "I cannot help.")
    assert code == 1
    assert result["applied"] == []
    assert "no edit" in result["feedback"]


def test_wrong_usage_is_one_line(root: Path) -> None:
    for args in (
        ["show", "nope"],
        ["apply", "diff", "x", "--root", "/nowhere"],
        ["apply", "diff", "/nowhere.txt", "--root", str(root)],
    ):
        result = CliRunner().invoke(app, args)
        assert result.exit_code == 2
        assert len(result.stderr.splitlines()) == 1, result.stderr
    refused = CliRunner().invoke(app, ["show", "nope"])
    assert refused.stderr.startswith("error: nope: there are diff, diff-fenced, udiff,")


@pytest.mark.parametrize("form", format_names())
def test_every_format_is_shown_with_an_example(form: str) -> None:
    code, text = call("show", form)
    assert code == 0
    assert "example" in text
    assert "path/to/file.py" in text
