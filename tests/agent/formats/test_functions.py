"""Edits as function calls: whole, repaired, or explained."""

from __future__ import annotations

import json

import pytest

from swe_retry.agent.formats import get_format
from swe_retry.llm.chat import Reply, ToolCall
from tests.support.formats import apply, problem, tool_reply


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "a.py", "content": "x = 1\ny\n"},
        {"file_path": "./a.py", "contents": "x = 1\ny\n"},
        {"filename": "a.py", "content": ["x = 1", "y"]},
        {"explanation": "so", "files": [{"path": "a.py", "content": "x = 1\ny\n"}]},
        '{"path": "a.py", "content": "x = 1\ny\n"}',
        '{"path": "a.py", "content": "x = 1\\ny\\n",}',
        '{"path": "a.py", "content": "x = 1\\ny\\n"',
        "{'path': 'a.py', 'content': 'x = 1\\ny\\n'}",
    ],
)
def test_write_file_in_every_dress(arguments: object) -> None:
    report = apply("whole-func", tool_reply("write_file", arguments), {"a.py": "old\n"})
    assert report.contents == {"a.py": "x = 1\ny\n"}


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "a.py", "original_lines": "b\n", "updated_lines": "B\n"},
        {"path": "a.py", "original_lines": ["b"], "updated_lines": ["B"]},
        {"file": "a.py", "search": "b", "replace": "B"},
        {"path": "a.py", "edits": [{"original_lines": "b", "updated_lines": "B"}]},
        {
            "edits": [
                {"path": "a.py", "original_lines": ["b\n"], "updated_lines": ["B\n"]}
            ]
        },
    ],
)
def test_replace_lines_in_every_dress(arguments: object) -> None:
    report = apply(
        "diff-func", tool_reply("replace_lines", arguments), {"a.py": "a\nb\n"}
    )
    assert report.contents == {"a.py": "a\nB\n"}


@pytest.mark.parametrize(
    "cut",
    [
        '{"path": "a.py", "content": "x = 1\\ny',
        '{"path": "a.py", "content":',
        '{"path": "a.py",',
        '{"path":"a.py","content":"d = {"a": 1, "b": 2}\\nprint(d)\\n"}',
        '{"path":"a.py","content":["x = 1","y = 2"',
        "{'path':'a.py','content':'x = 1\\ny = 2",
        '{"path":"a.py","content":`x\ny`}',
        "",
    ],
)
def test_a_call_that_ends_in_the_middle_writes_nothing(cut: str) -> None:
    report = apply("whole-func", tool_reply("write_file", cut), {"a.py": "old\n"})
    assert report.contents == {}
    assert "write_file" in problem(report)


def test_python_with_raw_code_is_the_one_file_of_the_chat() -> None:
    code = "x = 1\ny = 2\n"
    reply = tool_reply("python", code)
    files = {"a.py": "old\n", "b.py": "b\n"}
    report = apply("whole-func", reply, files, chat=["a.py"])
    assert report.contents == {"a.py": code}
    report = apply("whole-func", reply, files, chat=["a.py", "b.py"])
    assert "several files" in problem(report)
    report = apply("diff-func", reply, files, chat=["a.py"])
    assert "replace_lines" in problem(report)


@pytest.mark.parametrize(
    ("form", "name", "arguments", "reason"),
    [
        ("whole-func", "write_file", {"content": "x"}, "no `path`"),
        ("whole-func", "write_file", {"path": "a.py"}, "no `content`"),
        (
            "diff-func",
            "replace_lines",
            {"path": "a.py", "updated_lines": "x"},
            "`original_lines`",
        ),
        (
            "diff-func",
            "replace_lines",
            {"path": "a.py", "original_lines": "x"},
            "`updated_lines`",
        ),
        ("whole-func", "search_web", {"query": "x"}, "no function search_web"),
        ("whole-func", "write_file", "[1, 2]", "not a JSON object"),
        ("whole-func", "write_file", {"files": ["a.py"]}, "not an object"),
    ],
)
def test_what_cannot_be_read_is_explained(
    form: str, name: str, arguments: object, reason: str
) -> None:
    report = apply(form, tool_reply(name, arguments), {"a.py": "x\n"})
    assert report.contents == {}
    assert reason in problem(report)


def test_a_call_that_the_text_spells_out() -> None:
    arguments = {"path": "a.py", "content": "x\n"}
    spelled_out = {"name": "write_file", "arguments": arguments}
    line = json.dumps(spelled_out)
    block = f"```json\n{json.dumps(spelled_out, indent=1)}\n```"
    for text in (line, block):
        report = apply("whole-func", text, {})
        assert report.contents == {"a.py": "x\n"}
    assert apply("whole-func", "I would change a.py.", {}).results == ()


def test_several_calls_apply_one_by_one() -> None:
    good = ToolCall("write_file", '{"path": "a.py", "content": "x\\n"}')
    bad = ToolCall("write_file", '{"path": "b.py"}')
    report = apply("whole-func", Reply("", tool_calls=(bad, good)), {})
    assert report.contents == {"a.py": "x\n"}
    assert [result.applied for result in report.results] == [False, True]


def test_the_tools_are_described_to_the_model() -> None:
    (tool,) = get_format("whole-func").tools
    assert tool["name"] == "write_file"
    assert tool["parameters"]["required"] == ["path", "content"]
    (tool,) = get_format("diff-func").tools
    assert tool["parameters"]["required"] == ["path", "original_lines", "updated_lines"]
    assert get_format("diff").tools == ()
