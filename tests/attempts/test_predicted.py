"""The tested tree is the predicted one, or the attempt says that it is not. Real git."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from swe_retry.agent.builtin import BuiltinAgent
from swe_retry.agent.protocol import AgentResult, Task
from swe_retry.agent.workspace import UnsafePathError, Workspace
from swe_retry.attempts.config import ModelChoice
from swe_retry.attempts.trees import Examination, examine_patch, files_in_submodules
from swe_retry.core.git import git
from swe_retry.core.worktree import Changes
from swe_retry.demo.setup import REPOSITORIES, commit_all
from swe_retry.environments.base import EnvironmentKind
from swe_retry.instances.dataset import load_dataset
from swe_retry.record.patches import submittable_patch
from swe_retry.repositories.checkout import Checkout, make_checkout
from swe_retry.repositories.patches import take_patch
from swe_retry.repositories.snapshot import get_snapshot
from swe_retry.testing.testconfig import (
    ConfigurationEdits,
    TestCommand,
    tree_under_test,
)
from tests.attempts.test_agents import outside
from tests.fixtures import MakeCheckout
from tests.support.harness import Harness
from tests.support.provider import Provider
from tests.support.runs import EDIT, live

ID = "demo__textkit-1"
BASE: dict[str, bytes | str] = {
    "a.py": "x = 1\n",
    "crlf.py": b"a\r\nb\r\n",
    "latin.py": b"# coding: latin-1\nx = '\xe9'\n",
    "run.sh": "#!/bin/sh\n",
    "conftest.py": "",
    "setup.cfg": "[metadata]\nname = x\n\n[tool:pytest]\ntestpaths = tests\n",
    ".gitignore": "*.log\n",
    "tests/test_a.py": "",
}
TREE = {
    "a.py": b"x = 2\n",
    "crlf.py": b"a\r\nc\r\n",
    "latin.py": b"# coding: latin-1\nx = '\xe8'\n",
    "my.log": b"ignored\n",
    "new/b c.py": b"y = 1\n",
    "odd\xe9.bin": bytes(range(256)),
    "run.sh": None,
}


def write_changes(tree: Checkout, changes: Changes) -> Changes:
    """Write ``changes`` into the work tree and return what a test of it would run on."""
    for path, data in changes.items():
        target = tree.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if data is None:
            target.unlink()
        else:
            target.write_bytes(data)
    read = Workspace(tree.root).read
    return tree_under_test(changes, tree.tracked_files(), read).changes


def examine(tree: Checkout, tested: Changes | None) -> Examination:
    raw = take_patch(tree)
    patch = submittable_patch(raw).patch
    return examine_patch(tree, raw, patch, tested, TestCommand())


def objects_of(tree: Checkout) -> set[Path]:
    folder = tree.root / ".git/objects"
    return set(folder.rglob("*"))


def test_a_tree_is_what_its_patch_makes(make_tree: MakeCheckout) -> None:
    tree = make_tree(BASE)
    fresh = objects_of(tree)
    changes = {**TREE, "tests/test_a.py": b"def test(): pass\n"}
    tested = write_changes(tree, changes)
    raw = take_patch(tree)
    before = objects_of(tree)
    patch = submittable_patch(raw).patch
    examination = examine_patch(tree, raw, patch, tested, TestCommand())
    assert examination == Examination(applies=True)
    # The checkout is used again: what is looked at leaves no trace in it.
    assert before != fresh
    assert objects_of(tree) == before


def test_another_tree_is_named(make_tree: MakeCheckout) -> None:
    tree = make_tree(BASE)
    tested = write_changes(tree, TREE)
    for path, content in (
        ("more.py", b"tested alone\n"),
        ("a.py", b"x = 3\n"),
        ("a.py", None),
        ("crlf.py", b"a\nc\n"),
        ("setup.cfg", None),
    ):
        other = {**tested, path: content}
        assert examine(tree, other).differing == (path,)


def test_a_link_is_not_what_was_tested(make_tree: MakeCheckout) -> None:
    tree = make_tree(BASE)
    (tree.root / "link.py").symlink_to("a.py")
    examination = examine(tree, {"link.py": None})
    assert examination.differing == ("link.py",)


def test_edits_of_test_configuration_are_no_difference(make_tree: MakeCheckout) -> None:
    tree = make_tree(BASE)
    text = b"[metadata]\nname = y\n\n[tool:pytest]\naddopts = -x\n"
    setup = tree.root / "setup.cfg"
    setup.write_bytes(text)
    (tree.root / "conftest.py").write_bytes(b"x = 1\n")
    some_edits = Examination(applies=True, edits=ConfigurationEdits.SOME)
    assert examine(tree, {}) == some_edits
    assert examine(tree, None) == some_edits
    tested_setup = examine(tree, {"setup.cfg": text})
    assert tested_setup.differing == ("setup.cfg",)
    setup.write_bytes(text.replace(b"= y", b"= x"))
    assert examine(tree, None).edits is ConfigurationEdits.ALL


def test_a_patch_that_does_not_apply(make_tree: MakeCheckout) -> None:
    tree = make_tree(BASE)
    wrong = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-9\n+2\n"
    not_applying = Examination(applies=False)
    untested = examine_patch(tree, wrong, wrong, None, TestCommand())
    assert untested == not_applying
    tested = examine_patch(tree, wrong, wrong, {}, TestCommand())
    assert tested == not_applying


def mirror_with_submodule(root: Path) -> tuple[Path, str]:
    """Make the demo's repository with the submodule ``sub``, as ``demo__textkit.git``."""
    folder = REPOSITORIES / "demo__textkit"
    work = root / "work"
    for path in sorted(folder.rglob("*")):
        if path.suffix not in (".py", ".toml"):
            continue
        target = work / path.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    other = commit_all(work, "Begin")
    git("update-index", "--add", "--cacheinfo", f"160000,{other},sub", cwd=work)
    git("commit", "--quiet", "-m", "Add a submodule", cwd=work)
    mirror = root / "mirrors/demo__textkit.git"
    mirror.parent.mkdir()
    (work / ".git").replace(mirror)
    commit = git("rev-parse", "HEAD", cwd=mirror)
    return mirror, commit.decode().strip()


def test_files_in_submodules_are_refused(tmp_path: Path) -> None:
    mirror, commit = mirror_with_submodule(tmp_path)
    snapshots = tmp_path / "snapshots"
    snapshot = get_snapshot(snapshots, mirror, "demo/textkit", commit)
    assert snapshot.submodules == ("sub",)
    tree = make_checkout(snapshot, tmp_path / "checkout")
    tree.settle()
    submodules = frozenset(snapshot.submodules)
    space = Workspace(tree.root, submodules=submodules)
    for path in ("sub/x.py", "sub", "sub/deep/x.py", "SUB/x.py"):
        with pytest.raises(UnsafePathError, match=r"submodule|is there already"):
            space.write({path: "x = 1\n"})
    space.write({"subs/x.py": "x = 1\n"})
    assert files_in_submodules(tree) == ()
    (tree.root / "sub/x.py").write_text("x = 1\n")
    assert files_in_submodules(tree) == ("sub/x.py",)
    tested = {
        "subs/x.py": b"x = 1\n",
        "sub/x.py": b"x = 1\n",
    }
    assert examine(tree, tested).differing == ("sub/x.py",)


@pytest.fixture
def dataset(tmp_path: Path) -> dict[str, Any]:
    """Options for the demo's instance at a commit with a submodule."""
    _, commit = mirror_with_submodule(tmp_path)
    rows = load_dataset("demo", "test").rows
    (row,) = [row for row in rows if row["instance_id"] == ID]
    changed = {**row, "base_commit": commit}
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([changed]))
    return {
        "dataset": str(path),
        "repos": tmp_path / "mirrors",
    }


def test_a_reply_cannot_have_tested_what_is_not_predicted(
    harness: Harness, dataset: dict[str, Any], provider: Provider
) -> None:
    hidden = "sub/x.py\n```\n<<<<<<< SEARCH\n=======\nx = 1\n>>>>>>> REPLACE\n```\n"
    provider.will_answer(EDIT + hidden, "No.")
    models = (ModelChoice.parse("gpt-4o@diff", any_name=True),)
    run = live(provider, models=models)
    prediction = harness.solve(run, ID, **dataset)
    assert "sub/x.py" not in prediction["model_patch"]
    assert harness.statuses(ID)[0] == "edit_failed"
    assert prediction["status"] == "fallback"
    messages = str(provider.requests[1]["messages"])
    assert "sub is a submodule, another repository" in messages


def test_what_a_command_leaves_in_a_submodule_is_named(
    harness: Harness, dataset: dict[str, Any]
) -> None:
    code = "open('sub/x.py', 'w').write('x = 1'); open('textkit/more.py', 'w').write('x = 1')"
    harness.run(outside(code), ID, **dataset)
    attempt = harness.attempts(ID)[0]
    assert attempt["error"] == "not predicted, in a submodule: 'sub/x.py'"
    assert "sub/x.py" not in attempt["model_patch"]


def test_an_attempt_whose_tested_tree_differs_is_not_plausible(
    harness: Harness, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent of another maker has a tree tested that it does not leave behind."""
    real = BuiltinAgent.work

    def work(agent: BuiltinAgent, task: Task) -> AgentResult:
        result = real(agent, task)
        (task.root / "textkit/later.py").write_text("x = 1\n")
        return result

    monkeypatch.setattr(BuiltinAgent, "work", work)
    provider.will_answer(EDIT)
    models = (ModelChoice.parse("gpt-4o@diff", any_name=True),)
    run = live(provider, models=models, environment=EnvironmentKind.LOCAL)
    prediction = harness.solve(run, ID)
    assert prediction["status"] == "fallback"
    (result,) = prediction["all_results"]
    assert result["status"] == "tree_differs"
    assert result["test_outcome"] is None
    (attempt,) = harness.attempts(ID)
    error = "the tested tree is not the predicted one: 'textkit/later.py'"
    assert attempt["error"] == error
