"""SEARCH/REPLACE blocks: parsing, the reference agent's matching steps, and failures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.formats.base import (
    ApplyReport,
    MalformedReplyError,
    ReplyScope,
    SearchReplace,
    feedback,
)
from agent.formats.reference import ReferenceDiffFormat
from llm.chat import Reply

FORMAT = ReferenceDiffFormat()


def block(name: str, search: str, replace: str) -> str:
    return f"{name}\n```python\n<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE\n```\n"


def parse(reply: str, known: set[str]) -> tuple[SearchReplace, ...]:
    return tuple(FORMAT.parse(Reply(reply), ReplyScope(known)))


def apply(
    reply: str,
    files: dict[str, str],
    known: set[str] | None = None,
    chat: tuple[str, ...] = (),
) -> ApplyReport:
    edits = parse(reply, known if known is not None else set(files))
    return FORMAT.apply(edits, files.get, chat)


def test_prose_around_several_blocks_for_several_files() -> None:
    first = block("a.py", "x = 1\n", "x = 2\n")
    second = block("b/c.py", "y\n", "z\n")
    reply = f"First:\n\n{first}\nthen\n\n{second}Done."
    report = apply(reply, {"a.py": "x = 1\n", "b/c.py": "y\n"})
    assert report.contents == {"a.py": "x = 2\n", "b/c.py": "z\n"}
    assert not report.failures


@pytest.mark.parametrize(
    "line",
    [
        "src/a.py",
        "`src/a.py`",
        "**src/a.py**",
        "### src/a.py",
        "File: src/a.py",
        "src/a.py (new file)",
        "src/a.py:",
        "1. `src/a.py`:",
        "./src/a.py",
        "src\\a.py",
    ],
)
def test_names_as_models_write_them(line: str) -> None:
    (edit,) = parse(block(line, "x\n", "y\n"), {"src/a.py"})
    assert edit.path == "src/a.py"


def test_a_blank_line_between_name_and_fence() -> None:
    (edit,) = parse(
        "a.py\n\n```python\n<<<<<<< SEARCH\nx\n=======\n>>>>>>> REPLACE\n```", set()
    )
    assert edit == SearchReplace("a.py", "x\n", "")


@pytest.mark.parametrize(
    "name", [".gitattributes", ".coveragerc", "MANIFEST", "Makefile"]
)
def test_new_files_without_extension_do_not_land_in_the_file_before(name: str) -> None:
    report = apply(
        block("a.py", "x\n", "y\n") + block(name, "", "new\n"), {"a.py": "x\n"}
    )
    assert report.contents == {"a.py": "y\n", name: "new\n"}


def test_prose_is_no_file_name() -> None:
    reply = block("a.py", "x\n", "y\n") + block(
        "Here is the second change:", "1\n", "2\n"
    )
    assert [edit.path for edit in parse(reply, {"a.py"})] == ["a.py", "a.py"]


def test_block_directly_after_another_takes_its_name() -> None:
    reply = (
        "a.py\n```\n<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n"
        "<<<<<<< SEARCH\n1\n=======\n2\n>>>>>>> REPLACE\n```\n"
    )
    assert apply(reply, {"a.py": "x\n1\n"}).contents == {"a.py": "y\n2\n"}


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ("```\n<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n```", "no file name"),
        ("a.py\n```\n<<<<<<< SEARCH\nx\n>>>>>>> REPLACE\n```", "expected `=======`"),
        ("a.py\n```\n<<<<<<< SEARCH\nx\n=======\ny\n", "incomplete"),
        (
            "a.py\n```\n<<<<<<< SEARCH\nx\n=======\ny\n<<<<<<< SEARCH\n",
            "expected `>>>>>>> REPLACE`",
        ),
    ],
)
def test_malformed_blocks_are_explained(reply: str, words: str) -> None:
    with pytest.raises(MalformedReplyError, match=words):
        parse(reply, set())


def test_exact_first_place_wins() -> None:
    assert apply(block("a", "x\n", "y\n"), {"a": "x\nx\n"}, {"a"}).contents == {
        "a": "y\nx\n"
    }


def test_uniform_indentation_is_put_back() -> None:
    text = "class A:\n    def f(self):\n        return 1\n"
    reply = block(
        "a.py", "def f(self):\n    return 1\n", "def f(self):\n    return 2\n"
    )
    assert apply(reply, {"a.py": text}).contents["a.py"] == text.replace("1", "2")


def test_uneven_indentation_is_no_match() -> None:
    text = "    a\n        b\n"
    assert apply(block("a.py", "a\nb\n", "c\n"), {"a.py": text}).failures


def test_leading_blank_line_is_dropped() -> None:
    reply = block("a.py", "\nx\ny\n", "z\n")
    assert apply(reply, {"a.py": "x\ny\n"}).contents["a.py"] == "z\n"


def test_elisions_match_piece_by_piece() -> None:
    reply = block("a.py", "a\n...\nc\n", "A\n...\nC\n")
    assert apply(reply, {"a.py": "a\nb\nc\n"}).contents["a.py"] == "A\nb\nC\n"


def test_an_elided_piece_that_stands_in_two_places_is_no_match() -> None:
    reply = block("a.py", "a\n...\nc\n", "A\n...\nC\n")
    assert apply(reply, {"a.py": "a\nb\na\nc\n"}).failures


def test_lines_found_in_another_file_of_the_chat() -> None:
    report = apply(
        block("a.py", "x\n", "y\n"),
        {"a.py": "1\n", "b.py": "x\n"},
        chat=("a.py", "b.py"),
    )
    assert report.contents == {"b.py": "y\n"}
    assert report.results[0].landed_in == "b.py"


def test_empty_search_creates_or_appends() -> None:
    assert apply(block("new.py", "", "x\n"), {}).contents == {"new.py": "x\n"}
    assert apply(block("a.py", "", "y\n"), {"a.py": "x\n"}).contents == {
        "a.py": "x\ny\n"
    }


def test_deleting_all_lines_of_a_file_is_an_edit() -> None:
    report = apply(block("a.py", "x\n", ""), {"a.py": "x\n"})
    assert report.contents == {"a.py": ""}
    assert not report.failures


def test_a_failing_block_for_a_missing_file_creates_nothing() -> None:
    report = apply(block("no.py", "x\n", "y\n"), {"a.py": "1\n"})
    assert report.contents == {}
    assert "no file no.py" in report.failures[0].problem


def test_matching_blocks_stay_when_others_fail_and_the_model_learns_it() -> None:
    text = "def f():\n    return compute(1)\n\n\ndef g():\n    return 2\n"
    reply = block("a.py", "def f():\n    return compute(2)\n", "pass\n") + block(
        "a.py", "    return 2\n", "    return 3\n"
    )
    report = apply(reply, {"a.py": text})
    assert report.contents["a.py"] == text.replace("return 2", "return 3")
    message = feedback(report)
    assert "1 of 2 edits" in message
    assert "    2      return compute(1)" in message
    assert "do not send them again" in message


def test_an_existing_replacement_is_reported() -> None:
    report = apply(block("a.py", "old()\n", "new()\n"), {"a.py": "new()\n"})
    assert "already in a.py" in feedback(report)


def test_missing_final_newline_stays_missing() -> None:
    assert (
        apply(block("a.py", "x\n", "y\n"), {"a.py": "x\nend"}).contents["a.py"]
        == "y\nend"
    )


def test_form_feeds_are_no_line_ends() -> None:
    text = "x\n\x0cclass A:\n    pass\n"
    assert (
        apply(block("a.py", "x\n", "y\n"), {"a.py": text}).contents["a.py"]
        == "y" + text[1:]
    )


def test_a_continuation_is_joined_and_a_repetition_is_not() -> None:
    whole = block("a.py", "x\n", "y\n")
    cut = whole.index("=======") + 8
    assert FORMAT.join(whole[:cut], whole[cut:]) == whole
    assert FORMAT.join(whole[:cut], whole) == whole


LINE = st.text(
    st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=20
).filter(lambda line: not line.lstrip().startswith(("<", "=", ">", "`", "...")))


@given(st.lists(LINE, min_size=1, max_size=12), st.data())
def test_a_block_made_of_the_files_own_lines_replaces_just_them(
    lines: list[str], data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(lines) - 1))
    end = data.draw(st.integers(start + 1, len(lines)))
    search = "".join(f"{line}\n" for line in lines[start:end])
    if not search.strip() or not lines[end - 1]:
        return
    edit = SearchReplace("f", search, "@replaced@\n")
    text = "".join(f"{line}\n" for line in lines)
    new = FORMAT.apply([edit], {"f": text}.get, ()).contents["f"]
    first = (
        text.index(search) if text.startswith(search) else text.index("\n" + search) + 1
    )
    assert new == text[:first] + "@replaced@\n" + text[first + len(search) :]


@given(st.text(max_size=300))
def test_no_reply_crashes_the_parser(reply: str) -> None:
    try:
        edits = parse(reply, {"a.py"})
    except MalformedReplyError:
        return
    FORMAT.apply(edits, {"a.py": "x\n"}.get, ())
