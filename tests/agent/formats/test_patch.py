"""V4A patches: every action, with the prose and errors of models."""

from __future__ import annotations

import pytest

from agent.formats.base import WholeFile
from tests.support.formats import apply, parse, problem

CLASS = "class A:\n    def f(self):\n        return 1\n\n    def g(self):\n        return 1\n"


def patch(body: str) -> str:
    return f"*** Begin Patch\n{body}*** End Patch\n"


def test_all_actions_in_one_patch() -> None:
    reply = "Here it is:\n\n" + patch(
        "*** Add File: new.py\n+x = 1\n+\n+y = 2\n"
        "*** Update File: a.py\n@@\n-a\n+A\n"
        "*** Delete File: old.py\n"
    )
    report = apply("patch", reply, {"a.py": "a\n", "old.py": "o\n"})
    assert report.contents == {
        "new.py": "x = 1\n\ny = 2\n",
        "a.py": "A\n",
        "old.py": None,
    }


@pytest.mark.parametrize(
    "reply",
    [
        "```\n*** Begin Patch\n*** Update File: a.py\n@@\n-a\n+A\n*** End Patch\n```\n",
        "```patch\n*** Update File: a.py\n@@\n-a\n+A\n```\nDone.\n",
        "*** Update File: `a.py`\n-a\n+A\n",
        "*** Begin Patch\r\n*** Update File: a.py\r\n@@\r\n-a\r\n+A",
    ],
)
def test_what_may_be_missing_around(reply: str) -> None:
    assert apply("patch", reply, {"a.py": "a\n"}).contents == {"a.py": "A\n"}


def test_moving_a_file_with_and_without_a_change() -> None:
    reply = patch("*** Update File: a.py\n*** Move to: b/c.py\n@@\n-a\n+A\n")
    report = apply("patch", reply, {"a.py": "a\n"})
    assert report.contents == {"a.py": None, "b/c.py": "A\n"}
    assert report.moved == {"b/c.py": "a.py"}
    plain = patch("*** Update File: a.py\n*** Move to: b.py\n")
    assert apply("patch", plain, {"a.py": "a\n"}).contents == {
        "a.py": None,
        "b.py": "a\n",
    }
    taken = apply("patch", plain, {"a.py": "a\n", "b.py": "b\n"})
    assert taken.contents == {}
    assert "is there already" in problem(taken)


@pytest.mark.parametrize(
    "header", ["@@ def g(self):", "@@     def g(self):", "@@ class A:\n@@ def g"]
)
def test_headers_settle_the_place(header: str) -> None:
    reply = patch(
        f"*** Update File: a.py\n{header}\n-        return 1\n+        return 2\n"
    )
    changed = apply("patch", reply, {"a.py": CLASS}).contents["a.py"]
    assert changed == CLASS[: -len("1\n")] + "2\n"


def test_without_a_header_two_places_are_an_error() -> None:
    reply = patch("*** Update File: a.py\n@@\n-        return 1\n+        return 2\n")
    assert "2 places" in problem(apply("patch", reply, {"a.py": CLASS}))


def test_new_lines_alone_follow_their_header() -> None:
    reply = patch("*** Update File: a.py\n@@     def f(self):\n+        print()\n")
    changed = apply("patch", reply, {"a.py": CLASS}).contents["a.py"]
    assert changed == CLASS.replace("f(self):\n", "f(self):\n        print()\n")


def test_the_end_of_the_file() -> None:
    text = "x\ny\nx\n"
    reply = patch("*** Update File: a.py\n@@\n-x\n+z\n*** End of File\n")
    assert apply("patch", reply, {"a.py": text}).contents == {"a.py": "x\ny\nz\n"}
    reply = patch("*** Update File: a.py\n@@\n+z\n*** End of File\n")
    assert apply("patch", reply, {"a.py": text}).contents == {"a.py": text + "z\n"}


def test_adding_a_file_that_is_there_is_refused() -> None:
    report = apply("patch", patch("*** Add File: a.py\n+x\n"), {"a.py": "a\n"})
    assert report.contents == {}
    assert "is there already" in problem(report)
    assert parse("patch", patch("*** Add File: a.py\n+x\n")) == (
        WholeFile("a.py", "x\n", new=True),
    )


def test_a_part_that_changes_nothing_is_reported() -> None:
    assert "changes nothing" in problem(
        apply("patch", patch("*** Update File: a.py\n@@\n a\n"), {"a.py": "a\n"})
    )


def test_deleting_what_is_not_there_is_reported() -> None:
    assert "no file x.py" in problem(
        apply("patch", patch("*** Delete File: x.py\n"), {})
    )


def test_a_header_that_fits_two_places_is_an_error() -> None:
    one = "    def run(self):\n        return 1\n"
    text = f"class A:\n{one}\n\nclass B:\n{one}"
    body = "*** Update File: a.py\n@@ def run(self):\n{}"
    vague = apply(
        "patch",
        patch(body.format("-        return 1\n+        return 2\n")),
        {"a.py": text},
    )
    assert "2 places" in problem(vague)
    only_new = apply("patch", patch(body.format("+        print()\n")), {"a.py": text})
    assert only_new.contents == {}
    half = apply(
        "patch", patch("*** Update File: a.py\n@@ def ru\n+    x\n"), {"a.py": text}
    )
    assert "no line `def ru`" in problem(half)


def test_a_file_is_not_moved_when_an_edit_of_it_failed() -> None:
    reply = patch("*** Update File: a.py\n*** Move to: b.py\n@@\n-no\n+A\n")
    report = apply("patch", reply, {"a.py": "a\n"})
    assert report.contents == {}
    assert [result.applied for result in report.results] == [False, False]


def test_only_the_file_that_is_named_is_deleted() -> None:
    report = apply(
        "patch", patch("*** Delete File: docs/old/setup.py\n"), {"setup.py": "x\n"}
    )
    assert report.contents == {}
