"""Complete files in fences, with and without their names, in every format."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from swe_retry.agent.formats import format_names, get_format
from swe_retry.agent.formats.edits import Unreadable, WholeFile
from swe_retry.agent.formats.protocol import Matching, ReplyScope, Sample
from swe_retry.llm.chat import Reply
from tests.support.formats import FENCE, apply, block, fenced, parse, tool_reply

STUB = "import re\n\n\ndef f(text):\n    pass\n\n\ndef g():\n    return 1\n"
SOLVED = STUB.replace("pass", "return re.sub('a', 'b', text)")
ONE_FUNCTION = "def f(text):\n    return 1\n"
ONE = {"f.py": STUB}
TWO = {"f.py": STUB, "h.py": "def h():\n    pass\n"}
IN_PYTHON = f"{FENCE}python\n{SOLVED}{FENCE}\n"
COMPLETE: Mapping[str, str] = {
    "under its name": fenced("f.py", SOLVED),
    "with its name inside": f"{FENCE}python\nf.py\n{SOLVED}{FENCE}\n",
    "under a sentence": f"Here is the updated `f.py`:\n\n{IN_PYTHON}",
    "without a name": f"I use re.\n\n{IN_PYTHON}\nIt replaces.\n",
    "without a name and a language": f"Yes:\n\n{FENCE}\n{SOLVED}{FENCE}\n",
    "before an example": f"{IN_PYTHON}\nSo:\n\n{FENCE}python\nf('a')\n{FENCE}\n",
    "after the old text": f"Now:\n\n{FENCE}python\n{STUB}{FENCE}\n\nThen:\n\n{IN_PYTHON}",
}


@pytest.mark.parametrize("name", COMPLETE)
@pytest.mark.parametrize("form", format_names())
def test_a_complete_file_is_read_in_every_format(form: str, name: str) -> None:
    report = apply(form, COMPLETE[name], ONE, chat=("f.py",))
    assert not report.failures
    assert report.contents == {"f.py": SOLVED}


@pytest.mark.parametrize("name", COMPLETE)
@pytest.mark.parametrize("form", format_names())
def test_it_is_told_from_other_files_by_its_definitions(form: str, name: str) -> None:
    report = apply(form, COMPLETE[name], TWO, chat=tuple(TWO))
    assert not report.failures
    assert report.contents == {"f.py": SOLVED}


PARTS = {
    "one function": ONE_FUNCTION,
    "a call of the rest": f"{ONE_FUNCTION}\n\ng()\n",
    "an elision": SOLVED.replace("    return 1\n", "    # ... existing code ...\n"),
    "an open end": f"{SOLVED}\n...\n",
}


@pytest.mark.parametrize("name", ["one function", "a call of the rest"])
@pytest.mark.parametrize("form", ["diff", "diff-fenced", "udiff", "patch", "diff-func"])
def test_a_part_of_a_file_is_not_the_file(form: str, name: str) -> None:
    report = apply(form, fenced("f.py", PARTS[name]), ONE, chat=("f.py",))
    assert report.contents == {}
    assert len(report.failures) == 1
    assert "def f(text):" in report.failures[0].problem
    unnamed = f"{FENCE}python\n{PARTS[name]}{FENCE}\n"
    assert apply(form, unnamed, ONE, chat=("f.py",)).contents == {}


@pytest.mark.parametrize("form", ["diff", "udiff"])
def test_a_file_with_an_elision_is_refused(form: str) -> None:
    text = STUB + "\n\ndef h():\n    a = 1\n    b = 2\n    return a + b\n"
    content = STUB + "\n\ndef h():\n    # ... existing code ...\n"
    report = apply(form, fenced("f.py", content), {"f.py": text}, chat=("f.py",))
    assert report.contents == {}
    assert len(report.failures) == 1


def test_a_file_that_was_not_shown_is_not_read_in_full() -> None:
    report = apply("diff", fenced("h.py", "def h():\n    return 1\n"), TWO, ("f.py",))
    assert report.contents == {}
    assert [failure.path for failure in report.failures] == ["h.py"]


def test_files_beside_blocks_are_written() -> None:
    new = "def h():\n    return 2\n"
    reply = block("f.py", "    pass\n", "    return 0\n") + "\n" + fenced("h.py", new)
    report = apply("diff", reply, TWO, chat=tuple(TWO))
    assert not report.failures
    assert report.contents == {
        "f.py": STUB.replace("pass", "return 0"),
        "h.py": new,
    }


def test_files_without_names_are_told_apart() -> None:
    new = "def h():\n    return 2\n"
    for first, second in ((SOLVED, new), (new, SOLVED)):
        reply = f"{FENCE}python\n{first}{FENCE}\n\n{FENCE}python\n{second}{FENCE}\n"
        for form in ("whole", "diff"):
            report = apply(form, reply, TWO, chat=tuple(TWO))
            assert report.contents == {"f.py": SOLVED, "h.py": new}
    mixed = f"{fenced('f.py', SOLVED)}\n\nand\n\n{FENCE}python\n{new}{FENCE}\n"
    assert apply("whole", mixed, TWO, chat=tuple(TWO)).contents.keys() == TWO.keys()


UNDECIDED = {
    "two files that define it": ({"f.py": ONE_FUNCTION, "h.py": ONE_FUNCTION}, SOLVED),
    "a file without definitions": ({"f.py": STUB, "h.py": ""}, SOLVED),
    "a part": (TWO, ONE_FUNCTION),
    "another language": ({"f.py": STUB, "h.js": "function h() {}\n"}, "g();\n"),
}


@pytest.mark.parametrize("name", UNDECIDED)
def test_a_fence_that_may_be_several_files_is_none(name: str) -> None:
    files, content = UNDECIDED[name]
    reply = f"{FENCE}python\n{content}{FENCE}\n"
    (edit,) = parse("whole", reply, tuple(files), tuple(files), files)
    assert isinstance(edit, Unreadable)
    assert f"You were shown {', '.join(files)}." in edit.problem
    assert parse("diff", reply, tuple(files), tuple(files), files) == ()


def test_a_file_without_definitions_has_its_ends() -> None:
    text = "[a]\nx = 1\n\n[b]\ny = 2\n"
    changed = text.replace("x = 1", "x = 3")
    for content, contents in ((changed, {"a.cfg": changed}), ("[b]\ny = 3\n", {})):
        reply = fenced("a.cfg", content)
        assert apply("diff", reply, {"a.cfg": text}, ("a.cfg",)).contents == contents


def test_an_open_fence_of_a_shown_file_is_reported() -> None:
    reply = f"f.py\n{FENCE}python\n{SOLVED}"
    (failure,) = apply("diff", reply, ONE, chat=("f.py",)).failures
    assert "f.py is not complete" in failure.problem


NAMELESS = {
    "diff": block("", "    pass\n", "    return 0\n"),
    "a block without a fence": block("", "    pass\n", "    return 0\n")
    .replace(f"{FENCE}python\n", "")
    .replace(FENCE, ""),
    "udiff": f"{FENCE}diff\n@@ @@\n def f(text):\n-    pass\n+    return 0\n{FENCE}\n",
    "two fences": f"Before:\n{FENCE}python\n    pass\n{FENCE}\nAfter:\n{FENCE}python\n"
    f"    return 0\n{FENCE}\n",
}


@pytest.mark.parametrize("name", NAMELESS)
@pytest.mark.parametrize("form", format_names())
def test_an_edit_without_a_name_belongs_to_the_only_file(form: str, name: str) -> None:
    report = apply(form, NAMELESS[name], ONE, chat=("f.py",))
    assert report.contents == {"f.py": STUB.replace("pass", "return 0")}
    report = apply(form, NAMELESS[name], TWO, chat=tuple(TWO))
    assert report.contents == {}
    assert report.failures


@pytest.mark.parametrize(
    ("form", "name", "arguments"),
    [
        ("whole-func", "write_file", {"content": SOLVED}),
        (
            "diff-func",
            "replace_lines",
            {"original_lines": STUB, "updated_lines": SOLVED},
        ),
    ],
)
def test_a_call_without_a_path_means_the_only_file(
    form: str, name: str, arguments: Mapping[str, str]
) -> None:
    reply = tool_reply(name, arguments)
    assert apply(form, reply, ONE, chat=("f.py",)).contents == {"f.py": SOLVED}
    assert apply(form, reply, TWO, chat=tuple(TWO)).contents == {}


SAMPLES = {
    "code": STUB,
    "a long file": "".join(f"def f{number}():\n    pass\n" for number in range(99)),
    "one line": "x = 1\n",
    "lines that are alike": "a\na\nb\n",
    "no newline at its end": "def f():\n    return 1",
    "fences": "'''\n````\n'''\nx = 1\n",
    "markup": "<b>{{ x }}</b> & \"'\n",
}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("form", format_names())
def test_a_copied_example_changes_nothing(form: str, name: str) -> None:
    text = SAMPLES[name]
    instructions = get_format(form).instructions("`````", Sample("f.py", text))
    _, _, call = instructions.rpartition("\n\n")
    example = call if form.endswith("-func") else instructions
    report = apply(form, example, {"f.py": text}, chat=("f.py",))
    assert report.contents == {}
    if form in ("whole", "whole-func") and name == "a long file":
        (failure,) = report.failures
        assert "only a part of the file" in failure.problem
    else:
        assert not report.failures
        assert report.results


def test_an_example_has_a_line_that_failed() -> None:
    content = "def g():\n    return 2\n"
    (edit,) = parse("diff", fenced("f.py", content), ("f.py",), ("f.py",), ONE)
    assert isinstance(edit, Unreadable)
    assert block("f.py", "def g():\n", "def g():\n").strip() in edit.problem


def test_the_reference_matching_reads_blocks_alone() -> None:
    form = get_format("diff", Matching.REFERENCE)
    scope = ReplyScope(frozenset(ONE), tuple(ONE), ONE.get)
    assert form.parse(Reply(COMPLETE["under its name"]), scope) == ()


def test_a_whole_file_of_a_shown_file_is_as_before() -> None:
    edits = parse("whole", fenced("f.py", ONE_FUNCTION), ("f.py",), ("f.py",), ONE)
    assert edits == (WholeFile("f.py", ONE_FUNCTION),)
