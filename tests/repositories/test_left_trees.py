"""Trees of outside agents: each is a result of the attempt, with any contents."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from swe_retry.cli.trial import try_agent
from swe_retry.core.errors import InfrastructureError
from swe_retry.environments.base import EnvironmentKind
from swe_retry.environments.layout import lay_out
from swe_retry.environments.local.bubblewrap import bubblewrap_works
from swe_retry.record.patches import patch_paths
from tests.attempts.test_agents import FIX, ID, outside
from tests.support.harness import Harness
from tests.support.runs import options

FIXED = "textkit/slug.py"
MAKE = "import os, socket, subprocess, shutil\n"


def run_leaving(
    harness: Harness,
    code: str,
    **changes: Any,
) -> tuple[dict[str, Any], Any]:
    """Return prediction and attempts of a run whose agent fixes the bug and runs ``code``."""
    run = outside(FIX + MAKE + code, **changes)
    prediction = harness.solve(run, ID)
    return prediction, harness.attempts(ID)


WRAP = "textkit/wrap.py"
# What agents do, the paths of the patch besides the fixed file, and what is dropped. Those of a
# name stand side by side in one tree.
ODD_TREES: dict[str, list[tuple[str, set[str], set[str]]]] = {
    "odd files": [
        ("open('a\\nb.py', 'w').write('x = 1\\n')", {"a\nb.py"}, set()),
        (
            "open(b'caf\\xe9.txt', 'w').write('x\\n'); open(b'big\\xe9', 'w').truncate(1500 << 20)",
            {"caf\udce9.txt"},
            {"big\udce9"},
        ),
        ("open('core', 'wb').truncate(1500 << 20)", set(), {"core"}),
        (f"open('{WRAP}', 'wb').truncate(1500 << 20)", set(), {WRAP}),
        ("os.mkfifo('pipe')", set(), {"pipe"}),
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
        (
            "open('f.py', 'w').write('x = 1\\n'); os.chmod('f.py', 0)",
            {"f.py"},
            set(),
        ),
        (
            "os.makedirs('in/.git/x'); open('in/f.py', 'w').write('x = 1\\n')",
            {"in/f.py"},
            set(),
        ),
    ],
    "a pipe in place of a file, and all shut": [
        (f"os.remove('{WRAP}'); os.mkfifo('{WRAP}')", set(), {WRAP}),
        ("os.chmod('.', 0)", set(), set()),
    ],
    "a folder in place of a file, and a pipe in place of .git": [
        (
            f"os.remove('{WRAP}'); os.mkdir('{WRAP}'); open('{WRAP}/f.py', 'w').write('x = 1\\n')",
            {WRAP, f"{WRAP}/f.py"},
            set(),
        ),
        ("shutil.rmtree('.git'); os.mkfifo('.git')", set(), set()),
    ],
}


@pytest.mark.parametrize("name", ODD_TREES)
def test_odd_trees_give_a_patch(harness: Harness, name: str) -> None:
    codes = []
    predicted = {FIXED}
    all_dropped: set[str] = set()
    for code, paths, dropped in ODD_TREES[name]:
        codes.append(f"{code}\n")
        predicted |= paths
        all_dropped |= dropped
    prediction, attempts = run_leaving(harness, "".join(codes))
    assert prediction["attempt"] == 1, prediction["all_results"]
    assert set(patch_paths(prediction["model_patch"])) == predicted
    attempt = attempts[0]
    assert set(attempt["dropped_files"]) == all_dropped
    assert "infra" not in attempt["status"]


DEEP = (
    "name = 'd' * 200\nfor _ in range(30): os.mkdir(name); os.chdir(name)\nopen('f', 'w').close()\n"
    "os.chdir(root); os.makedirs('.git/' + '/'.join('x' * 400))\n"
    "os.chdir('.git/' + '/'.join('x' * 400))\nfor _ in range(1500): os.mkdir('y'); os.chdir('y')\n"
)


def test_paths_that_no_system_call_takes(harness: Harness) -> None:
    code = f"root = os.getcwd()\n{DEEP}"
    prediction, (attempt,) = run_leaving(harness, code)
    assert patch_paths(prediction["model_patch"]) == (FIXED,)
    folders = ["d" * 200] * 6
    assert attempt["dropped_files"] == ["/".join(folders)]
    log = (harness.folder / f"logs/r/{ID}.log").read_text()
    assert "(its path is longer than 1024 bytes)" in log
    work = harness.cache / "work"
    for path in work.rglob("*"):
        assert not path.is_dir(), "nothing of it stays"


GONE = "root = os.getcwd(); os.chdir('/'); shutil.rmtree(root)\n"


REPLACED = "the agent put something else in place of its checkout"
NO_TREES = {
    f"{GONE}os.symlink('/', root)": REPLACED,
    f"{GONE}open(root, 'w').close()": REPLACED,
    GONE: "the agent removed its checkout",
    f"{GONE}raise SystemExit(3)": (
        "ended with exit code 3; the agent removed its checkout"
    ),
    "for n in range(101): open(str(n), 'w').close()": (
        "the agent left 102 new or changed files with 0 MB; a patch may hold 100 files"
    ),
    "for n in range(13): open(str(n), 'wb').truncate(9 << 20)": "files with 123 MB",
}


CODES = list(NO_TREES)
PAIRS = list(zip(CODES[::2], CODES[1::2], strict=True))


@pytest.mark.parametrize("codes", PAIRS)
def test_what_is_no_tree_any_more_is_an_error_of_the_attempt(
    harness: Harness, codes: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of two models leaves another one."""
    monkeypatch.setattr("swe_retry.repositories.lefttree._MAX_FILES", 100)
    code = f"import sys\nexec({codes!r}[sys.argv[1] == 'my-b'])\n"
    run = outside(FIX + MAKE + code, "{model}")
    prediction = harness.solve(run, ID, code=1)
    assert prediction["status"] == "error"
    assert prediction["model_patch"] == ""
    first, last = harness.attempts(ID)
    assert first["status"] == "error"
    assert last["status"] == "error", "each used its try"
    errors = [NO_TREES[code] for code in codes]
    assert errors[0] in first["error"]
    assert errors[1] in last["error"]
    assert errors[1] in prediction["reason"], "of the last attempt"
    lines = harness.run(run, ID, code=1)
    assert "1 done before" in lines[0], "nothing is paid again"


@pytest.mark.parametrize(
    "shut_in",
    [
        True,
        pytest.param(False, marks=pytest.mark.long),
    ],
)
def test_such_trees_are_tested(
    harness: Harness, shut_in: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names with line ends; folders that replace files, and vice versa."""
    if shut_in and not bubblewrap_works():
        pytest.skip("bubblewrap is not installed")
    monkeypatch.setattr(
        "swe_retry.environments.local.environment.bubblewrap_works", lambda: shut_in
    )
    code = (
        "open('a\\nb.txt', 'w').close(); open(b'caf\\xe9.txt', 'w').close()\n"
        "open('ends.', 'w').close(); open('README.MD', 'w').close()\n"
        "os.remove('README.md'); os.mkdir('README.md'); open('README.md/x', 'w').close()\n"
        "shutil.rmtree('docs', True); open('docs', 'w').close()\n"
    )
    local = EnvironmentKind.LOCAL
    prediction, _ = run_leaving(harness, code, environment=local)
    assert prediction["status"] == "plausible", prediction["reason"]
    assert prediction["test_outcome"] is True, prediction["reason"]


def test_a_new_link_is_predicted_and_was_not_tested(harness: Harness) -> None:
    """Environments write files only, so the outcome of a tree with a new link is unknown."""
    code = "os.symlink('x', 'link')\n"
    local = EnvironmentKind.LOCAL
    prediction, attempts = run_leaving(harness, code, environment=local)
    assert prediction["status"] == "fallback"
    assert prediction["test_outcome"] is None
    attempt = attempts[0]
    assert attempt["status"] == "tree_differs"
    assert "not the predicted one: 'link'" in attempt["error"]


def test_links_and_folders_give_way(tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    (outer / "there").mkdir(parents=True)
    (outer / "there/kept.txt").write_text("theirs")
    template = tmp_path / "template"
    (template / "folder/below").mkdir(parents=True)
    (template / "gone").symlink_to("folder")
    (template / "turned").symlink_to("a.py")
    (template / "out").symlink_to(outer / "there")
    (template / "a.py").write_text("a")
    changes = {
        "gone": None,
        "turned": b"now a file",
        "folder/below/f": None,
        "folder": b"now a file",
        "out/new.txt": b"mine",
        "out/kept.txt": None,
    }
    target = tmp_path / "laid"
    lay_out(target, template, changes)
    paths = {str(path.relative_to(target)) for path in target.rglob("*")}
    assert paths == {"a.py", "turned", "folder", "out", "out/new.txt"}
    assert (target / "a.py").read_text() == "a"
    assert os.listdir(outer / "there") == ["kept.txt"]
    for path in ("../x", "/etc/x", "a/../../x"):
        with pytest.raises(InfrastructureError, match="not a path within a tree"):
            lay_out(target, template, {path: b""})


def test_trying_such_an_agent_names_what_is_dropped(
    tmp_path: Path, cache: Path
) -> None:
    lines: list[str] = []
    chosen = options(tmp_path, cache)
    fixing = outside(FIX + "open('core', 'wb').truncate(1500 << 20)")
    assert try_agent(chosen.of(fixing), lines.append) == 0
    assert lines[-1] == "dropped: core (it was made to 1,573 MB)"
    removing = outside(MAKE + GONE)
    assert try_agent(chosen.of(removing), lines.append) == 1
    assert "the agent removed its checkout" in lines[-1]
