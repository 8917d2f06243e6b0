"""The formats of 2023: what models are told, and that it reads back."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jsonschema import validate

from agent.formats import format_names, get_format
from agent.formats.base import (
    ApplyReport,
    EditFormat,
    MalformedReplyError,
    Notation,
    ReplyScope,
    Unreadable,
)
from agent.formats.reading.calls import unknown_calls
from llm.chat import Reply, ToolCall
from tests.support.formats import can_say
from tests.support.render_edits import render

OLD = Notation.OF_2023
NAMES = format_names(OLD)
BEFORE = "import re\n\n\ndef f(text):\n    pass\n"
AFTER = 'import re\n\n\ndef f(text):\n    """``f``."""\n    return re.sub("=======", "", text)\n'


def form(name: str) -> EditFormat:
    return get_format(name, notation=OLD)


def applied(
    name: str,
    reply: Reply,
    files: Mapping[str, str],
) -> ApplyReport:
    edits = form(name).parse(reply, ReplyScope(frozenset(files), tuple(files)))
    return form(name).apply(edits, files.get, tuple(files))


def test_there_are_four() -> None:
    assert NAMES == ("whole", "diff", "whole-func", "diff-func")
    with pytest.raises(KeyError):
        form("udiff")


def test_the_instructions_show_the_markers_of_2023() -> None:
    instructions = form("diff").instructions("```")
    assert instructions.count("<<<<<<< ORIGINAL") == 4
    assert "SEARCH" not in instructions


_LINES = st.sampled_from(
    [
        *(
            "",
            "    ",
            "x = 1",
            "    return x",
            "```",
            "````",
            "<<<<<<< ORIGINAL",
            "=======",
            "...",
        ),
        *(
            ">>>>>>> UPDATED",
            "<<<<<<< SEARCH",
            "a.py",
            "form\x0cfeed",
            "line\u2028separator",
        ),
    ]
)


@given(
    st.sampled_from(NAMES), st.lists(_LINES, max_size=9), st.lists(_LINES, max_size=9)
)
@settings(max_examples=100)
def test_a_change_is_written_and_read(
    name: str,
    old: list[str],
    new: list[str],
) -> None:
    assume(can_say(name, new))
    before, after = ("".join(f"{line}\n" for line in lines) for lines in (old, new))
    reply = render(form(name), "src/a.py", before, after)
    report = applied(name, reply, {"src/a.py": before})
    assert not report.failures, reply
    assert report.contents.get("src/a.py", before) == after, reply


@pytest.mark.parametrize("name", NAMES)
def test_the_current_formats_read_the_notation_of_2023(name: str) -> None:
    reply = render(form(name), "a.py", BEFORE, AFTER)
    current = get_format(name)
    edits = current.parse(reply, ReplyScope({"a.py"}))
    assert current.apply(edits, {"a.py": BEFORE}.get, ()).contents == {"a.py": AFTER}


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_the_instructions_reads_back(name: str) -> None:
    text = form(name).instructions("```")
    example = text[text.index("Example.") :]
    sentence, _, call = example.partition("\n\n")
    files = {
        "app/hello.py": 'import sys\n\n\ndef greet(name):\n    print("Hello " + name)\n'
    }
    report = applied(name, Reply(call if "call:" in sentence else example), files)
    assert report.contents
    assert not report.failures
    assert ".title()" in "".join(filter(None, report.contents.values()))


def test_the_words_of_diff_are_those_of_2023() -> None:
    text = (
        form("diff").instructions("````")
        + render(form("diff"), "a.py", BEFORE, AFTER).content
    )
    assert "SEARCH" not in text
    assert "REPLACE" not in text
    assert "````\napp/hello.py\n<<<<<<< ORIGINAL\n" in text
    assert "```\na.py\n<<<<<<< ORIGINAL\n" in text
    assert ">>>>>>> UPDATED\n```\n" in text
    assert form("diff").path_inside
    assert form("diff").name == "diff"
    cut = Reply("```\na.py\n<<<<<<< ORIGINAL\nimport re\n=======\n")
    (failed,) = applied("diff", cut, {"a.py": BEFORE}).failures
    assert "`>>>>>>> UPDATED`" in failed.problem


@pytest.mark.parametrize("name", ["whole-func", "diff-func"])
def test_a_rendered_call_fits_the_function_that_is_shown(name: str) -> None:
    (tool,) = form(name).tools
    (call,) = render(form(name), "a.py", BEFORE, AFTER).tool_calls
    assert call.name == tool["name"] == get_format(name).tools[0]["name"]
    validate(json.loads(call.arguments), tool["parameters"])
    (several,) = set(tool["parameters"]["required"]) - {"explanation"}
    item = tool["parameters"]["properties"][several]["items"]
    plain = get_format(name).tools[0]["parameters"]
    assert item["required"] == plain["required"]


@pytest.mark.parametrize("text", ["x\ny\n", ["x", "y"], ["x\n", "y\n"]])
def test_texts_are_strings_or_lists_of_lines(text: object) -> None:
    arguments = {"explanation": "", "files": [{"path": "a.py", "content": text}]}
    call = ToolCall("write_file", json.dumps(arguments))
    report = applied("whole-func", Reply("", tool_calls=(call,)), {"a.py": "old\n"})
    assert report.contents == {"a.py": "x\ny\n"}
    edits = [{"path": "a.py", "original_lines": text, "updated_lines": "z"}]
    call = ToolCall("replace_lines", json.dumps({"explanation": "", "edits": edits}))
    report = applied("diff-func", Reply("", tool_calls=(call,)), {"a.py": "x\ny\n"})
    assert report.contents == {"a.py": "z\n"}


@pytest.mark.parametrize("name", ["whole-func", "diff-func"])
def test_a_call_of_an_unknown_function_is_malformed(name: str) -> None:
    good = render(form(name), "a.py", BEFORE, AFTER).tool_calls
    wrong = Reply("", tool_calls=(*good, ToolCall("python", "x = 1")))
    with pytest.raises(MalformedReplyError, match="no function python"):
        form(name).parse(wrong, ReplyScope({"a.py"}, ("a.py",)))
    current = get_format(name)
    assert (
        unknown_calls(wrong, current.tools)
        == unknown_calls(wrong, form(name).tools)
        == 1
    )
    understood = current.parse(
        Reply("", tool_calls=(ToolCall("edit", good[0].arguments),)),
        ReplyScope({"a.py"}),
    )
    assert not any(isinstance(edit, Unreadable) for edit in understood)


def test_unknown_calls_are_counted_in_text_where_functions_are_known() -> None:
    text = Reply('{"name": "python", "arguments": "x = 1"}')
    assert unknown_calls(text, get_format("whole-func").tools) == 1
    assert unknown_calls(text, get_format("whole").tools) == 0
    called = Reply("", tool_calls=(ToolCall("write_file", "{}"),))
    assert unknown_calls(called, get_format("whole").tools) == 1
