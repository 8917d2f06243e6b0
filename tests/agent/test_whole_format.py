from __future__ import annotations

import pytest

from agent.formats.base import MalformedReplyError
from agent.formats.whole import WholeFile, WholeFormat

FORMAT = WholeFormat()


def test_files_with_prose_and_unnamed_fences_between() -> None:
    unnamed = "I do this:\n\n```\nnot a file\n```\n\n"
    reply = unnamed + "a.py\n```python\nx = 1\n```\n\n**b.py**\n\n```\ny\n```\n"
    assert FORMAT.parse(reply, set()) == (WholeFile("a.py", "x = 1\n"), WholeFile("b.py", "y\n"))


def test_a_fence_inside_a_file_does_not_cut_it() -> None:
    reply = "README.md\n````\nuse:\n```sh\nmake\n```\n````\n"
    assert FORMAT.parse(reply, set()) == (WholeFile("README.md", "use:\n```sh\nmake\n```\n"),)
    nested = "README.md\n```\nuse:\n```sh\nmake\n```\nend\n```\n"
    assert FORMAT.parse(nested, set())[0].content == "use:\n```sh\nmake\n```\nend\n"


def test_an_unclosed_file_is_refused() -> None:
    with pytest.raises(MalformedReplyError, match=r"a\.py is not complete"):
        FORMAT.parse("a.py\n```python\nx = 1\n", set())


def test_apply_takes_the_contents_over() -> None:
    edits = [WholeFile("a.py", "1\n"), WholeFile("a.py", "2\n")]
    assert FORMAT.apply(edits, {}.get, ()).contents == {"a.py": "2\n"}


def test_join_when_the_reply_goes_on_inside_the_fence() -> None:
    assert FORMAT.join("a.py\n```\nx\n", "y\n```\n") == "a.py\n```\nx\ny\n```\n"
    again = "a.py\n```python\nx\ny\n```\n"
    assert FORMAT.join("a.py\n```python\nx\n", again) == again
