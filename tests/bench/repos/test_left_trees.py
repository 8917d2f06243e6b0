"""Trees of outside agents: each is a result of the attempt, with any contents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.cli.commands import run_command
from bench.cli.tryagent import try_agent
from core.errors import InfrastructureError
from environments.base import EnvironmentKind
from environments.layout import lay_out
from environments.local.bubblewrap import bubblewrap_works
from runs.patches import patch_paths
from tests.bench.attempts.test_agents import FIX, ID, outside
from tests.support.runs import options, read

FIXED = "textkit/slug.py"
MAKE = "import os, socket, subprocess, shutil\n"


def left_by(
    code: str,
    out: Path,
    cache: Path,
    exit_code: int = 0,
    **changes: Any,
) -> Any:
    """Return prediction and attempts of a run whose agent fixes the bug and runs ``code``."""
    chosen = outside(FIX + MAKE + code, **changes)
    said: list[str] = []
    assert run_command(chosen, options(out, cache, ID), said.append) == exit_code, said
    return read(out, ID), read(out, ID, "trajectories")["attempts"]


@pytest.mark.parametrize(
    ("code", "paths", "dropped"),
    [
        ("open('a\\nb.py', 'w').write('x = 1\\n')", {"a\nb.py"}, set()),
        (
            "open(b'caf\\xe9.txt', 'w').write('x\\n'); open(b'big\\xe9', 'w').truncate(1500 << 20)",
            {"caf\udce9.txt"},
            {"big\udce9"},
        ),
        ("open('core', 'wb').truncate(1500 << 20)", set(), {"core"}),
        (
            "open('textkit/wrap.py', 'wb').truncate(1500 << 20)",
            set(),
            {"textkit/wrap.py"},
        ),
        ("os.mkfifo('pipe')", set(), {"pipe"}),
        (
            "os.remove('textkit/wrap.py'); os.mkfifo('textkit/wrap.py')",
            set(),
            {"textkit/wrap.py"},
        ),
        ("socket.socket(socket.AF_UNIX).bind('sock')", set(), {"sock"}),
        ("open('git~1', 'w').write('x')", set(), {"git~1"}),
        ("os.symlink('x', '.gitmodules')", set(), {".gitmodules"}),
        (
            "os.symlink('.', 'loop'); os.symlink('there', 'here')",
            {"loop", "here"},
            set(),
        ),
        (
            "os.mkdir('shut'); open('shut/f.py', 'w').write('x = 1\\n'); os.chmod('shut', 0)",
            {"shut/f.py"},
            set(),
        ),
        ("open('f.py', 'w').write('x = 1\\n'); os.chmod('f.py', 0)", {"f.py"}, set()),
        ("os.chmod('.', 0)", set(), set()),
        (
            "os.makedirs('in/.git/x'); open('in/f.py', 'w').write('x = 1\\n')",
            {"in/f.py"},
            set(),
        ),
        ("shutil.rmtree('.git'); os.mkfifo('.git')", set(), set()),
        (
            "os.remove('textkit/wrap.py'); os.mkdir('textkit/wrap.py');"
            "open('textkit/wrap.py/f.py', 'w').write('x = 1\\n')",
            {"textkit/wrap.py", "textkit/wrap.py/f.py"},
            set(),
        ),
    ],
)
def test_odd_trees_give_a_patch(
    tmp_path: Path,
    cache: Path,
    code: str,
    paths: set[str],
    dropped: set[str],
) -> None:
    found, (attempt, *_) = left_by(code, tmp_path, cache)
    assert found["attempt"] == 1, found["all_results"]
    assert set(patch_paths(found["model_patch"])) == {FIXED, *paths}
    assert set(attempt["dropped_files"]) == dropped
    assert "infra" not in attempt["status"]


DEEP = (
    "name = 'd' * 200\nfor _ in range(30): os.mkdir(name); os.chdir(name)\nopen('f', 'w').close()\n"
    "os.chdir(root); os.makedirs('.git/' + '/'.join('x' * 400))\n"
    "os.chdir('.git/' + '/'.join('x' * 400))\nfor _ in range(1500): os.mkdir('y'); os.chdir('y')\n"
)


def test_paths_that_no_system_call_takes(tmp_path: Path, cache: Path) -> None:
    found, (attempt,) = left_by("root = os.getcwd()\n" + DEEP, tmp_path, cache)
    assert patch_paths(found["model_patch"]) == (FIXED,)
    (dropped,) = attempt["dropped_files"]
    assert dropped == "/".join(["d" * 200] * 6)
    log = (tmp_path / f"logs/r/{ID}.log").read_text()
    assert "(its path is longer than 1024 bytes)" in log
    work = [place for place in (cache / "work").rglob("*") if place.is_dir()]
    assert not work, "nothing of it stays"


GONE = "root = os.getcwd(); os.chdir('/'); shutil.rmtree(root)\n"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (
            GONE + "os.symlink('/', root)",
            "the agent put something else in place of its checkout",
        ),
        (
            GONE + "open(root, 'w').close()",
            "the agent put something else in place of its checkout",
        ),
        (GONE, "the agent removed its checkout"),
        (
            GONE + "raise SystemExit(3)",
            "ended with exit code 3; the agent removed its checkout",
        ),
        (
            "for n in range(101): open(str(n), 'w').close()",
            "the agent left 102 new or changed files with 0 MB; a patch may hold 100 files",
        ),
        (
            "for n in range(13): open(str(n), 'wb').truncate(9 << 20)",
            "files with 123 MB",
        ),
    ],
)
def test_what_is_no_tree_any_more_is_an_error_of_the_attempt(
    tmp_path: Path,
    cache: Path,
    code: str,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bench.repos.lefttree._MAX_FILES", 100)
    found, attempts = left_by(code, tmp_path, cache, exit_code=1)
    assert found["status"] == "error" and found["model_patch"] == ""
    assert [attempt["status"] for attempt in attempts] == ["error", "error"], (
        "each used its try"
    )
    assert words in attempts[0]["error"] and words in found["reason"]
    again: list[str] = []
    run_command(outside(FIX + MAKE + code), options(tmp_path, cache, ID), again.append)
    assert "1 done before" in again[0], "nothing is paid again"


@pytest.mark.parametrize("shut_in", [True, pytest.param(False, marks=pytest.mark.long)])
def test_such_trees_are_tested(
    tmp_path: Path,
    cache: Path,
    shut_in: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Names with line ends; folders that replace files, and vice versa."""
    if shut_in and not bubblewrap_works():
        pytest.skip("bubblewrap is not installed")
    monkeypatch.setattr(
        "environments.local.environment.bubblewrap_works", lambda: shut_in
    )
    code = (
        "open('a\\nb.txt', 'w').close(); open(b'caf\\xe9.txt', 'w').close()\n"
        "open('ends.', 'w').close(); open('README.MD', 'w').close()\n"
        "os.remove('README.md'); os.mkdir('README.md'); open('README.md/x', 'w').close()\n"
        "shutil.rmtree('docs', True); open('docs', 'w').close()\n"
    )
    found, _ = left_by(code, tmp_path, cache, environment=EnvironmentKind.LOCAL)
    assert (found["status"], found["test_outcome"]) == ("plausible", True), found[
        "reason"
    ]


def test_a_new_link_is_predicted_and_was_not_tested(
    tmp_path: Path, cache: Path
) -> None:
    """Environments write files only, so the outcome of a tree with a new link is unknown."""
    code = "os.symlink('x', 'link')\n"
    found, attempts = left_by(code, tmp_path, cache, environment=EnvironmentKind.LOCAL)
    assert (found["status"], found["test_outcome"]) == ("fallback", None)
    assert attempts[0]["status"] == "tree_differs"
    assert "not the predicted one: 'link'" in attempts[0]["error"]


def test_links_and_folders_give_way(tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    (outer / "there").mkdir(parents=True)
    (outer / "there/kept.txt").write_text("theirs")
    template = tmp_path / "template"
    (template / "folder/below").mkdir(parents=True)
    for name, target in (
        ("gone", "folder"),
        ("turned", "a.py"),
        ("out", str(outer / "there")),
    ):
        (template / name).symlink_to(target)
    (template / "a.py").write_text("a")
    changes = {
        "gone": None,
        "turned": b"now a file",
        "folder/below/f": None,
        "folder": b"now a file",
        "out/new.txt": b"mine",
        "out/kept.txt": None,
    }
    lay_out(tmp_path / "laid", template, changes)
    laid = {
        str(p.relative_to(tmp_path / "laid")) for p in (tmp_path / "laid").rglob("*")
    }
    assert laid == {"a.py", "turned", "folder", "out", "out/new.txt"}
    assert (tmp_path / "laid/a.py").read_text() == "a"
    assert [p.name for p in (outer / "there").iterdir()] == ["kept.txt"]
    for path in ("../x", "/etc/x", "a/../../x"):
        with pytest.raises(InfrastructureError, match="not a path within a tree"):
            lay_out(tmp_path / "laid", template, {path: b""})


def test_trying_such_an_agent_names_what_is_dropped(
    tmp_path: Path, cache: Path
) -> None:
    said: list[str] = []
    agent = outside(FIX + "open('core', 'wb').truncate(1500 << 20)")
    assert try_agent(agent, options(tmp_path, cache), said.append) == 0
    assert said[-1] == "dropped: core (it was made to 1,573 MB)"
    assert try_agent(outside(MAKE + GONE), options(tmp_path, cache), said.append) == 1
    assert "the agent removed its checkout" in said[-1]
