"""SEARCH/REPLACE blocks: parsing, the reference agent's matching steps, and failures."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_retry.agent.formats.edits import SearchReplace
from swe_retry.agent.formats.protocol import MalformedReplyError, ReplyScope
from swe_retry.agent.formats.reference import ReferenceDiffFormat
from swe_retry.agent.formats.report import ApplyReport, feedback
from swe_retry.llm.chat import Reply
from tests.support.formats import block, join_lines

FORMAT = ReferenceDiffFormat()


X_TO_Y = block("a.py", "x\n", "y\n")
ELIDED = block("a.py", "a\n...\nc\n", "A\n...\nC\n")
OTHER = block("b/c.py", "y\n", "z\n")
SECOND = block("Here is the second change:", "1\n", "2\n")
Files = Mapping[str, str]


def parse(reply: str, paths: set[str]) -> tuple[SearchReplace, ...]:
    return tuple(FORMAT.parse(Reply(reply), ReplyScope(paths)))


def apply(reply: str, files: Files, chat: tuple[str, ...] = ()) -> ApplyReport:
    return FORMAT.apply(parse(reply, set(files)), files.get, chat)


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
    reply = "a.py\n\n```python\n<<<<<<< SEARCH\nx\n=======\n>>>>>>> REPLACE\n```"
    (edit,) = parse(reply, set())
    assert edit == SearchReplace("a.py", "x\n", "")


@pytest.mark.parametrize(
    "name", [".gitattributes", ".coveragerc", "MANIFEST", "Makefile"]
)
def test_new_files_without_extension_do_not_land_in_the_file_before(name: str) -> None:
    report = apply(X_TO_Y + block(name, "", "new\n"), {"a.py": "x\n"})
    assert report.contents == {"a.py": "y\n", name: "new\n"}


def test_prose_is_no_file_name() -> None:
    edits = parse(X_TO_Y + SECOND, {"a.py"})
    assert [edit.path for edit in edits] == ["a.py", "a.py"]


@pytest.mark.parametrize(
    ("reply", "problem"),
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
def test_malformed_blocks_are_explained(reply: str, problem: str) -> None:
    with pytest.raises(MalformedReplyError, match=problem):
        parse(reply, set())


METHOD = "class A:\n    def f(self):\n        return 1\n"
# The reply, the files, and those that it changes.
APPLIED: dict[str, tuple[str, Files, Files]] = {
    "prose around several blocks for several files": (
        f"First:\n\n{X_TO_Y}\nthen\n\n{OTHER}Done.",
        {"a.py": "x\n", "b/c.py": "y\n"},
        {"a.py": "y\n", "b/c.py": "z\n"},
    ),
    "a block directly after another takes its name": (
        "a.py\n```\n<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n"
        "<<<<<<< SEARCH\n1\n=======\n2\n>>>>>>> REPLACE\n```\n",
        {"a.py": "x\n1\n"},
        {"a.py": "y\n2\n"},
    ),
    "the first exact place wins": (X_TO_Y, {"a.py": "x\nx\n"}, {"a.py": "y\nx\n"}),
    "uniform indentation is put back": (
        block("a.py", "def f(self):\n    return 1\n", "def f(self):\n    return 2\n"),
        {"a.py": METHOD},
        {"a.py": METHOD.replace("1", "2")},
    ),
    "a leading blank line is dropped": (
        block("a.py", "\nx\ny\n", "z\n"),
        {"a.py": "x\ny\n"},
        {"a.py": "z\n"},
    ),
    "elisions match piece by piece": (
        ELIDED,
        {"a.py": "a\nb\nc\n"},
        {"a.py": "A\nb\nC\n"},
    ),
    "an empty search creates": (block("new.py", "", "x\n"), {}, {"new.py": "x\n"}),
    "an empty search appends": (
        block("a.py", "", "y\n"),
        {"a.py": "x\n"},
        {"a.py": "x\ny\n"},
    ),
    "all lines are deleted": (
        block("a.py", "x\n", ""),
        {"a.py": "x\n"},
        {"a.py": ""},
    ),
    "a missing final newline stays missing": (
        X_TO_Y,
        {"a.py": "x\nend"},
        {"a.py": "y\nend"},
    ),
    "a form feed is no line end": (
        X_TO_Y,
        {"a.py": "x\n\x0cclass A:\n    pass\n"},
        {"a.py": "y\n\x0cclass A:\n    pass\n"},
    ),
}


@pytest.mark.parametrize(("reply", "before", "after"), APPLIED.values(), ids=APPLIED)
def test_blocks_are_applied(reply: str, before: Files, after: Files) -> None:
    report = apply(reply, before)
    assert report.contents == after
    assert not report.failures


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (block("a.py", "a\nb\n", "c\n"), "    a\n        b\n"),
        (ELIDED, "a\nb\na\nc\n"),
    ],
    ids=["uneven indentation", "an elided piece in two places"],
)
def test_blocks_that_match_nothing(reply: str, text: str) -> None:
    assert apply(reply, {"a.py": text}).failures


def test_lines_found_in_another_file_of_the_chat() -> None:
    report = apply(X_TO_Y, {"a.py": "1\n", "b.py": "x\n"}, ("a.py", "b.py"))
    assert report.contents == {"b.py": "y\n"}
    assert report.results[0].landed_in == "b.py"


def test_a_failing_block_for_a_missing_file_creates_nothing() -> None:
    report = apply(block("no.py", "x\n", "y\n"), {"a.py": "1\n"})
    assert report.contents == {}
    assert "no file no.py" in report.failures[0].problem


def test_matching_blocks_stay_when_others_fail_and_the_model_learns_it() -> None:
    text = "def f():\n    return compute(1)\n\n\ndef g():\n    return 2\n"
    wrong = block("a.py", "def f():\n    return compute(2)\n", "pass\n")
    right = block("a.py", "    return 2\n", "    return 3\n")
    report = apply(wrong + right, {"a.py": text})
    assert report.contents["a.py"] == text.replace("return 2", "return 3")
    message = feedback(report)
    assert "1 of 2 edits" in message
    assert "    2      return compute(1)" in message
    assert "do not send them again" in message


def test_an_existing_replacement_is_reported() -> None:
    report = apply(block("a.py", "old()\n", "new()\n"), {"a.py": "new()\n"})
    assert "already in a.py" in feedback(report)


def test_a_continuation_is_joined_and_a_repetition_is_not() -> None:
    cut = X_TO_Y.index("=======") + 8
    beginning = X_TO_Y[:cut]
    for second in (X_TO_Y[cut:], X_TO_Y):
        assert FORMAT.join(beginning, second) == X_TO_Y


def is_plain(line: str) -> bool:
    return not line.lstrip().startswith(("<", "=", ">", "`", "..."))


CHARACTERS = st.characters(codec="utf-8", exclude_characters="\n\r")
LINES = st.text(CHARACTERS, max_size=20).filter(is_plain)


@given(st.lists(LINES, min_size=1, max_size=12), st.data())
def test_a_block_made_of_the_files_own_lines_replaces_just_them(
    lines: list[str], data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(lines) - 1))
    end = data.draw(st.integers(start + 1, len(lines)))
    search = join_lines(lines[start:end])
    if not search.strip() or not lines[end - 1]:
        return
    text = join_lines(lines)
    edit = SearchReplace("f", search, "@replaced@\n")
    report = FORMAT.apply([edit], {"f": text}.get, ())
    # With a newline before each, a place begins where a line does.
    before, _, after = f"\n{text}".partition(f"\n{search}")
    assert f"\n{report.contents['f']}" == f"{before}\n@replaced@\n{after}"


@given(st.text(max_size=300))
def test_no_reply_crashes_the_parser(reply: str) -> None:
    try:
        edits = parse(reply, {"a.py"})
    except MalformedReplyError:
        return
    FORMAT.apply(edits, {"a.py": "x\n"}.get, ())
