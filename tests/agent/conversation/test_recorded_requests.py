"""The requests of the retry harness stay as they were: their hashes are recorded.

``python -m tests.agent.conversation.test_recorded_requests`` records them: only for a wanted
change of what models read.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent.conversation.base import ConversationLimits, Reflections
from agent.conversation.coder import Checks, Coder
from agent.conversation.mentions import FileIndex
from agent.conversation.testreport import Failure, TestReport
from agent.formats import format_names, get_format
from agent.formats.base import Matching, OnFailure
from agent.lint import Finding, Linter
from agent.workspace import Workspace
from llm.chat import (
    Message,
    Reminder,
    ReplayExhaustedError,
    Reply,
    Tool,
    ToolCall,
    Traits,
    estimate_tokens,
    request_sha256,
)
from tests.support.formats import block

RECORDED = Path(__file__).with_name("recorded_requests.json")
FILES = {
    "app/main.py": "def f():\n    return 1\n",
    "app/other.py": "X = 1\n",
    "docs/a.md": "# A\n\n```\nx\n```\n",
    "app/big.py": "x = 1\n" * 3_000,
}
GOOD = block("app/main.py", "    return 1\n", "    return 2\n")
BAD = block("app/main.py", "    return 7\n", "    return 2\n")
AGAIN = block("app/main.py", "    return 2\n", "    return 3\n")
REFUSED = block("app/main.py", "    return 1\n", "    return 9\n")
LONG = "word " * 1200


def call(name: str, **arguments: str) -> Reply:
    return Reply("", tool_calls=(ToolCall(name, json.dumps(arguments)),))


def old_and_new(old: str, new: str) -> Reply:
    return call("replace_lines", path="app/main.py", original_lines=old, updated_lines=new)


@dataclass(frozen=True)
class Case:
    """One scripted conversation."""

    replies: Sequence[str | Reply]
    form: str = "diff"
    matching: Matching = Matching.TOLERANT
    traits: Traits = field(default_factory=Traits)
    limits: ConversationLimits = field(default_factory=ConversationLimits)
    tests: Sequence[TestReport] = ()
    on_failure: OnFailure = OnFailure.KEEP
    issue: str = "f returns the wrong number"
    repo_map: str = "app/main.py\n  f"


FAILING = TestReport(False, (Failure("test_f", "assert 2 == 3"), Failure("test_g", "KeyError: 1")))
FEWER = TestReport(False, (Failure("test_f", "assert 3 == 4"),))
MANY = ConversationLimits(Reflections(shared=9))
CUT = GOOD.index("=======")

CASES = {
    "files added": Case(["I need app/main.py and docs/a.md.", GOOD]),
    "no map": Case([GOOD], repo_map=""),
    "files added with edits": Case([f"{BAD}See app/other.py and app/none.py.", GOOD]),
    "no file named": Case(["", ""]),
    "edits failed": Case(["app/main.py", f"{GOOD}{BAD}", BAD, AGAIN]),
    "edits rolled back": Case([f"{GOOD}{BAD}", GOOD], on_failure=OnFailure.ROLL_BACK),
    "unreadable edit": Case([f"{GOOD}app/other.py\n```\n<<<<<<< SEARCH\nX = 1\n", "app/main.py"]),
    "unsafe path": Case([block("../a.py", "", "x\n"), block("app", "", "x\n"), "app/main.py"]),
    "malformed": Case(["<<<<<<< SEARCH\nx\n", GOOD], matching=Matching.REFERENCE),
    "reference matching": Case(["`app/main.py`:3", BAD, GOOD], matching=Matching.REFERENCE),
    "lint failed": Case([REFUSED, BAD, block("app/main.py", "    return 9\n", "    return 2\n")]),
    "tests failed": Case(
        [GOOD, AGAIN, f"app/main.py is right. {BAD}"], tests=[FAILING, FEWER, FEWER]
    ),
    "truncated": Case([Reply(GOOD[:CUT], truncated=True), GOOD[CUT:]]),
    "truncated patch": Case([Reply("*** Begin Patch\n", truncated=True), ""], form="patch"),
    "truncated call": Case(
        [Reply("", truncated=True, tool_calls=(ToolCall("write_file", '{"path'),)), "no"],
        form="whole-func",
    ),
    "prefill": Case([Reply(GOOD[:CUT], truncated=True), GOOD[CUT:]], traits=Traits(prefill=True)),
    "context cut": Case(
        [f"app/main.py {LONG}", f"{BAD}{LONG}", f"{BAD}{LONG}", f"{GOOD}{BAD}{LONG}", GOOD],
        traits=Traits(context=5_000),
        limits=MANY,
    ),
    "context of prefills": Case(
        ["app/main.py", f"{BAD}{LONG}", Reply(f"{GOOD[:CUT]}", truncated=True), GOOD[CUT:]],
        traits=Traits(context=4_000, prefill=True),
        limits=MANY,
    ),
    "map too large": Case([GOOD], traits=Traits(context=4_000), repo_map="x" * 20_000),
    "files too large": Case(["app/big.py", "app/main.py", BAD], traits=Traits(context=4_000)),
    "until exhausted": Case(
        [GOOD, "Nothing more.", BAD], limits=ConversationLimits(until_exhausted=True)
    ),
    "rules in the message": Case(["app/main.py", BAD], traits=Traits(reminder=Reminder.USER)),
    "rules twice": Case(["app/main.py", BAD], traits=Traits(reminder=Reminder.BOTH)),
    "issue with fences": Case(["app/main.py", GOOD], issue="See:\n````\nf()\n````\n{{ x }}"),
    "whole file": Case(
        ["app/main.py", "app/main.py\n```\ndef f():\n    return 2\n```\n"],
        form="whole",
        tests=[FAILING],
    ),
    "calls of write_file": Case(
        [
            "app/main.py",
            call("write_file", path="app/main.py"),
            call("search_web", query="f"),
            call("write_file", path="app/main.py", content="def f():\n    return 2\n"),
            call("python", path="app/main.py", content="def f():\n    return 3\n"),
        ],
        form="whole-func",
        limits=MANY,
        tests=[FAILING, FEWER],
    ),
    "calls of replace_lines": Case(
        [
            "app/main.py",
            old_and_new("    return 7\n", "x"),
            Reply("", tool_calls=(ToolCall("replace_lines", '{"path": "app/ma'),)),
            old_and_new("    return 1\n", "    return 9\n"),
            old_and_new("    return 9\n", "    return 2\n"),
        ],
        form="diff-func",
        limits=MANY,
        tests=[FAILING],
    ),
    **{f"rules of {name}": Case(["app/main.py", "no"], form=name) for name in format_names()},
}


@dataclass
class Script:
    """Returns its replies in order and keeps the requests."""

    case: Case
    requests: list[tuple[list[Message], Sequence[Tool]]] = field(default_factory=list)

    @property
    def traits(self) -> Traits:
        return self.case.traits

    def count(self, text: str) -> int:
        return estimate_tokens(text)

    def complete(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> Reply:
        self.requests.append((list(messages), tools))
        if len(self.requests) > len(self.case.replies):
            raise ReplayExhaustedError
        reply = self.case.replies[len(self.requests) - 1]
        return Reply(reply) if isinstance(reply, str) else reply


class Nines:
    """Refuses files with a 9; the compilers' own words differ by version."""

    def check(self, files: Sequence[tuple[str, str]]) -> list[Finding | None]:
        return [Finding(path, 2, "no 9 here") if "9" in text else None for path, text in files]


def converse(root: Path, case: Case) -> Script:
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    script, space, reports = Script(case), Workspace(root), list(case.tests)
    coder = Coder(
        workspace=space,
        files=FileIndex.of(FILES),
        model=script,
        edit_format=get_format(case.form, case.matching),
        checks=Checks(space, Linter(Nines()), (lambda: reports.pop(0)) if reports else None),
        limits=case.limits,
        on_failure=case.on_failure,
    )
    coder.run(case.issue, case.repo_map)
    return script


def hashes(script: Script) -> Iterator[str]:
    """Yield the hash of each request; tools and answers to calls count as well."""
    for messages, tools in script.requests:
        answered = [(message.tool_call_id, message.role) for message in messages]
        rest = json.dumps([tools, answered]).encode()
        yield f"{request_sha256(messages)} {hashlib.sha256(rest).hexdigest()[:16]}"


@pytest.mark.parametrize("name", CASES)
def test_the_requests_are_those_recorded(tmp_path: Path, name: str) -> None:
    assert list(hashes(converse(tmp_path, CASES[name]))) == json.loads(RECORDED.read_text())[name]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        found = {
            name: list(hashes(converse(Path(folder) / name, case))) for name, case in CASES.items()
        }
    RECORDED.write_text(json.dumps(found, indent=1) + "\n")
