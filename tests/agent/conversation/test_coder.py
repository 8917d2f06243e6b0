"""Conversations with a scripted model: requests, edits and feedback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from swe_retry.agent.conversation.limits import ConversationLimits, Reflections
from swe_retry.agent.conversation.result import Ending
from swe_retry.agent.conversation.testreport import Failure, TestReport
from swe_retry.agent.lint.findings import Finding
from swe_retry.agent.lint.linter import Linter
from swe_retry.llm.chat import Reply, ToolCall, Traits
from tests.support.formats import APP, BAD, GOOD, block, converse


def test_a_named_file_is_shown_and_edited(tmp_path: Path) -> None:
    result, script, coder = converse(tmp_path, "I need app/main.py.", GOOD)
    assert (tmp_path / "app/main.py").read_text() == "def f():\n    return 2\n"
    assert result.edit is True
    assert result.lint is True
    assert result.test is None
    assert result.ending is Ending.DONE
    for text in ("f returns the wrong number", "old commit", "the map"):
        assert text in script.prompt(0)
    assert "def f():\n    return 1" in script.prompt(1)
    roles = [message.role for message in coder.messages]
    assert roles == ["system", "user", "assistant", "user", "assistant"]
    assert result.chat_files == ("app/main.py",)
    assert result.edited_files == ("app/main.py",)


def test_requests_only_grow_at_their_end(tmp_path: Path) -> None:
    _, script, _ = converse(tmp_path, "app/main.py", BAD, GOOD)
    for earlier, later in zip(script.requests, script.requests[1:], strict=False):
        assert later[: len(earlier)] == earlier


class Refusing:
    """A linter that refuses files with a 2."""

    def check(self, files: Sequence[tuple[str, str]]) -> list[Finding | None]:
        findings: list[Finding | None] = []
        for path, text in files:
            finding = None
            if " 2" in text:
                finding = Finding(path, 2, "not on 2")
            findings.append(finding)
        return findings


AGAIN = block("app/main.py", "    return 2\n", "    return 3\n")
CUT = GOOD.index("=======")
NOTHING = block("app/main.py", "    return 1\n", "    return 1\n")
NO_REFLECTION = ConversationLimits(Reflections(shared=0))


@dataclass
class Case:
    """Replies, the texts of the second request, and the number of requests and results."""

    replies: Sequence[str | Reply]
    texts: Sequence[str] = ()
    requests: int | None = None
    result: Mapping[str, object] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)


CASES = {
    "edits to files that were not shown are applied without a further call": Case(
        [GOOD], requests=1, result={"edit": True}
    ),
    "a failed edit is reflected with the nearest real lines": Case(
        [BAD, GOOD],
        ["are not in app/main.py", "return 1"],
        result={"edit": True},
    ),
    "current contents come with a failure in a file that changed": Case(
        [GOOD + BAD, "app/main.py is fine"], ["def f():\n    return 2\n"]
    ),
    "the last editing reply decides the edit outcome": Case(
        [BAD, "app/main.py cannot be edited."],
        result={"edit": False, "edited_files": ()},
    ),
    "an empty reply is asked once for files": Case(
        ["", ""],
        ["three to five files"],
        requests=2,
        result={"edit": None, "lint": None, "test": None},
    ),
    "a reply that names a shown file and edits nothing is asked once for others": Case(
        ["app/main.py", "app/main.py is right as it is.", "app/main.py, I say."],
        requests=3,
        result={"ending": Ending.DONE, "reflections": 2},
    ),
    "a reply that names a shown file ends a conversation with edits": Case(
        [
            "app/main.py",
            GOOD.replace("return 2", "return missing"),
            "app/main.py is right.",
        ],
        requests=3,
        result={"ending": Ending.DONE},
    ),
    "a reply that names no new file is told so": Case(
        ["app/main.py", "app/main.py is right as it is."],
        requests=3,
        result={"edited_files": ()},
    ),
    "edits that change nothing are told so once": Case(
        [NOTHING, NOTHING],
        ["Your edits change nothing", "in the edit format"],
        requests=2,
        result={"edited_files": ()},
    ),
    "edits that change nothing may end a conversation with others": Case(
        [GOOD, NOTHING], requests=1, result={"edit": True}
    ),
    "words about a file edit nothing": Case(
        ["I would look at app/main.py", "app/main.py is fine"],
        result={"edited_files": ()},
    ),
    "new lint findings are reflected and count": Case(
        [GOOD.replace("return 2", "return missing"), "app/main.py is right."],
        ["undefined name 'missing'"],
        result={"edit": True, "lint": False},
    ),
    "the linter of the instance judges": Case(
        [GOOD, "app/main.py it is"],
        ["app/main.py:2: not on 2"],
        result={"lint": False},
        changes={"linter": Linter(Refusing())},
    ),
    "failing tests are reflected and rerun after the next edit": Case(
        [GOOD, AGAIN],
        ["- test_f\n\n## test_f\nassert 2 == 3"],
        result={"test": True},
        changes={
            "tests": [
                TestReport(False, (Failure("test_f", "assert 2 == 3"),)),
                TestReport(True),
            ]
        },
    ),
    "tests run at the end when the last reply failed in part": Case(
        [GOOD + BAD],
        result={"edit": False, "test": False},
        changes={"limits": NO_REFLECTION, "tests": [TestReport(False)]},
    ),
    "reflections are limited": Case(
        [BAD] * 9,
        requests=3,
        result={"ending": Ending.REFLECTIONS_USED, "reflections": 2},
        changes={"limits": ConversationLimits(Reflections(shared=2))},
    ),
    "a malformed block is explained and the others apply": Case(
        [GOOD + "app/other.py\n```\n<<<<<<< SEARCH\nX = 1\n", "app/main.py"],
        [
            "Edit 2 of 2: the block for app/other.py",
            "applied and are in the files now, so do not send them again: 1 "
            "(app/main.py)",
        ],
        result={"edit": False, "edited_files": ("app/main.py",)},
    ),
    "a complete block of a cut off reply is not applied": Case(
        [Reply(GOOD, truncated=True)],
        result={"edit": False, "edited_files": ()},
        changes={"limits": NO_REFLECTION},
    ),
    "a replay goes on until it is exhausted": Case(
        [GOOD, "Nothing more.", "Really."],
        requests=4,
        result={"ending": Ending.REPLAY_EXHAUSTED},
        changes={"limits": ConversationLimits(until_exhausted=True)},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_replies_are_reflected_and_judged(tmp_path: Path, case: Case) -> None:
    result, script, _ = converse(tmp_path, *case.replies, **case.changes)
    for text in case.texts:
        assert text in script.prompt(1)
    if case.requests is not None:
        assert len(script.requests) == case.requests
    for name, value in case.result.items():
        assert getattr(result, name) == value, name


def test_a_reply_that_was_cut_off_is_not_applied_and_can_go_on(tmp_path: Path) -> None:
    cut_off = Reply(GOOD[:CUT], truncated=True)
    result, script, _ = converse(tmp_path, cut_off, GOOD[CUT:])
    assert "cut off" in script.prompt(1)
    assert (tmp_path / "app/main.py").read_text() == "def f():\n    return 2\n"
    assert result.edit is True


LOOPS = {
    "a line": "    x = x + 1\n" * 99,
    "words in one line": "I am sure. " * 99,
    "a block": "def f():\n    return 1\n\n\n" * 99,
    "a block that counts": "".join(
        f"    if x.endswith('{number}'):\n        raise X({number})\n"
        for number in range(99)
    ),
    "a list that counts": "".join(f"{number}. `a/setup.py`\n" for number in range(99)),
    "a long block": "".join(f"    case {number}\n" for number in range(99)) * 5,
}


@pytest.mark.parametrize("prefill", [False, True])
@pytest.mark.parametrize("name", LOOPS)
def test_a_reply_that_repeats_itself_is_not_continued(
    tmp_path: Path, name: str, prefill: bool
) -> None:
    loop = LOOPS[name]
    content = f"{GOOD[:CUT]}{loop[:-7]}"
    replies: list[str | Reply] = [Reply(content, truncated=True), GOOD]
    traits = Traits(prefill=prefill)
    result, script, coder = converse(tmp_path, *replies, traits=traits)
    assert result.edit is True
    assert result.replies[0].truncated
    prompt = script.prompt(1)
    assert "It repeated this until then:" in prompt
    assert loop.strip()[:6] in prompt
    assert "go on exactly where it stopped" not in prompt
    (sent,) = [m.content for m in script.requests[1] if m.role == "assistant"]
    assert content.startswith(sent)
    assert len(sent) < 2_500
    assert coder.calls[0].content == content


def test_a_call_that_repeats_itself_is_told_so(tmp_path: Path) -> None:
    call = ToolCall("write_file", '{"path": "a.py", "content": "' + "x = 1\\n" * 99)
    cut = Reply("", tool_calls=(call,), truncated=True)
    _, script, _ = converse(tmp_path, cut, "app/main.py", form="whole-func")
    assert "It repeated this until then:" in script.prompt(1)


NO_LOOPS = {
    "few lines": GOOD[:CUT] + "    x = 1\n" * 4,
    "an end that has come before": "a long line of words is here, it is\n" + GOOD[:CUT],
    "few blocks that count": "x = 0\n" * 2
    + "".join(f"if x == {number}:\n    y = {number}\n" for number in range(3)),
    "lines that count": "".join(f"    x[{number}] = 1\n" for number in range(99)),
    "nothing": "",
}


@pytest.mark.parametrize("name", NO_LOOPS)
def test_a_reply_that_does_not_repeat_itself_is_continued(
    tmp_path: Path, name: str
) -> None:
    cut = Reply(NO_LOOPS[name], truncated=True)
    _, script, _ = converse(tmp_path, cut, "")
    assert "It repeated" not in script.prompt(1)


def test_the_same_failures_are_not_sent_twice_without_a_word(tmp_path: Path) -> None:
    last = block("app/main.py", "    return 3\n", "    return 4\n")
    first = Failure("test_f", "assert 2 == 3")
    second = Failure("test_g", "assert 5 == 6")
    reports = [
        TestReport(False, (first, second)),
        TestReport(False, (first,)),
        TestReport(True),
    ]
    _, script, _ = converse(tmp_path, GOOD, AGAIN, last, tests=reports)
    assert "assert 2 == 3" in script.prompt(1)
    prompt = script.prompt(2)
    assert "no longer failing (1 of 2): test_g" in prompt
    assert "failing in the same way as before (1): test_f" in prompt
    assert "assert 2 == 3" not in prompt


def test_unsafe_paths_are_failed_edits(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    evil = block("../evil.py", "", "x\n")
    result, script, _ = converse(root, evil + GOOD, "app/main.py it is")
    assert not (tmp_path / "evil.py").exists()
    assert "not allowed" in script.prompt(1)
    assert result.edited_files == ("app/main.py",)


def test_one_bad_path_does_not_cost_the_good_edits(tmp_path: Path) -> None:
    edits = [
        block("app/main.py/x.py", "", "x\n"),
        block("app/other.py", "X = 1\n", "X = 2\n"),
        block("new/a/b.py", "", "1\n"),
        block("new/a", "", "1\n"),
    ]
    reply = "".join(edits)
    result, script, _ = converse(tmp_path, reply, "app/main.py is a file, I see.")
    assert (tmp_path / "app/other.py").read_text() == "X = 2\n"
    assert result.edit is False
    assert "main.py is a file, not a folder" in script.prompt(1)
    assert "new/a: not a regular file" in script.prompt(1)


def test_files_that_no_model_can_read_are_named_and_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(APP, "app/big.csv", "1,2,3\n" * 100_000)
    monkeypatch.setitem(APP, "app/logo.png", "\x89PNG\0\0")
    _, script, _ = converse(tmp_path, "See big.csv, logo.png and app/main.py.", GOOD)
    prompt = script.prompt(1)
    assert "app/big.csv is too long to be shown in full" in prompt
    assert "app/logo.png is not a text file" in prompt
    assert len(prompt) < 2_000
