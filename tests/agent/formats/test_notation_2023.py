"""The formats of 2023: what models are told, and that it reads back."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jsonschema import validate

from swe_retry.agent.formats import format_names, get_format
from swe_retry.agent.formats.edits import Unreadable
from swe_retry.agent.formats.protocol import (
    EditFormat,
    MalformedReplyError,
    Notation,
    ReplyScope,
    Sample,
)
from swe_retry.agent.formats.reading.calls import unknown_calls
from swe_retry.agent.formats.report import ApplyReport
from swe_retry.llm.chat import Reply, ToolCall
from tests.support.formats import can_say, join_lines, problem, tool_reply
from tests.support.render_edits import render

OLD = Notation.OF_2023
NAMES = format_names(OLD)
BEFORE = "import re\n\n\ndef f(text):\n    pass\n"
AFTER = 'import re\n\n\ndef f(text):\n    """``f``."""\n    return re.sub("=======", "", text)\n'


def form(name: str) -> EditFormat:
    return get_format(name, notation=OLD)


def apply(
    name: str,
    reply: Reply,
    files: Mapping[str, str],
) -> ApplyReport:
    chat = tuple(files)
    edits = form(name).parse(reply, ReplyScope(frozenset(files), chat))
    return form(name).apply(edits, files.get, chat)


def render_change(name: str) -> Reply:
    return render(form(name), "a.py", BEFORE, AFTER)


def test_there_are_four() -> None:
    assert NAMES == ("whole", "diff", "whole-func", "diff-func")
    with pytest.raises(KeyError):
        form("udiff")


def test_the_instructions_show_the_markers_of_2023() -> None:
    instructions = form("diff").instructions("```")
    assert instructions.count("<<<<<<< ORIGINAL") == 1
    assert "SEARCH" not in instructions


_LINE = st.sampled_from(
    [
        "",
        "    ",
        "x = 1",
        "    return x",
        "```",
        "````",
        "<<<<<<< ORIGINAL",
        "=======",
        "...",
        ">>>>>>> UPDATED",
        "<<<<<<< SEARCH",
        "a.py",
        "form\x0cfeed",
        "line\u2028separator",
    ]
)
_LINES = st.lists(_LINE, max_size=9)


@given(name=st.sampled_from(NAMES), old=_LINES, new=_LINES)
@settings(max_examples=100)
def test_a_change_is_written_and_read(
    name: str,
    old: list[str],
    new: list[str],
) -> None:
    assume(can_say(name, new))
    before = join_lines(old)
    after = join_lines(new)
    reply = render(form(name), "src/a.py", before, after)
    report = apply(name, reply, {"src/a.py": before})
    assert not report.failures, reply
    assert report.contents.get("src/a.py", before) == after, reply


@pytest.mark.parametrize("name", NAMES)
def test_the_current_formats_read_the_notation_of_2023(name: str) -> None:
    current = get_format(name)
    edits = current.parse(render_change(name), ReplyScope({"a.py"}))
    report = current.apply(edits, {"a.py": BEFORE}.get, ())
    assert report.contents == {"a.py": AFTER}


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_the_instructions_changes_nothing(name: str) -> None:
    instructions = form(name).instructions("```", Sample("a.py", BEFORE))
    _, _, call = instructions.rpartition("\n\n")
    example = call if name.endswith("-func") else instructions
    report = apply(name, Reply(example), {"a.py": BEFORE})
    assert report.results
    assert not report.failures
    assert not report.contents


def test_the_words_of_diff_are_those_of_2023() -> None:
    reply = render_change("diff")
    text = form("diff").instructions("````") + reply.content
    assert "SEARCH" not in text
    assert "REPLACE" not in text
    assert "````\npath/to/file.py\n<<<<<<< ORIGINAL\n" in text
    assert "```\na.py\n<<<<<<< ORIGINAL\n" in text
    assert ">>>>>>> UPDATED\n```\n" in text
    assert form("diff").path_inside
    assert form("diff").name == "diff"
    cut = Reply("```\na.py\n<<<<<<< ORIGINAL\nimport re\n=======\n")
    report = apply("diff", cut, {"a.py": BEFORE})
    assert "`>>>>>>> UPDATED`" in problem(report)


@pytest.mark.parametrize("name", ["whole-func", "diff-func"])
def test_a_rendered_call_fits_the_function_that_is_shown(name: str) -> None:
    (tool,) = form(name).tools
    (current_tool,) = get_format(name).tools
    (call,) = render_change(name).tool_calls
    assert call.name == tool["name"] == current_tool["name"]
    parameters = tool["parameters"]
    validate(json.loads(call.arguments), parameters)
    (several,) = set(parameters["required"]) - {"explanation"}
    item = parameters["properties"][several]["items"]
    assert item["required"] == current_tool["parameters"]["required"]


@pytest.mark.parametrize("text", ["x\ny\n", ["x", "y"], ["x\n", "y\n"]])
def test_texts_are_strings_or_lists_of_lines(text: object) -> None:
    files = [{"path": "a.py", "content": text}]
    call = tool_reply("write_file", {"explanation": "", "files": files})
    report = apply("whole-func", call, {"a.py": "old\n"})
    assert report.contents == {"a.py": "x\ny\n"}
    edits = [{"path": "a.py", "original_lines": text, "updated_lines": "z"}]
    call = tool_reply("replace_lines", {"explanation": "", "edits": edits})
    report = apply("diff-func", call, {"a.py": "x\ny\n"})
    assert report.contents == {"a.py": "z\n"}


@pytest.mark.parametrize("name", ["whole-func", "diff-func"])
def test_a_call_of_an_unknown_function_is_malformed(name: str) -> None:
    (right,) = render_change(name).tool_calls
    unknown = ToolCall("python", "x = 1")
    wrong = Reply("", tool_calls=(right, unknown))
    with pytest.raises(MalformedReplyError, match="no function python"):
        form(name).parse(wrong, ReplyScope({"a.py"}, ("a.py",)))
    current = get_format(name)
    for tools in (current.tools, form(name).tools):
        assert unknown_calls(wrong, tools) == 1
    renamed = Reply("", tool_calls=(ToolCall("edit", right.arguments),))
    for edit in current.parse(renamed, ReplyScope({"a.py"})):
        assert not isinstance(edit, Unreadable)


def test_unknown_calls_are_counted_in_text_where_functions_are_known() -> None:
    text = Reply('{"name": "python", "arguments": "x = 1"}')
    assert unknown_calls(text, get_format("whole-func").tools) == 1
    assert unknown_calls(text, get_format("whole").tools) == 0
    call = tool_reply("write_file", {})
    assert unknown_calls(call, get_format("whole").tools) == 1
