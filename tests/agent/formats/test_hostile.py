"""Replies that once crashed a run, gave a wrong report, or took too much time."""

from __future__ import annotations

import cProfile
import json
import pstats
import resource
import sys
from collections import Counter
from pathlib import Path
from typing import Any, SupportsIndex

import pytest

from swe_retry.agent.formats import format_names, get_format
from swe_retry.agent.formats.apply import MAX_EDITS
from swe_retry.agent.formats.edits import SearchReplace, Unreadable
from swe_retry.agent.formats.protocol import Matching, ReplyScope
from swe_retry.agent.formats.reading import listings
from swe_retry.agent.formats.reading.answer import answer_of
from swe_retry.agent.formats.reference import _split_at_dots
from swe_retry.agent.formats.report import feedback
from swe_retry.agent.lint.compilers import InterpreterCompiler
from swe_retry.agent.lint.findings import Change
from swe_retry.agent.lint.linter import Linter
from swe_retry.agent.mentions import FileIndex
from swe_retry.llm.chat import Message, Reply, ToolCall
from swe_retry.llm.messages import messages_as_sent
from tests.support.formats import apply, block, parse


def test_a_hunk_with_a_number_of_thousands_of_digits() -> None:
    reply = f"--- a/a.py\n+++ b/a.py\n@@ -{'9' * 5000} +1 @@\n-x\n+y\n"
    assert apply("udiff", reply, {"a.py": "x\n"}).contents == {"a.py": "y\n"}


@pytest.mark.parametrize(
    "arguments",
    [
        "{[]: 1}",
        "[" * 100_000,
        '{"a":' * 50_000,
        "-" * 50_000 + "1",
        '{"path": "\\ud800", "content": "x"}',
    ],
)
@pytest.mark.parametrize("form", ["whole-func", "diff-func"])
def test_arguments_that_are_no_json(form: str, arguments: str) -> None:
    (tool,) = get_format(form).tools
    call = ToolCall(tool["name"], arguments)
    apply(form, Reply("", tool_calls=(call,)), {})
    (sent,) = messages_as_sent([Message("assistant", "", (call,))])
    json.loads(sent["tool_calls"][0]["function"]["arguments"])


def test_an_edit_that_is_a_deep_list() -> None:
    deep = "[" * 900 + "]" * 900
    call = ToolCall("write_file", f'{{"path": "a.py", "files": [{deep}]}}')
    assert apply("whole-func", Reply("", tool_calls=(call,)), {}).failures


def test_a_block_with_thousands_of_dividers_has_few_readings() -> None:
    reply = block("a.py", "=======\n" * 5_000, "x\n")
    (edit,) = parse("diff", reply, ["a.py"])
    assert isinstance(edit, SearchReplace)
    assert len(edit.readings) < 20


@pytest.mark.parametrize("matching", Matching)
def test_edits_beyond_the_limit_are_reported_as_not_tried(matching: Matching) -> None:
    reply = ""
    text = ""
    for number in range(MAX_EDITS + 7):
        line = f"x{number}\n"
        text += line
        reply += block("a.py", line, f"y{number}\n")
    edit_format = get_format("diff", matching)
    edits = edit_format.parse(Reply(reply), ReplyScope({"a.py"}))
    report = edit_format.apply(edits, {"a.py": text}.get, ())
    assert len(report.failures) == 7
    assert "was not tried" in feedback(report)
    assert f"y{MAX_EDITS - 1}\nx{MAX_EDITS}\n" in (report.contents["a.py"] or "")


def test_long_lines_are_not_reported_in_full() -> None:
    reply = block("a.py", "x" * 1_000_000 + "\n", "y\n")
    report = apply("diff", reply, {"a.py": "z" * 1_000_000})
    assert report.failures
    assert len(feedback(report)) < 10_000


def test_a_long_search_in_a_file_of_equal_lines_is_ambiguous() -> None:
    reply = block("a.py", "x\n" * 4_000, "y\n")
    report = apply("diff", reply, {"a.py": "x\n" * 10_000})
    assert "places" in report.failures[0].problem


@pytest.mark.parametrize("form", format_names())
@pytest.mark.parametrize(
    "unit", ["../", "a/", "`", "\n", "= ", "append ", ". .\n", "@@ \n", "\0"]
)
def test_runs_of_one_thing_are_read(form: str, unit: str) -> None:
    text = unit * 20_000
    reply = Reply(text, tool_calls=(ToolCall("f", text),))
    apply(form, reply, {"a.py": "x\n"})
    assert FileIndex(["a.py"]).mentioned_files(text) == ()


def test_dots_are_split_as_the_reference_splits_them() -> None:
    text = "a\n\n  ...\nb\n \n...\n...\n.... \nc\n\n"
    assert _split_at_dots(text) == [
        "a\n",
        "\n  ...\n",
        "b\n",
        " \n...\n",
        "",
        "...\n",
        ".... \nc\n\n",
    ]


_NESTED = ""
for indent in range(17):
    blanks = " " * indent
    _NESTED += f"{blanks}try: pass\n{blanks}finally:\n"
_NESTED += " " * 17 + "x = 1\n"
_WAYS_OUT = (
    "def f(x):\n  try:\n"
    + "    if x: return 1\n" * 20_000
    + "  finally:\n"
    + "    with x: pass\n" * 2_000
)


@pytest.mark.parametrize(
    "text", [_NESTED + "y = 1\n" * 1_000, _WAYS_OUT], ids=["nested", "returns"]
)
def test_code_that_explodes_when_compiled_does_not_take_the_memory(text: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    change = Change("a.py", "x = 1\n", text)
    for finding in Linter().new_findings([change]):
        assert "cannot be compiled" in finding.problem
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after - before < 200_000, "kilobytes; it is compiled in a process of its own"
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 2_200_000


def test_a_cookie_of_a_codec_that_is_none() -> None:
    linter = Linter(InterpreterCompiler(Path(sys.executable)))
    change = Change("a.py", None, "# coding: rot13\nx = 1\n")
    (finding,) = linter.new_findings([change])
    assert "not a text encoding" in finding.problem


@pytest.mark.parametrize(
    "text", ["\n" * 200_000 + "(", "# " + "#" * 200_000, "{{a|" * 50_000]
)
def test_marks_of_templates_are_looked_for_in_linear_time(text: str) -> None:
    change = Change("a.py", None, text)
    assert len(Linter().new_findings([change])) <= 1


def test_lone_surrogates_are_not_sent() -> None:
    call = ToolCall("write_file", '{"path": "\ud800"}')
    messages = [
        Message("user", "a\ud800"),
        Message("assistant", "b\udfff", (call,)),
        Message("user", "c"),
    ]
    sent = messages_as_sent(messages)
    assert str(sent).encode().count(b"?") == 3


def test_the_search_for_a_closing_fence_parses_a_bounded_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lengths: list[int] = []

    def record_length(_path: str, text: str) -> bool:
        lengths.append(len(text))
        return True

    monkeypatch.setattr(listings, "has_errors", record_length)
    unit = "(" * 400 + "\n```\n"
    for count in (25, 100):
        files = [f"a{number}.py\n```python\n{unit * 20}" for number in range(count)]
        lengths.clear()
        parse("whole", "".join(files))
        assert 0 < sum(lengths) <= listings.MAX_PARSED


def test_markers_are_measured_once_for_each_reading() -> None:
    lines = [f"x{number}\n=======\n" for number in range(4_000)]
    reply = "a.py\n<<<<<<< SEARCH\n" + "".join(lines) + ">>>>>>> REPLACE\n"
    profile = cProfile.Profile()
    profile.runcall(parse, "diff", reply, ["a.py"])
    calls: Counter[str] = Counter()
    stats: dict[Any, Any] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    for (_, _, name), (count, *_) in stats.items():
        calls[name] += count
    assert 0 < calls["marker_size"] < 30 * 8_000


class CountedText(str):
    """Counts the characters that are copied or searched backwards."""

    read = 0

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        part = super().__getitem__(key)
        CountedText.read += len(part)
        return part

    def rfind(self, *arguments: Any) -> int:
        CountedText.read += len(self)
        return super().rfind(*arguments)


@pytest.mark.parametrize("unit", ["<think>", "</think>", "x <think>", "[THINK]\n"])
def test_tags_are_read_in_linear_time(unit: str) -> None:
    text = CountedText(unit * 2_000)
    CountedText.read = 0
    answer_of(text)
    assert 0 < CountedText.read < 3 * len(text)


def test_long_code_without_a_fence_is_not_parsed() -> None:
    line = "x = 1\n"
    (short,) = parse("udiff", f"a.py\n{line * 2}", ["a.py"])
    assert isinstance(short, Unreadable)
    enough = listings.MAX_PARSED // len(line) + 1
    assert not parse("udiff", f"a.py\n{line * enough}", ["a.py"])
