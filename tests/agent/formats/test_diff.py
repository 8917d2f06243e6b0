"""SEARCH/REPLACE blocks as models write them, some of which the reference misreads."""

from __future__ import annotations

import pytest

from agent.formats import get_format
from agent.formats.base import SearchReplace, Unreadable
from llm.chat import Reply
from tests.support.formats import FENCE, apply, block, parse, problem

BODY = "<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n"


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
    (edit,) = parse(
        "diff", f"{line}\n{FENCE}python\n{BODY}{FENCE}", ["src/a.py", "b.py"]
    )
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
    assert apply("diff", reply, {"src/a.py": "x\n", "b.py": "x\n"}).contents == {
        "src/a.py": "y\n"
    }


def test_a_name_is_never_guessed_for_a_new_file() -> None:
    known = {"src/pkg/util.py": "1\n"}
    assert apply("diff", block("lib/util.py", "", "2\n"), known).contents == {
        "lib/util.py": "2\n"
    }


def test_a_name_that_could_be_two_files_is_neither() -> None:
    files = {"a/util.py": "x\n", "b/util.py": "x\n"}
    report = apply("diff", block("util.py", "x\n", "y\n"), files)
    assert report.contents == {}
    assert "no file util.py" in problem(report)


def test_prose_before_a_fence_is_no_file_name() -> None:
    reply = block("a.py", "x\n", "y\n") + block(
        "Here is the second change:", "1\n", "2\n"
    )
    assert apply("diff", reply, {"a.py": "x\n1\n"}).contents == {"a.py": "y\n2\n"}


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
    report = apply(
        "diff", block("a.py", "x\n", "z\n") + second, {"a.py": "x\nx2\n", "b.py": "x\n"}
    )
    assert report.contents == {"a.py": "z\nx2\n", "b.py": "y\n"}


def test_a_block_under_words_about_two_files_is_for_none() -> None:
    second = f"\nAs a.py and b.py do:\n{FENCE}\n{BODY}{FENCE}\n"
    report = apply(
        "diff", block("a.py", "1\n", "2\n") + second, {"a.py": "1\nx\n", "b.py": "x\n"}
    )
    assert report.contents == {"a.py": "2\nx\n"}


def test_a_block_without_its_last_marker_before_another_file() -> None:
    first = f"a.py\n{FENCE}\n<<<<<<< SEARCH\nx\n=======\ny\n{FENCE}\n\n"
    report = apply(
        "diff", first + block("b.py", "x\n", "z\n"), {"a.py": "x\n", "b.py": "x\n"}
    )
    assert report.contents == {"a.py": "y\n", "b.py": "z\n"}


def test_windows_folders_before_underscores() -> None:
    reply = block("flask\\__init__.py", "x\n", "y\n")
    assert apply("diff", reply, {"flask/__init__.py": "x\n"}).contents == {
        "flask/__init__.py": "y\n"
    }
    escaped = block("my\\_file.py", "x\n", "y\n")
    assert apply("diff", escaped, {"my_file.py": "x\n"}).contents == {
        "my_file.py": "y\n"
    }


def test_an_overline_is_no_divider() -> None:
    text = "=======\nHeading\n=======\n\nold\n"
    report = apply(
        "diff", block("a.rst", text, text.replace("old", "new")), {"a.rst": text}
    )
    assert report.contents == {"a.rst": text.replace("old", "new")}


def test_a_new_file_keeps_its_first_line() -> None:
    text = "# new.py\nx = 1\n"
    assert apply("diff", block("new.py", "", text), {}).contents == {"new.py": text}


def test_a_files_own_name_can_be_its_first_line() -> None:
    reply = get_format("diff").render("a.py", "x = 1\n", "a.py\nx = 1\n")
    assert apply("diff", reply, {"a.py": "x = 1\n"}).contents == {
        "a.py": "a.py\nx = 1\n"
    }


def test_blank_lines_alone_are_an_edit() -> None:
    assert apply("diff", block("a", "x\n", "x\n\n"), {"a": "x\ny\n"}).contents == {
        "a": "x\n\ny\n"
    }
    assert apply("diff", block("a", "x\n\n", "x\n"), {"a": "x\n\ny\n"}).contents == {
        "a": "x\ny\n"
    }


def test_an_insertion_sent_twice_is_made_once() -> None:
    one = block("a", "x\n", "import re\nx\n")
    report = apply("diff", one + one, {"a": "x\n"})
    assert report.contents == {"a": "import re\nx\n"}
    assert not report.failures


def test_talk_of_appending_is_no_wish_to_append() -> None:
    prose = "I fix how we append items to the list.\n\n"
    assert (
        apply("diff", prose + block("a.py", "", "y\n"), {"a.py": "x\n"}).contents == {}
    )


def test_a_second_block_directly_after_the_first() -> None:
    second = BODY.replace("x", "1").replace("y", "2")
    for between in (
        "",
        "\n",
        f"{FENCE}\n{FENCE}python\n",
        f"{FENCE}\n\nAnd:\n\n{FENCE}\n",
    ):
        reply = f"a.py\n{FENCE}\n{BODY}{between}{second}{FENCE}\n"
        assert apply("diff", reply, {"a.py": "x\n1\n"}).contents == {
            "a.py": "y\n2\n"
        }, between


def test_crlf_byte_order_mark_and_an_unclosed_last_fence() -> None:
    reply = "\ufeff" + f"a.py\n{FENCE}\n{BODY}".replace("\n", "\r\n")
    assert apply("diff", reply, {"a.py": "x\n"}).contents == {"a.py": "y\n"}


def test_markers_of_2023() -> None:
    body = BODY.replace("SEARCH", "ORIGINAL").replace("REPLACE", "UPDATED")
    assert (
        apply("diff", f"a.py\n{FENCE}\n{body}{FENCE}", {"a.py": "x\n"}).contents["a.py"]
        == "y\n"
    )


def test_a_missing_last_marker_where_the_fence_closes() -> None:
    reply = f"a.py\n{FENCE}\n<<<<<<< SEARCH\nx\n=======\ny\n{FENCE}\n"
    assert apply("diff", reply, {"a.py": "x\n"}).contents["a.py"] == "y\n"


@pytest.mark.parametrize("rule", ["=====", "=======", "========="])
def test_an_underline_inside_a_block_does_not_cut_it(rule: str) -> None:
    title = "T" * len(rule)
    text = f"{title}\n{rule}\n\nold\n"
    report = apply(
        "diff", block("a.rst", text, text.replace("old", "new")), {"a.rst": text}
    )
    assert report.contents["a.rst"] == text.replace("old", "new")


def test_each_unreadable_block_is_reported_and_the_others_apply() -> None:
    broken = f"b.py\n{FENCE}\n<<<<<<< SEARCH\nx\n>>>>>>> REPLACE\n{FENCE}\n"
    reply = broken + block("a.py", "x\n", "y\n") + "<<<<<<< SEARCH\nno end"
    report = apply("diff", reply, {"a.py": "x\n", "b.py": "x\n"})
    assert report.contents == {"a.py": "y\n"}
    assert [result.applied for result in report.results] == [False, True, False]
    assert "no line `=======`" in report.results[0].problem


def test_a_block_without_any_name_is_unreadable() -> None:
    (edit,) = parse("diff", f"{FENCE}\n{BODY}{FENCE}")
    assert isinstance(edit, Unreadable)
    assert "no file name" in edit.problem


def test_a_block_lands_in_no_other_file() -> None:
    report = apply(
        "diff", block("a.py", "x\n", "y\n"), {"a.py": "1\n", "b.py": "x\n"}, ["b.py"]
    )
    assert report.contents == {}


def test_a_failing_block_for_a_missing_file_creates_nothing() -> None:
    report = apply("diff", block("no.py", "x\n", "y\n"), {"a.py": "1\n"})
    assert report.contents == {}
    assert "no file no.py" in problem(report)


@pytest.mark.parametrize(
    "prose", ["Append this to `a.py`.\n\n", "This goes to the end of the file:\n\n"]
)
def test_an_empty_search_appends_when_the_reply_says_so(prose: str) -> None:
    report = apply("diff", prose + block("a.py", "", "y\n"), {"a.py": "x"})
    assert report.contents == {"a.py": "x\ny"}


def test_an_empty_search_on_a_file_with_content_is_an_error() -> None:
    report = apply("diff", "I add y.\n\n" + block("a.py", "", "y\n"), {"a.py": "x\n"})
    assert report.contents == {}
    assert "an empty SEARCH" in problem(report)


def test_an_empty_file_is_filled_and_a_full_one_emptied() -> None:
    assert apply("diff", block("a.py", "", "y\n"), {"a.py": ""}).contents == {
        "a.py": "y\n"
    }
    assert apply("diff", block("a.py", "x\n", ""), {"a.py": "x\n"}).contents == {
        "a.py": ""
    }


def test_a_part_wrapped_in_a_fence_or_under_its_name() -> None:
    wrapped = f"{FENCE}python\nx\n{FENCE}\n"
    reply = block("a.py", wrapped, wrapped.replace("x", "y"))
    assert apply("diff", reply, {"a.py": "x\n"}).contents == {"a.py": "y\n"}
    named = block("src/a.py", "x\n", "src/a.py\ny\n")
    assert apply("diff", named, {"src/a.py": "x\n"}).contents == {"src/a.py": "y\n"}


def test_blocks_about_blocks_use_longer_markers() -> None:
    text = "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n"
    reply = get_format("diff").render("a.md", text, text.replace("b", "c"))
    assert apply("diff", reply, {"a.md": text}).contents == {
        "a.md": text.replace("b", "c")
    }


def test_a_reply_goes_on_in_the_middle_of_a_block() -> None:
    edit_format = get_format("diff")
    first = "a.py\n```\n<<<<<<< SEARCH\nx\n"
    second = "=======\ny\n>>>>>>> REPLACE\n```\n"
    assert edit_format.join(first, second) == first + second
    assert edit_format.join(first, BODY) == BODY


def test_deleting_a_file_cannot_be_said() -> None:
    with pytest.raises(ValueError, match="cannot delete"):
        get_format("diff").render("a.py", "x\n", None)


def test_diff_fenced_writes_the_name_inside() -> None:
    reply = get_format("diff-fenced").render("a.py", "x\n", "y\n")
    assert reply.content.startswith(f"{FENCE}\na.py\n<<<<<<< SEARCH\n")
    (edit,) = parse("diff-fenced", reply, ["a.py"])
    assert edit == SearchReplace("a.py", "x\n", "y\n", blank_end=True)


def test_two_blocks_of_one_reply_build_on_each_other() -> None:
    reply = Reply(block("a.py", "x\n", "x\nz\n") + block("a.py", "z\n", "w\n"))
    assert apply("diff", reply, {"a.py": "x\n"}).contents == {"a.py": "x\nw\n"}
