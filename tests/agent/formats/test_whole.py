"""Whole files in fences."""

from __future__ import annotations

import pytest

from swe_retry.agent.formats import get_format
from swe_retry.agent.formats.edits import Unreadable, WholeFile
from tests.support.formats import apply, parse, problem


def test_files_with_prose_and_unnamed_fences_between() -> None:
    unnamed = "I do this:\n\n```\nnot a file\n```\n\n"
    reply = unnamed + "a.py\n```python\nx = 1\n```\n\n**b.py**\n\n```\ny\n```\n"
    assert parse("whole", reply) == (
        WholeFile("a.py", "x = 1\n"),
        WholeFile("b.py", "y\n"),
    )


def test_names_at_and_inside_the_fence() -> None:
    for opening in ("```python a.py\n", "```python:a.py\n", "```\na.py\n"):
        assert parse("whole", f"Text.\n{opening}x\n```\n", ["a.py"]) == (
            WholeFile("a.py", "x\n"),
        )


def test_a_name_with_folders_missing_or_too_many() -> None:
    reply = "`{}`\n```\nx\n```\n"
    files = ["src/pkg/a.py", "src/b.py"]
    for name in ("pkg/a.py", "a.py", "path/to/src/pkg/a.py", "/testbed/src/pkg/a.py"):
        (edit,) = parse("whole", reply.format(name), files, ["src/pkg/a.py"])
        assert edit.path == "src/pkg/a.py", name


@pytest.mark.parametrize(
    ("name", "existing"),
    [
        ("tests/utils/__init__.py", "src/pkg/utils/__init__.py"),
        ("conftest.py", "tests/conftest.py"),
        ("other/a.py", "a.py"),
        ("tests/utils/__init__.py", "utils/__init__.py"),
        ("src/new/pkg/a.py", "src/pkg/a.py"),
    ],
)
def test_a_new_file_is_no_file_with_a_name_like_its_own(
    name: str, existing: str
) -> None:
    (edit,) = parse("whole", f"{name}\n```\nx\n```\n", [existing])
    assert edit.path == name


@pytest.mark.parametrize(
    "reply",
    [
        "Then run the tests in `tests/test_a.py`:\n```bash\npytest tests/test_a.py\n```\n",
        "This is what went wrong in tests/test_a.py:\n\n```\nTraceback\n```\n",
        "As tests/test_a.py says.\n```\nx\n```\n",
    ],
)
def test_prose_that_names_a_file_writes_none(reply: str) -> None:
    assert parse("whole", reply, ["tests/test_a.py"]) == ()


def test_bare_fences_in_a_text_do_not_cut_it() -> None:
    text = "# T\n\n```\npip\n```\n\nmore\n"
    reply = f"docs/a.md\n```\n{text}```\n\nb.py\n```\ny\n```\n"
    assert parse("whole", reply) == (
        WholeFile("docs/a.md", text),
        WholeFile("b.py", "y\n"),
    )


def test_a_fence_inside_a_file_does_not_cut_it() -> None:
    reply = "README.md\n````\nuse:\n```sh\nmake\n```\n````\n"
    assert parse("whole", reply) == (
        WholeFile("README.md", "use:\n```sh\nmake\n```\n"),
    )
    nested = "README.md\n```\nuse:\n```sh\nmake\n```\nend\n```\n"
    assert parse("whole", nested) == (
        WholeFile("README.md", "use:\n```sh\nmake\n```\nend\n"),
    )


def test_bare_fences_in_a_docstring_do_not_cut_it() -> None:
    text = 'def f():\n    """Example:\n\n```\nf()\n```\n    """\n    return 1\n'
    assert parse("whole", f"a.py\n```\n{text}```\nDone.\n") == (
        WholeFile("a.py", text),
    )


def test_a_file_that_is_not_closed_is_refused_and_the_others_apply() -> None:
    reply = "b.py\n```\ny\n```\na.py\n```python\nx = 1\n"
    report = apply("whole", reply, {"a.py": "x\n"})
    assert report.contents == {"b.py": "y\n"}
    assert "a.py is not complete" in problem(report)
    assert isinstance(parse("whole", reply)[1], Unreadable)


def test_the_last_one_of_a_name_wins() -> None:
    reply = "a.py\n```\n1\n```\na.py\n```\n2\n```\n"
    assert apply("whole", reply, {}).contents == {"a.py": "2\n"}


def test_emptying_a_file_and_keeping_its_missing_newline() -> None:
    assert apply("whole", "a.py\n```\n```\n", {"a.py": "x\n"}).contents == {"a.py": ""}
    assert apply("whole", "a.py\n```\ny\n```\n", {"a.py": "x"}).contents == {
        "a.py": "y"
    }


def test_join_when_the_reply_goes_on_inside_the_fence() -> None:
    edit_format = get_format("whole")
    assert edit_format.join("a.py\n```\nx\n", "y\n```\n") == "a.py\n```\nx\ny\n```\n"
    for new in (
        "a.py\n```\nx\ny\n```\n",
        "Here it is:\n\na.py\n```\nx\n```\n",
        "Sorry, which?\n",
    ):
        assert edit_format.join("a.py\n```python\nx\n", new) == new
    again = "a.py\n```python\nx\ny\n```\n"
    assert edit_format.join("a.py\n```python\nx\n", again) == again


def test_a_file_that_an_unclosed_fence_hides_is_reported() -> None:
    patch = (
        "*** Begin Patch\n*** Update File: a.py\n@@\n-x = 1\n+x = 2\n*** End Patch\n"
    )
    reply = f"First:\n```\nmake\n\n{patch}\nnew.py\n```python\ndef g():\n    return 2\n```\n"
    edit, lost = parse("whole", reply, ["a.py"])
    assert edit.path == "a.py"
    assert isinstance(lost, Unreadable)
    assert lost.path == "new.py"
