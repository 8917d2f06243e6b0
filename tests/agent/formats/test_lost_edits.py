"""No complete edit of a reply is lost without a word, and no draft or repetition counts as one."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence

import pytest

from swe_retry.agent.formats import format_names, get_format
from swe_retry.agent.formats.report import ApplyReport
from swe_retry.llm.chat import Reply
from tests.support.formats import apply, block, tool_reply
from tests.support.render_edits import render

F = "```"
FILES = {
    "a.py": "def a():\n    return 1\n\n\ndef b():\n    return 1\n",
    "b.py": "x = 1\n",
}
OLD = "def a():\n    return 1\n"
DRAFT = "def a():\n    return 7\n"
NEW = "def a():\n    return 2\n"
EDITED = {"a.py": FILES["a.py"].replace(OLD, NEW)}
UDIFF = "--- a/a.py\n+++ b/a.py\n@@\n def a():\n-    return 1\n+    return 2\n"
V4A = (
    "*** Begin Patch\n*** Update File: a.py\n@@\n def a():\n-    return 1\n"
    "+    return 2\n*** End Patch\n"
)


def texts_after(report: ApplyReport, files: Mapping[str, str]) -> dict[str, str]:
    texts = dict(files)
    for path, text in report.contents.items():
        assert text is not None
        texts[path] = text
    return texts


def written(form: str, new: str) -> Reply:
    """Return a reply in ``form`` that makes ``new`` of the function ``a``."""
    before = FILES["a.py"]
    return render(get_format(form), "a.py", before, before.replace(OLD, new))


@pytest.mark.parametrize("form", format_names())
def test_a_draft_before_the_answer_is_not_applied(form: str) -> None:
    draft = written(form, DRAFT).content
    answer = written(form, NEW)
    drafts = {
        "the template opened the tag": f"First:\n{draft}\nNo.\n</think>\n\n",
        "both tags": f"<think>\n{draft}\n</think>\n",
        "text behind the tag": f"{draft} So </think>Here it is.\n\n",
        "two spans": f"{draft}</think>\nI begin.\n<think>\n{draft}</think>\n\n",
        "a draft that breaks off": f"a.py\n{F}python\n<<<<<<< SEARCH\n{OLD}</think>\n\n",
        "another tag": f"<thinking>{draft}</thinking>\n",
        "tags of Mistral": f"[THINK]{draft}[/THINK]\n",
    }
    for name, text in drafts.items():
        reply = Reply(text + answer.content, tool_calls=answer.tool_calls)
        report = apply(form, reply, FILES)
        assert not report.failures, name
        assert report.contents == EDITED, name


@pytest.mark.parametrize("form", ["diff", "whole", "udiff", "patch"])
def test_a_tag_in_a_file_is_not_the_end_of_a_draft(form: str) -> None:
    before = "START = '<think>'\nEND = '</think>'\nx = 1\n"
    page = "Write\n\n<think>\nfirst\n</think>\n\nand answer.\n"
    for path, text in (("a.py", before), ("page.md", page)):
        after = text.replace("x = 1", "x = 2").replace("first", "at first")
        reply = render(get_format(form), path, text, after)
        assert apply(form, reply, {path: text}).contents == {path: after}


REPEATED = {
    "a block": ("diff", block("a.py", OLD, NEW)),
    "a hunk": ("udiff", f"{F}diff\n{UDIFF}{F}\n"),
    "a patch": ("patch", V4A),
    "a new file as a block": ("diff", block("new.py", "", "x = 1\n")),
    "a new file as a patch": (
        "patch",
        "*** Begin Patch\n*** Add File: new.py\n+x = 1\n*** End Patch\n",
    ),
    "a deletion": ("patch", "*** Begin Patch\n*** Delete File: b.py\n*** End Patch\n"),
    "a move": (
        "patch",
        "*** Begin Patch\n*** Update File: b.py\n*** Move to: c.py\n*** End Patch\n",
    ),
    "lines that go": ("diff", block("a.py", OLD, "")),
    "lines for the end": (
        "diff",
        "Append this to the end of the file.\n\n" + block("b.py", "", "y = 1\n"),
    ),
}


@pytest.mark.parametrize(("form", "edit"), REPEATED.values(), ids=REPEATED)
def test_a_repeated_edit_is_not_a_failure(form: str, edit: str) -> None:
    once = apply(form, edit, FILES)
    twice = apply(form, f"{edit}\nIn summary:\n\n{edit}", FILES)
    assert once.contents
    assert twice.contents == once.contents
    assert not twice.failures


def test_an_edit_whose_result_stands_is_done() -> None:
    report = apply("diff", block("a.py", OLD, NEW), EDITED)
    assert not report.failures
    assert report.contents == {}
    # Lines that stand in two places do not tell that this edit was made.
    twice = {"a.py": NEW + NEW}
    assert apply("diff", block("a.py", OLD, NEW), twice).failures
    # Nor do lines that stand nowhere, or none.
    assert apply("diff", block("a.py", "z = 1\n", ""), EDITED).failures


LISTING = f"new.py\n{F}python\nx = 1\ny = 2\n{F}\n"
EDITS = {
    "diff": block("a.py", OLD, NEW),
    "diff without a language": block("a.py", OLD, NEW, info=""),
    "diff-fenced": f"{F}\na.py\n" + block("a.py", OLD, NEW).split("\n", 2)[2],
    "udiff": f"{F}diff\n{UDIFF}{F}\n",
    "patch in a fence": f"{F}\n{V4A}{F}\n",
    "patch without an end": f"{F}\n" + V4A.replace("*** End Patch\n", "") + f"{F}\n",
    "patch": V4A,
}


@pytest.mark.parametrize("name", EDITS)
@pytest.mark.parametrize("heading", ["", "### `new.py`\n\n", "And **new.py**:\n\n"])
def test_a_file_in_full_beside_an_edit_is_not_passed_over(
    name: str, heading: str
) -> None:
    form = name.split()[0]
    listing = heading + LISTING.replace("new.py\n", "" if heading else "new.py\n")
    for text in (f"{EDITS[name]}\n{listing}", f"{listing}\n{EDITS[name]}"):
        report = apply(form, text, FILES)
        assert report.contents["a.py"] == EDITED["a.py"]
        assert [failure.path for failure in report.failures] == ["new.py"]
        report = apply(form, text.replace("new.py", "b.py"), FILES)
        assert [failure.path for failure in report.failures] == ["b.py"]


def test_a_quotation_beside_an_edit_is_not_a_file_in_full() -> None:
    quotation = f"a.py\n{F}python\n{NEW}{F}\n"
    unchanged = f"b.py\n{F}python\nx = 1\n{F}\n"
    example = f"a.py\n{F}python\nprint(a())\n{F}\n"
    for text in (quotation, unchanged, example):
        report = apply("diff", block("a.py", OLD, NEW) + "\n" + text, FILES)
        assert not report.failures
        assert len(report.results) == 1


SECOND = {
    "diff": [f"{F}diff\n{UDIFF}{F}\n", V4A],
    "udiff": [block("a.py", OLD, NEW), V4A],
    "patch": [block("a.py", OLD, NEW), f"{F}diff\n{UDIFF}{F}\n"],
}


@pytest.mark.parametrize("form", SECOND)
def test_an_edit_in_a_second_notation_of_an_edited_file(form: str) -> None:
    first = EDITS[form]
    both = EDITED["a.py"].replace("b():\n    return 1", "b():\n    return 2")
    for second in SECOND[form]:
        elsewhere = second.replace("def a", "def b")
        unknown = second.replace("def a", "def c")
        for text in (first + "\n" + second, second + "\n" + first):
            report = apply(form, text, FILES)
            assert report.contents == EDITED
            assert not report.failures
        for text in (first + "\n" + elsewhere, elsewhere + "\n" + first):
            report = apply(form, text, FILES)
            assert report.contents == {"a.py": both}
            assert not report.failures
        report = apply(form, first + "\n" + unknown, FILES)
        assert len(report.failures) == 1


@pytest.mark.parametrize("context", ["def a():\n", "import os\n"])
def test_new_lines_shown_twice_are_added_once(context: str) -> None:
    before = f"{context}    return 1\n"
    added = f"{context}    x = 1\n"
    hunk = f"--- a/c.py\n+++ b/c.py\n@@\n {context}+    x = 1\n"
    texts = [block("c.py", context, added), f"{F}diff\n{hunk}{F}\n"]
    for pair in (texts, texts[::-1]):
        report = apply("diff", "\n".join(pair), {"c.py": before})
        assert report.contents == {"c.py": f"{added}    return 1\n"}


NOT_A_FILE = {
    "a diff": UDIFF,
    "a patch": V4A,
    "a block": f"<<<<<<< SEARCH\n{OLD}=======\n{NEW}>>>>>>> REPLACE\n",
    "a fence": f"{F}python\n{NEW}{F}\n",
}


@pytest.mark.parametrize("content", NOT_A_FILE.values(), ids=NOT_A_FILE)
def test_a_whole_file_is_not_a_diff_or_a_fence(content: str) -> None:
    call = tool_reply("write_file", {"path": "a.py", "content": content})
    report = apply("whole-func", call, FILES)
    assert report.contents == {}
    assert len(report.failures) == 1
    # A file that holds such lines anyway may be written.
    for path in ("notes.md", "fix.patch"):
        call = tool_reply("write_file", {"path": path, "content": content})
        is_markup = path.endswith(".md") and content.startswith(F)
        is_diff = path.endswith(".patch") and content in (UDIFF, V4A)
        if is_markup or is_diff:
            assert apply("whole-func", call, {path: "x\n"}).contents


def test_a_fence_in_the_fence_of_a_whole_file_is_not_its_content() -> None:
    text = f"a.py\n{F}`\n{F}python\n{NEW}{F}\n{F}`\n"
    report = apply("whole", text, FILES)
    assert report.contents == {}
    assert report.failures


def indent(text: str, width: int) -> str:
    return textwrap.indent(text, " " * width)


@pytest.mark.parametrize("width", [2, 3, 4, 6])
@pytest.mark.parametrize(
    ("form", "edit"),
    [
        ("udiff", f"{F}diff\n{UDIFF}{F}\n"),
        ("udiff", UDIFF),
        ("patch", V4A),
        ("patch", f"{F}\n{V4A}{F}\n"),
        ("diff", block("a.py", OLD, NEW)),
    ],
)
def test_edits_in_list_items(form: str, edit: str, width: int) -> None:
    text = f"1. Change it:\n\n{indent(edit, width)}\n2. That is all.\n"
    report = apply(form, text, FILES)
    assert report.contents == EDITED
    assert not report.failures


def test_indented_diffs_in_edits_stay() -> None:
    search = 'TEXT = """\n'
    literal = indent(UDIFF, 4) + indent(V4A, 4)
    reply = block("d.py", search, search + literal)
    report = apply("diff", reply, {"d.py": search + '"""\n'})
    assert report.contents == {"d.py": search + literal + '"""\n'}


COMMANDS = {
    "a list": json.dumps({"cmd": ["apply_patch", V4A]}),
    "a list in a fence": f"{F}json\n"
    + json.dumps({"cmd": ["apply_patch", V4A]})
    + f"\n{F}",
    "indented": json.dumps({"command": ["bash", "-lc", V4A]}, indent=2),
    "raw line ends": '{"cmd": ["apply_patch", "' + V4A + '"]}',
    "with prose": "I call it.\n"
    + json.dumps({"cmd": ["apply_patch", V4A]})
    + "\nDone.",
    "a document": f"apply_patch <<'EOF'\n{V4A}EOF\n",
}


@pytest.mark.parametrize("form", ["patch", "diff", "udiff"])
@pytest.mark.parametrize("text", COMMANDS.values(), ids=COMMANDS)
def test_patches_in_commands(form: str, text: str) -> None:
    report = apply(form, text, FILES)
    assert report.contents == EDITED


def test_a_patch_in_the_json_of_a_draft_is_not_applied() -> None:
    text = COMMANDS["a list"] + "\n</think>\n\nNothing is to change."
    assert apply("patch", text, FILES).results == ()


def test_headers_with_stars() -> None:
    for old, new in (("a/a.py", "b/a.py"), ("a.py", "a.py")):
        hunk = f"*** {old}\n--- {new}\n@@ -1,2 +1,2 @@\n def a():\n-    return 1\n+    return 2\n"
        for text in (hunk, f"{F}diff\n{hunk}{F}\n"):
            report = apply("udiff", text, FILES)
            assert report.contents == EDITED
            assert not report.failures


def test_a_context_diff_is_refused_with_the_rules() -> None:
    diff = (
        "*** a/a.py\n--- b/a.py\n***************\n*** 1,2 ****\n  def a():\n!     return 1\n"
        "--- 1,2 ----\n  def a():\n!     return 2\n"
    )
    for form in ("udiff", "diff", "patch"):
        for text in (diff, f"{F}diff\n{diff}{F}\n"):
            report = apply(form, text, FILES)
            assert report.contents == {}
            assert [failure.path for failure in report.failures] == ["a.py"]


LABELS: Sequence[tuple[str, str]] = (
    ("SEARCH:", "REPLACE:"),
    ("Before:", "After:"),
    ("**Before**", "**After**"),
    ("### Original", "### Updated"),
    ("Replace:", "With:"),
)


@pytest.mark.parametrize(("old", "new"), LABELS)
def test_two_fences_with_the_old_and_the_new_lines(old: str, new: str) -> None:
    text = f"a.py\n\n{old}\n{F}python\n{OLD}{F}\n\n{new}\n{F}python\n{NEW}{F}\n"
    for form in ("diff", "udiff", "patch"):
        report = apply(form, text, FILES)
        assert report.contents == EDITED
        assert not report.failures
        # Shown beside the edit itself, they are the same change.
        beside = apply(form, text + "\n" + EDITS[form], FILES)
        assert beside.contents == report.contents
        assert not beside.failures


@pytest.mark.parametrize(
    "info",
    ["python{a.py}", "python {a.py}", "{.python file=a.py}", '{.python title="a.py"}'],
)
def test_a_path_in_braces_at_a_fence(info: str) -> None:
    body = f"<<<<<<< SEARCH\n{OLD}=======\n{NEW}>>>>>>> REPLACE"
    report = apply("diff", f"{F}{info}\n{body}\n{F}\n", FILES)
    assert report.contents == EDITED
    report = apply("whole", f"{F}{info}\n{EDITED['a.py']}{F}\n", FILES)
    assert report.contents == EDITED


LONG = "".join(f"def f{number}():\n    return {number}\n\n\n" for number in range(20))


@pytest.mark.parametrize(
    "comment",
    [
        "# ... existing code ...",
        "# existing code",
        "# rest of the file",
        "# (unchanged)",
        "...",
    ],
)
def test_comments_for_lines_are_refused_whatever_their_size(comment: str) -> None:
    for first in (4, 60, 72):
        lines = LONG.splitlines()
        lines[first : first + 8] = ["", comment, ""]
        text = "\n".join(lines) + "\n"
        report = apply("whole", f"a.py\n{F}python\n{text}{F}\n", {"a.py": LONG})
        assert report.contents == {}
        assert len(report.failures) == 1


def test_comments_that_stand_for_no_lines_are_written() -> None:
    for comment in ("# Keep the existing order.", "# the rest is unchanged", "..."):
        text = LONG.replace("    return 7\n", f"    {comment}\n    return 8\n")
        report = apply("whole", f"a.py\n{F}python\n{text}{F}\n", {"a.py": LONG})
        assert report.contents == {"a.py": text}
