"""Patches are applied as swebench applies them, and write nothing but files of the tree."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from swe_retry.core.git import git
from swe_retry.environments.layout import lay_out
from swe_retry.environments.local.bubblewrap import bubblewrap_works
from swe_retry.report.evaluation.trees import PatchError, apply_patch
from tests.fixtures import MakeCheckout

OLD = "".join(f"line {number}\n" for number in range(1, 21))
NEW = OLD.replace("line 10\n", "LINE 10\n")
PATCH = """\
diff --git a/a.txt b/a.txt
--- a/a.txt
+++ b/a.txt
@@ -7,7 +7,7 @@
 line 7
 line 8
 line 9
-line 10
+LINE 10
 line 11
 line 12
 line 13
"""
BINARY_NOTE = "diff --git a/b.png b/b.png\nBinary files a/b.png and b/b.png differ\n"
NEW_FILE = "--- /dev/null\n+++ b/{}\n@@ -0,0 +1 @@\n+[core]\n"
NEEDS_FUZZ = PATCH.replace(" line 7", " line seven")


@pytest.mark.parametrize(
    "patch",
    [
        PATCH,
        NEEDS_FUZZ,
        PATCH.replace("\n", "\r\n"),
        PATCH.replace("-7,7 +7,7", "-2,7 +2,7"),
        PATCH + BINARY_NOTE,
        PATCH.removeprefix("diff --git a/a.txt b/a.txt\n"),
        PATCH.rstrip("\n"),
        f"The patch:\n\n{PATCH}",
    ],
    ids=["plain", "fuzz", "crlf", "offset", "binary", "no-header", "cut", "text"],
)
def test_what_one_of_swebenchs_commands_applies_is_applied(
    make_tree: MakeCheckout, patch: str
) -> None:
    checkout = make_tree({"a.txt": OLD, "b.png": b"\0"})
    changes = dict(apply_patch(checkout, patch))
    # GNU patch keeps the original of a file where it was unsure.
    changes.pop("a.txt.orig", None)
    assert changes == {"a.txt": NEW.encode()}


NEW_PROGRAM = """\
diff --git a/run.sh b/run.sh
new file mode 100755
--- /dev/null
+++ b/run.sh
@@ -0,0 +1 @@
+#!/bin/sh
"""
MODE = "diff --git a/a.txt b/a.txt\nold mode 100644\nnew mode 100755\n"


@pytest.mark.parametrize("path", ["run.sh", "a.txt"])
def test_what_a_patch_makes_executable_can_be_executed(
    make_tree: MakeCheckout, tmp_path: Path, path: str
) -> None:
    checkout = make_tree({"a.txt": OLD, "b.txt": OLD})
    changes = apply_patch(checkout, NEW_PROGRAM + MODE)
    template = tmp_path / "template"
    template.mkdir()
    (template / "a.txt").write_text(OLD)
    lay_out(tmp_path / "tree", template, {**changes, "b.txt": b""})
    assert os.access(tmp_path / "tree" / path, os.X_OK)
    assert not os.access(tmp_path / "tree/b.txt", os.X_OK)


def test_a_command_that_fails_leaves_nothing_to_the_next(
    make_tree: MakeCheckout,
) -> None:
    """``--reject`` applies the first part, so that ``patch`` would find it applied."""
    second = PATCH.replace("a.txt", "b.txt").replace(" line 7", " line seven")
    checkout = make_tree({"a.txt": OLD, "b.txt": OLD})
    changes = apply_patch(checkout, PATCH + second)
    assert changes["a.txt"] == changes["b.txt"] == NEW.encode()


def test_a_patch_that_no_command_applies_is_refused_with_the_first_error(
    make_tree: MakeCheckout,
) -> None:
    checkout = make_tree({"a.txt": OLD})
    with pytest.raises(PatchError, match=r"^error: a\.txt: patch does not apply$"):
        apply_patch(checkout, PATCH.replace("-line 10", "-no such line"))


def test_the_test_patch_is_applied_by_the_first_command_alone(
    make_tree: MakeCheckout,
) -> None:
    checkout = make_tree({"a.txt": OLD})
    with pytest.raises(PatchError):
        apply_patch(checkout, NEEDS_FUZZ, tries=1)


@pytest.mark.parametrize("path", [".git/config", ".git/hooks/x", "sub/.git/config"])
def test_no_patch_writes_into_a_repository(make_tree: MakeCheckout, path: str) -> None:
    """GNU patch would, and git would run what stands there."""
    if not bubblewrap_works() and not path.startswith("sub/"):
        pytest.skip("bubblewrap does not work here")
    checkout = make_tree({"a.txt": OLD})
    before = git("config", "--list", "--local", cwd=checkout.root)
    with pytest.raises(PatchError):
        apply_patch(checkout, NEEDS_FUZZ + NEW_FILE.format(path))
    assert git("config", "--list", "--local", cwd=checkout.root) == before
    assert not (checkout.root / ".git/hooks/x").exists()


def test_a_link_is_read_within_the_tree_alone(make_tree: MakeCheckout) -> None:
    link = "diff --git a/{0} b/{0}\nnew file mode 120000\n--- /dev/null\n+++ b/{0}\n"
    link += "@@ -0,0 +1 @@\n+{1}\n\\ No newline at end of file\n"
    checkout = make_tree({"a.txt": OLD})
    targets = {"in": "a.txt", "out": "/etc/passwd", "loop": "loop"}
    patch = "".join(link.format(*pair) for pair in targets.items())
    changes = apply_patch(checkout, patch)
    assert changes == {"in": OLD.encode(), "out": None, "loop": None}
