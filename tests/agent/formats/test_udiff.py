"""Unified diffs as models write them: wrong numbers, missing marks, prose, no end."""

from __future__ import annotations

from swe_retry.agent.formats import get_format
from swe_retry.agent.formats.edits import DeleteFile, SearchReplace
from tests.support.formats import apply, parse, problem
from tests.support.render_edits import render

TEXT = "a\nb\nc\n\nd\n"


def diff(body: str, path: str = "a.py") -> str:
    return f"I change it.\n\n```diff\n--- a/{path}\n+++ b/{path}\n{body}```\n\nThat is all.\n"


def test_numbers_do_not_count_and_prose_is_passed_over() -> None:
    for head in ("@@ -90,7 +12,1 @@ def f():", "@@ ... @@", "@@"):
        assert change_text(f"{head}\n a\n-b\n+B\n c\n") == "a\nB\nc\n\nd\n", head


def change_text(body: str, text: str = TEXT) -> str | None:
    """Return what a diff makes of ``text`` in ``a.py``."""
    report = apply("udiff", diff(body), {"a.py": text})
    return report.contents["a.py"]


def test_several_hunks_and_files_without_fences() -> None:
    reply = (
        "--- a/a.py\n+++ b/a.py\n@@ @@\n-a\n+A\n@@ @@\n-d\n+D\n"
        "--- b.py\t2024-05-01\n+++ b.py\t2024-05-02\n@@ @@\n-x\n+y"
    )
    report = apply("udiff", reply, {"a.py": TEXT, "b.py": "x\n"})
    assert report.contents == {"a.py": "A\nb\nc\n\nD\n", "b.py": "y\n"}


def test_only_one_place_is_changed_and_only_whole_lines() -> None:
    assert change_text("@@ @@\n-a\n+A\n", "xa\na\n") == "xa\nA\n"
    report = apply("udiff", diff("@@ @@\n-a\n+A\n"), {"a.py": "a\nx\na\n"})
    assert "2 places" in problem(report)


def test_a_true_line_number_settles_between_equal_places() -> None:
    assert change_text("@@ -3,1 +3,1 @@\n-a\n+A\n", "a\nx\na\n") == "a\nx\nA\n"


def test_an_unclosed_fence_loses_no_line() -> None:
    reply = "```diff\n--- a.py\n+++ a.py\n@@ @@\n c\n-\n-d\n+e\n+f"
    report = apply("udiff", reply, {"a.py": TEXT})
    assert report.contents == {"a.py": "a\nb\nc\ne\nf\n"}


def test_blank_lines_without_their_space() -> None:
    assert change_text("@@ @@\n c\n\n-d\n+D\n") == "a\nb\nc\n\nD\n"


def test_files_come_and_go() -> None:
    reply = (
        "--- /dev/null\n+++ b/new.py\n@@ -0,0 +1,2 @@\n+x\n+y\n"
        "--- a/old.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-z\n"
    )
    report = apply("udiff", reply, {"old.py": "z\n"})
    assert report.contents == {"new.py": "x\ny\n", "old.py": None}
    assert isinstance(parse("udiff", reply)[1], DeleteFile)


def test_removed_lines_that_look_like_headers() -> None:
    text = "-- one\n-- two\nselect\n"
    after = "++ three\nselect\n"
    reply = render(get_format("udiff"), "a.sql", text, after)
    assert apply("udiff", reply, {"a.sql": text}).contents == {"a.sql": after}


def test_a_hunk_of_new_lines_alone_names_no_place() -> None:
    report = apply("udiff", diff("@@ -3 +3 @@\n+new\n"), {"a.py": TEXT})
    assert report.contents == {}
    assert "no lines to look for" in problem(report)


def test_the_remark_on_a_missing_newline_is_no_line() -> None:
    remark = "\\ No newline at end of file"
    assert change_text(f"@@ @@\n-b\n{remark}\n+B\n{remark}\n", "a\nb") == "a\nB"


def test_names_with_bogus_folders() -> None:
    reply = diff("@@ @@\n-x\n+y\n", path="repo/src/a.py")
    (edit,) = parse("udiff", reply, ["src/a.py"])
    assert isinstance(edit, SearchReplace)
    assert edit.path == "src/a.py"


def test_a_fence_in_the_context_does_not_end_a_hunk() -> None:
    text = "Intro\n\n```sh\nmake\n```\nEnd\n"
    body = "@@ @@\n-Intro\n+Introduction\n \n ```sh\n make\n ```\n-End\n+The end\n"
    expected = text.replace("Intro", "Introduction").replace("End", "The end")
    report = apply("udiff", diff(body, path="a.md"), {"a.md": text})
    assert report.contents == {"a.md": expected}


def test_renames() -> None:
    head = (
        "diff --git a/old/x.py b/new/x.py\nrename from old/x.py\nrename to new/x.py\n"
    )
    files = {"old/x.py": "a\n"}
    report = apply("udiff", head, files)
    assert report.contents == {"old/x.py": None, "new/x.py": "a\n"}
    hunk = "--- a/old/x.py\n+++ b/new/x.py\n@@ @@\n-a\n+b\n"
    report = apply("udiff", head + hunk, files)
    assert report.contents == {"old/x.py": None, "new/x.py": "b\n"}


def test_only_the_file_that_is_named_and_meant_is_deleted() -> None:
    reply = "--- a/{}\n+++ /dev/null\n@@ @@\n-x\n"
    report = apply("udiff", reply.format("docs/old/a.py"), {"a.py": "x\n"})
    assert report.contents == {}
    report = apply("udiff", reply.format("a.py"), {"a.py": "other\n"})
    assert "does not hold the lines" in problem(report)


def test_a_cut_off_diff_is_never_gone_on_with() -> None:
    for form, cut in (
        ("udiff", "--- a\n+++ a\n@@ @@\n-x\n+y"),
        ("patch", "*** Update File: a\n+y"),
    ):
        assert get_format(form).join(cut, "Sorry.") == "Sorry."
