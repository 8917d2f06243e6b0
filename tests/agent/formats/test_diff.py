"""SEARCH/REPLACE blocks as models write them, some of which the reference misreads."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from swe_retry.agent.formats import get_format
from swe_retry.agent.formats.edits import SearchReplace, Unreadable
from swe_retry.llm.chat import Reply
from tests.support.formats import FENCE, apply, block, parse, problem
from tests.support.render_edits import render

BODY = "<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n"
SECOND = BODY.replace("x", "1").replace("y", "2")
OLDER = BODY.replace("SEARCH", "ORIGINAL").replace("REPLACE", "UPDATED")
NO_END = f"<<<<<<< SEARCH\nx\n=======\ny\n{FENCE}\n"
X_TO_Y = block("a.py", "x\n", "y\n")
BOTH = {"a.py": "x\n", "b.py": "x\n"}
Files = Mapping[str, str]


def contents(reply: str | Reply, files: Files) -> Mapping[str, str | None]:
    """Return the files that ``reply`` changes."""
    return dict(apply("diff", reply, files).contents)


@pytest.mark.parametrize(
    "line",
    [
        "src/a.py",
        "`src/a.py`",
        "**src/a.py**",
        "**`src/a.py`**",
        "### src/a.py",
        "File: src/a.py",
        "### File: `src/a.py`:",
        "src/a.py (new file)",
        "src/a.py:",
        "1. `src/a.py`:",
        "./src/a.py",
        "src\\a.py",
        "path/to/src/a.py",
        "/testbed/src/a.py",
        "a.py",
        "wrong/folder/a.py",
        "Now change the loop in `src/a.py`:",
        "src/a.py\n",
    ],
)
def test_names_as_models_write_them(line: str) -> None:
    reply = f"{line}\n{FENCE}python\n{BODY}{FENCE}"
    (edit,) = parse("diff", reply, ["src/a.py", "b.py"])
    assert edit.path == "src/a.py"


@pytest.mark.parametrize(
    "opening",
    [
        f"{FENCE}python src/a.py\n",
        f"{FENCE}python:src/a.py\n",
        f"{FENCE}src/a.py\n",
        f'{FENCE}python title="src/a.py"\n',
        f"{FENCE}\nsrc/a.py\n",
        f"{FENCE}python\n# src/a.py\n",
        "`````python\nsrc/a.py\n",
        "~~~\nsrc/a.py\n",
    ],
)
def test_names_at_the_fence(opening: str) -> None:
    marks = opening[: len(opening) - len(opening.lstrip("`~"))]
    reply = f"I change it as follows.\n{opening}{BODY}{marks}\n"
    changed = contents(reply, {"src/a.py": "x\n", "b.py": "x\n"})
    assert changed == {"src/a.py": "y\n"}


@pytest.mark.parametrize(
    "line",
    [
        "Now the same in `b.py`.",
        "### Changes to `b.py`",
        "**b.py** (lines 1-3)",
        "[b.py](b.py)",
        "File 2: b.py",
        "`b.py`: rename y",
        "// b.py",
        '"b.py",',
    ],
)
def test_a_block_under_words_about_another_file_is_for_that_file(line: str) -> None:
    second = f"\n{line}\n\n{FENCE}python\n{BODY}{FENCE}\n"
    files = {"a.py": "x\nx2\n", "b.py": "x\n"}
    changed = contents(block("a.py", "x\n", "z\n") + second, files)
    assert changed == {"a.py": "z\nx2\n", "b.py": "y\n"}


OVERLINE = "=======\nHeading\n=======\n\nold\n"
ABOUT_BLOCKS = "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n"
INSERTION = block("a", "x\n", "import re\nx\n")
X_BECOMES_Y = {
    "a missing last marker where the fence closes": f"a.py\n{FENCE}\n{NO_END}",
    "CRLF, a byte order mark and an unclosed last fence": "\ufeff"
    + f"a.py\n{FENCE}\n{BODY}".replace("\n", "\r\n"),
    "markers of 2023": f"a.py\n{FENCE}\n{OLDER}{FENCE}",
    "a part wrapped in a fence": block(
        "a.py", f"{FENCE}python\nx\n{FENCE}\n", f"{FENCE}python\ny\n{FENCE}\n"
    ),
}
TABLE: dict[str, tuple[str | Reply, Files, Files]] = {
    "a name is never guessed for a new file": (
        block("lib/util.py", "", "2\n"),
        {"src/pkg/util.py": "1\n"},
        {"lib/util.py": "2\n"},
    ),
    "prose before a fence is no file name": (
        X_TO_Y + block("Here is the second change:", "1\n", "2\n"),
        {"a.py": "x\n1\n"},
        {"a.py": "y\n2\n"},
    ),
    "a block under words about two files is for none": (
        block("a.py", "1\n", "2\n")
        + f"\nAs a.py and b.py do:\n{FENCE}\n{BODY}{FENCE}\n",
        {"a.py": "1\nx\n", "b.py": "x\n"},
        {"a.py": "2\nx\n"},
    ),
    "a block without its last marker before another file": (
        f"a.py\n{FENCE}\n{NO_END}\n" + block("b.py", "x\n", "z\n"),
        BOTH,
        {"a.py": "y\n", "b.py": "z\n"},
    ),
    "a Windows folder before an underscore": (
        block("flask\\__init__.py", "x\n", "y\n"),
        {"flask/__init__.py": "x\n"},
        {"flask/__init__.py": "y\n"},
    ),
    "an escaped underscore": (
        block("my\\_file.py", "x\n", "y\n"),
        {"my_file.py": "x\n"},
        {"my_file.py": "y\n"},
    ),
    "an overline is no divider": (
        block("a.rst", OVERLINE, OVERLINE.replace("old", "new")),
        {"a.rst": OVERLINE},
        {"a.rst": OVERLINE.replace("old", "new")},
    ),
    "a new file keeps its first line": (
        block("new.py", "", "# new.py\nx = 1\n"),
        {},
        {"new.py": "# new.py\nx = 1\n"},
    ),
    "a file's own name can be its first line": (
        render(get_format("diff"), "a.py", "x = 1\n", "a.py\nx = 1\n"),
        {"a.py": "x = 1\n"},
        {"a.py": "a.py\nx = 1\n"},
    ),
    "a blank line alone is added": (
        block("a", "x\n", "x\n\n"),
        {"a": "x\ny\n"},
        {"a": "x\n\ny\n"},
    ),
    "a blank line alone is removed": (
        block("a", "x\n\n", "x\n"),
        {"a": "x\n\ny\n"},
        {"a": "x\ny\n"},
    ),
    "talk of appending is no wish to append": (
        "I fix how we append items to the list.\n\n" + block("a.py", "", "y\n"),
        {"a.py": "x\n"},
        {},
    ),
    "a wish to append": (
        "Append this to `a.py`.\n\n" + block("a.py", "", "y\n"),
        {"a.py": "x"},
        {"a.py": "x\ny"},
    ),
    "a wish for the end of the file": (
        "This goes to the end of the file:\n\n" + block("a.py", "", "y\n"),
        {"a.py": "x"},
        {"a.py": "x\ny"},
    ),
    "an empty file is filled": (
        block("a.py", "", "y\n"),
        {"a.py": ""},
        {"a.py": "y\n"},
    ),
    "a full file is emptied": (
        block("a.py", "x\n", ""),
        {"a.py": "x\n"},
        {"a.py": ""},
    ),
    "a part under its name": (
        block("src/a.py", "x\n", "src/a.py\ny\n"),
        {"src/a.py": "x\n"},
        {"src/a.py": "y\n"},
    ),
    "blocks about blocks use longer markers": (
        render(
            get_format("diff"), "a.md", ABOUT_BLOCKS, ABOUT_BLOCKS.replace("b", "c")
        ),
        {"a.md": ABOUT_BLOCKS},
        {"a.md": ABOUT_BLOCKS.replace("b", "c")},
    ),
    "two blocks of one reply build on each other": (
        Reply(block("a.py", "x\n", "x\nz\n") + block("a.py", "z\n", "w\n")),
        {"a.py": "x\n"},
        {"a.py": "x\nw\n"},
    ),
}


@pytest.mark.parametrize("reply", X_BECOMES_Y.values(), ids=X_BECOMES_Y)
def test_a_reply_changes_one_line(reply: str) -> None:
    assert contents(reply, {"a.py": "x\n"}) == {"a.py": "y\n"}


@pytest.mark.parametrize(("reply", "before", "after"), TABLE.values(), ids=TABLE)
def test_a_reply_is_read_as_it_is_meant(
    reply: str | Reply, before: Files, after: Files
) -> None:
    assert contents(reply, before) == after


@pytest.mark.parametrize("rule", ["=====", "=======", "========="])
def test_an_underline_inside_a_block_does_not_cut_it(rule: str) -> None:
    text = f"{'T' * len(rule)}\n{rule}\n\nold\n"
    new = text.replace("old", "new")
    assert contents(block("a.rst", text, new), {"a.rst": text}) == {"a.rst": new}


@pytest.mark.parametrize(
    "between",
    ["", "\n", f"{FENCE}\n{FENCE}python\n", f"{FENCE}\n\nAnd:\n\n{FENCE}\n"],
)
def test_a_second_block_directly_after_the_first(between: str) -> None:
    reply = f"a.py\n{FENCE}\n{BODY}{between}{SECOND}{FENCE}\n"
    assert contents(reply, {"a.py": "x\n1\n"}) == {"a.py": "y\n2\n"}


@pytest.mark.parametrize(
    ("reply", "files", "reason"),
    [
        (
            block("util.py", "x\n", "y\n"),
            {"a/util.py": "x\n", "b/util.py": "x\n"},
            "no file util.py",
        ),
        (block("no.py", "x\n", "y\n"), {"a.py": "1\n"}, "no file no.py"),
        (
            "I add y.\n\n" + block("a.py", "", "y\n"),
            {"a.py": "x\n"},
            "an empty SEARCH",
        ),
    ],
    ids=["a name of two files", "a missing file", "an empty search"],
)
def test_a_block_that_does_not_apply_changes_nothing(
    reply: str, files: Files, reason: str
) -> None:
    report = apply("diff", reply, files)
    assert report.contents == {}
    assert reason in problem(report)


def test_an_insertion_sent_twice_is_made_once() -> None:
    report = apply("diff", INSERTION * 2, {"a": "x\n"})
    assert report.contents == {"a": "import re\nx\n"}
    assert not report.failures


def test_each_unreadable_block_is_reported_and_the_others_apply() -> None:
    broken = f"b.py\n{FENCE}\n<<<<<<< SEARCH\nx\n>>>>>>> REPLACE\n{FENCE}\n"
    report = apply("diff", f"{broken}{X_TO_Y}<<<<<<< SEARCH\nno end", BOTH)
    assert report.contents == {"a.py": "y\n"}
    assert [result.applied for result in report.results] == [False, True, False]
    assert "no line `=======`" in report.results[0].problem


def test_a_block_without_any_name_is_unreadable() -> None:
    (edit,) = parse("diff", f"{FENCE}\n{BODY}{FENCE}")
    assert isinstance(edit, Unreadable)
    assert "no file name" in edit.problem


def test_a_block_lands_in_no_other_file() -> None:
    report = apply("diff", X_TO_Y, {"a.py": "1\n", "b.py": "x\n"}, ["b.py"])
    assert report.contents == {}


def test_a_reply_goes_on_in_the_middle_of_a_block() -> None:
    first = "a.py\n```\n<<<<<<< SEARCH\nx\n"
    second = "=======\ny\n>>>>>>> REPLACE\n```\n"
    join = get_format("diff").join
    assert join(first, second) == first + second
    assert join(first, BODY) == BODY


def test_diff_fenced_writes_the_name_inside() -> None:
    reply = render(get_format("diff-fenced"), "a.py", "x\n", "y\n")
    assert reply.content.startswith(f"{FENCE}\na.py\n<<<<<<< SEARCH\n")
    (edit,) = parse("diff-fenced", reply, ["a.py"])
    assert edit == SearchReplace("a.py", "x\n", "y\n", blank_end=True)
