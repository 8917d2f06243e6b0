"""Patches: byte-safe, split at headers, without files that must not be predicted."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from swe_retry.agent.workspace import Workspace
from swe_retry.core.git import git
from swe_retry.record.patches import (
    is_excluded,
    is_test_path,
    patch_paths,
    split_patch,
    submittable_patch,
)
from swe_retry.repositories.patches import applies, take_patch

if TYPE_CHECKING:
    from tests.fixtures import MakeCheckout


TEST_FILES = """
tests/a.py sympy/core/tests/test_args.py testing/python/collect.py test_requests.py
pkg/thing_test.py django/contrib/x/tests.py src/a.test.ts src/a.spec.mts pkg/x_test.go
lib/a_spec.rb core/src/test/java/A.java core/src/integrationTest/kotlin/A.kt
src/Component/Tests/ATest.php packages/a/test/helper.js ext/unit_test.cc src/parse/tests.rs
"""
SOURCE_FILES = """
sympy/testing/runtests.py django/test/testcases.py src/_pytest/python.py src/contest.py
pkg/attestation.py docs/testing.md pkg/testing/go.go src/main/java/org/junit/Test.java
src/Illuminate/Testing/TestCase.php src/bin/commands/test.rs lib/rails/test_help.rb
src/runtime/test/start.js
"""


def test_files_of_tests_are_told_from_sources() -> None:
    for path in TEST_FILES.split():
        assert is_test_path(path), path
    for path in SOURCE_FILES.split():
        assert not is_test_path(path), path


def test_a_patch_of_strange_files_applies_to_the_clean_base(
    make_tree: MakeCheckout,
) -> None:
    latin = os.fsdecode(b"na\xefve.txt")
    tree = make_tree(
        {
            "crlf.py": b"a\r\nb\r\n",
            "latin.py": b"# coding: latin-1\nx = '\xe9'\ny\n",
            "feed.py": b"x\n\x0c\ny\n",
            "end.py": b"no newline",
            "old.py": b"gone\n",
            "diff.md": b"x\n",
            "a b.py": b"x\n",
            latin: b"x\n",
        }
    )
    space = Workspace(tree.root)
    for path in ("crlf.py", "latin.py", "feed.py", "end.py", "a b.py"):
        text = space.read(path) or ""
        space.write({path: f"new\n{text}"})
    # A model may not name it, but an outside agent's command may write it.
    (tree.root / latin).write_text("new\nx\n")
    space.write(
        {
            "diff.md": "diff --git a/no b/no\nBinary files differ\n",
            "new/empty.py": "",
        }
    )
    (tree.root / "old.py").unlink()
    patch = take_patch(tree)
    patch.encode("utf-8")
    assert applies(tree.root, patch)
    fit = submittable_patch(patch)
    assert fit.patch == patch
    assert fit.dropped == ()
    assert len(patch_paths(patch)) == 9
    expected = {}
    for path in ("crlf.py", "latin.py", "feed.py"):
        expected[path] = (tree.root / path).read_bytes()
    git("reset", "-q", "--hard", tree.base_commit, cwd=tree.root)
    git("apply", "-", cwd=tree.root, stdin=patch.encode())
    for path, data in expected.items():
        assert (tree.root / path).read_bytes() == data, path


def test_unfit_files_are_dropped_and_listed(make_tree: MakeCheckout) -> None:
    files = ("a.py", "tests/test_a.py", "tox.ini", "sub/tox.ini", "setup.cfg")
    tree = make_tree(dict.fromkeys(files, "1\n"))
    Workspace(tree.root).write(
        {
            "a.py": "2\n",
            "tests/test_a.py": "2\n",
            "tox.ini": "2\n",
            "sub/tox.ini": "2\n",
            "setup.cfg": "2\n",
            "conftest.py": "x\n",
            "sub/pytest.ini": "x\n",
            "build/lib/a.py": "x\n",
            "x.egg-info/PKG-INFO": "x\n",
        }
    )
    fit = submittable_patch(take_patch(tree))
    assert set(patch_paths(fit.patch)) == {"a.py", "setup.cfg"}
    assert set(fit.dropped) == {
        "sub/tox.ini",
        "tox.ini",
        "tests/test_a.py",
        "conftest.py",
        "sub/pytest.ini",
        "build/lib/a.py",
        "x.egg-info/PKG-INFO",
    }
    assert applies(tree.root, fit.patch)


def test_words_like_headers_and_foreign_patches_survive() -> None:
    patch = (
        "diff --git a/a.md b/a.md\n--- a/a.md\n+++ b/a.md\n@@ -1,2 +1,3 @@\n x\n"
        "--- a/tests/fake.py\n+++ b/tests/fake.py\n+Binary files differ\n"
    )
    (part,) = split_patch(patch.encode())
    assert part.path == "a.md"
    assert submittable_patch(patch).patch == patch


def test_renames_quotes_and_mode_changes_are_read_from_their_headers() -> None:
    patch = (
        "diff --git a/x.py b/tests/x.py\nsimilarity index 100%\n"
        "rename from x.py\nrename to tests/x.py\n"
        'diff --git "a/caf\\303\\251.py" "b/caf\\303\\251.py"\n'
        '--- "a/caf\\303\\251.py"\n+++ "b/caf\\303\\251.py"\n'
        "@@ -1 +1 @@\n-1\n+2\n"
        "diff --git a/run me.sh b/run me.sh\nold mode 100644\nnew mode 100755\n"
    )
    assert patch_paths(patch) == ("tests/x.py", "café.py", "run me.sh")


def test_an_untouched_tree_has_an_empty_patch(make_tree: MakeCheckout) -> None:
    tree = make_tree({"a.py": "1\n"})
    assert take_patch(tree) == ""
    assert submittable_patch("").patch == ""
    wrong = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-9\n+2\n"
    assert not applies(tree.root, wrong)
    # What is written again as it was is no change.
    (tree.root / "a.py").write_text("1\n")
    assert take_patch(tree) == ""


def test_a_models_gitattributes_do_not_hide_its_patch(make_tree: MakeCheckout) -> None:
    tree = make_tree({"a.py": "1\n"})
    Workspace(tree.root).write(
        {
            ".gitattributes": "* -diff\n*.py binary\n",
            "a.py": "2\n",
        }
    )
    patch = take_patch(tree)
    assert "-1\n+2\n" in patch
    assert applies(tree.root, patch)


def test_touched_files_give_the_patch_that_adding_all_would_give(
    make_tree: MakeCheckout,
) -> None:
    latin = os.fsdecode(b"na\xefve.txt")
    glob = ":(odd)a.py"
    names = [
        "same.py",
        "gone.py",
        "run.sh",
        "size.py",
        "latin.py",
        "folder.py",
        latin,
        glob,
    ]
    files = {}
    for number, name in enumerate(names):
        files[name] = f"# {number}\nx = 1\n"
    tree = make_tree(files)
    (tree.root / "gone.py").unlink()
    (tree.root / "run.sh").chmod(0o755)
    (tree.root / "size.py").write_text("# 3\nx = 2\n")
    (tree.root / "latin.py").write_bytes(b"# 4\nx = '\xe9'\n")
    folder = tree.root / "folder.py"
    folder.unlink()
    folder.mkdir()
    (tree.root / latin).write_text("y = 1\n")
    link = tree.root / glob
    link.unlink()
    link.symlink_to("same.py")
    patch = take_patch(tree)
    assert len(set(patch_paths(patch))) == 7
    assert take_patch(replace(tree, fresh={})) == patch
    assert applies(tree.root, patch)


def test_a_change_of_the_same_size_right_after_the_checkout_is_seen(
    make_tree: MakeCheckout,
) -> None:
    tree = make_tree({"a.py": "1\n"})
    (tree.root / "a.py").write_text("2\n")
    assert "-1\n+2\n" in take_patch(tree)


STAND_INS = """
pyproject.toml iniconfig.py argparse.py src/pytest.py lib/json/__init__.py .coveragerc
sitecustomize.py src/usercustomize.py bin/argparse.py
"""
OTHERS = """
pkg/sitecustomize.py pkg/argparse.py src/pkg/types.py src/_pytest/new_module.py json/data.txt
mine.py
"""


def test_new_files_that_stand_in_for_what_a_runner_imports_are_dropped() -> None:
    for path in STAND_INS.split():
        assert is_excluded(path, new=True), path
        assert not is_excluded(path, new=False), path
    for path in OTHERS.split():
        assert not is_excluded(path, new=True), path
        assert not is_excluded(path, new=False), path
