"""V4A patches: every action, with the prose and errors of models."""

from __future__ import annotations

import pytest

from swe_retry.agent.formats.edits import WholeFile
from swe_retry.agent.formats.report import ApplyReport
from tests.support.formats import apply, parse, problem

CLASS = "class A:\n    def f(self):\n        return 1\n\n    def g(self):\n        return 1\n"


def patch(body: str) -> str:
    return f"*** Begin Patch\n{body}*** End Patch\n"


def update(body: str) -> str:
    return patch(f"*** Update File: a.py\n{body}")


def change(reply: str, text: str) -> ApplyReport:
    """Apply ``reply`` to a.py."""
    return apply("patch", reply, {"a.py": text})


ONE_TO_TWO = "-        return 1\n+        return 2\n"


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
    assert change(reply, "a\n").contents == {"a.py": "A\n"}


def test_moving_a_file_with_and_without_a_change() -> None:
    report = change(update("*** Move to: b/c.py\n@@\n-a\n+A\n"), "a\n")
    assert report.contents == {"a.py": None, "b/c.py": "A\n"}
    assert report.moved == {"b/c.py": "a.py"}
    plain = update("*** Move to: b.py\n")
    assert change(plain, "a\n").contents == {"a.py": None, "b.py": "a\n"}
    refused = apply("patch", plain, {"a.py": "a\n", "b.py": "b\n"})
    assert refused.contents == {}
    assert "is there already" in problem(refused)
    failed = change(update("*** Move to: b.py\n@@\n-no\n+A\n"), "a\n")
    assert failed.contents == {}, "a file is not moved when an edit of it failed"
    assert [result.applied for result in failed.results] == [False, False]


SECOND = "return 2".join(CLASS.rsplit("return 1", 1))


@pytest.mark.parametrize(
    ("body", "before", "after"),
    [
        (f"@@ def g(self):\n{ONE_TO_TWO}", CLASS, SECOND),
        (f"@@     def g(self):\n{ONE_TO_TWO}", CLASS, SECOND),
        (f"@@ class A:\n@@ def g\n{ONE_TO_TWO}", CLASS, SECOND),
        # New lines alone follow their header.
        (
            "@@     def f(self):\n+        print()\n",
            CLASS,
            CLASS.replace("f(self):\n", "f(self):\n        print()\n"),
        ),
        ("@@\n-x\n+z\n*** End of File\n", "x\ny\nx\n", "x\ny\nz\n"),
        ("@@\n+z\n*** End of File\n", "x\ny\nx\n", "x\ny\nx\nz\n"),
    ],
)
def test_headers_and_ends_settle_the_place(body: str, before: str, after: str) -> None:
    assert change(update(body), before).contents == {"a.py": after}


METHOD = "    def run(self):\n        return 1\n"
CLASSES = f"class A:\n{METHOD}\n\nclass B:\n{METHOD}"


@pytest.mark.parametrize(
    ("reply", "text", "reason"),
    [
        (update(f"@@\n{ONE_TO_TWO}"), CLASS, "2 places"),
        (update(f"@@ def run(self):\n{ONE_TO_TWO}"), CLASSES, "2 places"),
        (update("@@ def run(self):\n+        print()\n"), CLASSES, ""),
        (update("@@ def ru\n+    x\n"), CLASSES, "no line `def ru`"),
        (update("@@\n a\n"), "a\n", "changes nothing"),
        (patch("*** Add File: a.py\n+x\n"), "a\n", "is there already"),
        (patch("*** Delete File: x.py\n"), "", "no file x.py"),
    ],
)
def test_what_has_no_place_or_changes_nothing_is_reported(
    reply: str, text: str, reason: str
) -> None:
    report = change(reply, text)
    assert report.contents == {}
    assert reason in problem(report)


def test_a_file_that_is_added_is_new() -> None:
    (edit,) = parse("patch", patch("*** Add File: a.py\n+x\n"))
    assert edit == WholeFile("a.py", "x\n", new=True)


def test_only_the_file_that_is_named_is_deleted() -> None:
    report = apply(
        "patch", patch("*** Delete File: docs/old/setup.py\n"), {"setup.py": "x\n"}
    )
    assert report.contents == {}
