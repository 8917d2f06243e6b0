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

from swe_retry.agent.conversation.limits import ConversationLimits, Reflections
from swe_retry.agent.conversation.testreport import Failure, TestReport
from swe_retry.agent.formats import format_names
from swe_retry.agent.formats.protocol import Matching
from swe_retry.agent.formats.report import OnFailure
from swe_retry.agent.lint.findings import Finding
from swe_retry.agent.lint.linter import Linter
from swe_retry.llm.chat import (
    Reminder,
    Reply,
    ToolCall,
    Traits,
    request_sha256,
)
from tests.support import read_json
from tests.support.formats import (
    APP,
    BAD,
    GOOD,
    Scripted,
    block,
    make_coder,
    tool_reply,
)

RECORDED = Path(__file__).with_name("recorded_requests.json")
FILES = {
    **APP,
    "docs/a.md": "# A\n\n```\nx\n```\n",
    "app/big.py": "x = 1\n" * 3_000,
}
AGAIN = block("app/main.py", "    return 2\n", "    return 3\n")
REFUSED = block("app/main.py", "    return 1\n", "    return 9\n")
LONG = "word " * 1200


def call(name: str, **arguments: str) -> Reply:
    return tool_reply(name, arguments)


def old_and_new(old: str, new: str) -> Reply:
    return call(
        "replace_lines",
        path="app/main.py",
        original_lines=old,
        updated_lines=new,
    )


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


FAILING = TestReport(
    False, (Failure("test_f", "assert 2 == 3"), Failure("test_g", "KeyError: 1"))
)
FEWER = TestReport(False, (Failure("test_f", "assert 3 == 4"),))
MANY = ConversationLimits(Reflections(shared=9))
CUT = GOOD.index("=======")
CUT_OFF = Reply(GOOD[:CUT], truncated=True)

CASES = {
    "files added": Case(["I need app/main.py and docs/a.md.", GOOD]),
    "no map": Case([GOOD], repo_map=""),
    "files added with edits": Case([f"{BAD}See app/other.py and app/none.py.", GOOD]),
    "no file named": Case(["", ""]),
    "edits failed": Case(["app/main.py", f"{GOOD}{BAD}", BAD, AGAIN]),
    "edits rolled back": Case([f"{GOOD}{BAD}", GOOD], on_failure=OnFailure.ROLL_BACK),
    "unreadable edit": Case(
        [f"{GOOD}app/other.py\n```\n<<<<<<< SEARCH\nX = 1\n", "app/main.py"]
    ),
    "unsafe path": Case(
        [block("../a.py", "", "x\n"), block("app", "", "x\n"), "app/main.py"]
    ),
    "malformed": Case(["<<<<<<< SEARCH\nx\n", GOOD], matching=Matching.REFERENCE),
    "reference matching": Case(
        ["`app/main.py`:3", BAD, GOOD], matching=Matching.REFERENCE
    ),
    "lint failed": Case(
        [REFUSED, BAD, block("app/main.py", "    return 9\n", "    return 2\n")]
    ),
    "tests failed": Case(
        [GOOD, AGAIN, f"app/main.py is right. {BAD}"], tests=[FAILING, FEWER, FEWER]
    ),
    "truncated": Case([CUT_OFF, GOOD[CUT:]]),
    "truncated patch": Case(
        [Reply("*** Begin Patch\n", truncated=True), ""], form="patch"
    ),
    "truncated call": Case(
        [
            Reply("", truncated=True, tool_calls=(ToolCall("write_file", '{"path'),)),
            "no",
        ],
        form="whole-func",
    ),
    "prefill": Case([CUT_OFF, GOOD[CUT:]], traits=Traits(prefill=True)),
    "context cut": Case(
        [
            f"app/main.py {LONG}",
            f"{BAD}{LONG}",
            f"{BAD}{LONG}",
            f"{GOOD}{BAD}{LONG}",
            GOOD,
        ],
        traits=Traits(context=5_000),
        limits=MANY,
    ),
    "context of prefills": Case(
        [
            "app/main.py",
            f"{BAD}{LONG}",
            CUT_OFF,
            GOOD[CUT:],
        ],
        traits=Traits(context=4_000, prefill=True),
        limits=MANY,
    ),
    "map too large": Case([GOOD], traits=Traits(context=4_000), repo_map="x" * 20_000),
    "files too large": Case(
        ["app/big.py", "app/main.py", BAD], traits=Traits(context=4_000)
    ),
    "until exhausted": Case(
        [GOOD, "Nothing more.", BAD], limits=ConversationLimits(until_exhausted=True)
    ),
    "rules in the message": Case(
        ["app/main.py", BAD], traits=Traits(reminder=Reminder.USER)
    ),
    "rules twice": Case(["app/main.py", BAD], traits=Traits(reminder=Reminder.BOTH)),
    "issue with fences": Case(
        ["app/main.py", GOOD], issue="See:\n````\nf()\n````\n{{ x }}"
    ),
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
    **{
        f"rules of {name}": Case(["app/main.py", "no"], form=name)
        for name in format_names()
    },
}


class Nines:
    """Refuses files with a 9; the compilers' own words differ by version."""

    def check(self, files: Sequence[tuple[str, str]]) -> list[Finding | None]:
        findings: list[Finding | None] = []
        for path, text in files:
            finding = None
            if "9" in text:
                finding = Finding(path, 2, "no 9 here")
            findings.append(finding)
        return findings


def record(root: Path, case: Case) -> Scripted:
    script = Scripted(case.replies, case.traits)
    coder = make_coder(
        root,
        script,
        files=FILES,
        form=case.form,
        matching=case.matching,
        limits=case.limits,
        tests=case.tests,
        linter=Linter(Nines()),
        on_failure=case.on_failure,
        issue=case.issue,
        repo_map=case.repo_map,
    )
    coder.run()
    return script


def hashes(script: Scripted) -> Iterator[str]:
    """Yield the hash of each request; tools and answers to calls count as well."""
    for messages, tools in zip(script.requests, script.tools, strict=True):
        answered = [(message.tool_call_id, message.role) for message in messages]
        rest = json.dumps([tools, answered]).encode()
        yield f"{request_sha256(messages)} {hashlib.sha256(rest).hexdigest()[:16]}"


@pytest.mark.parametrize("name", CASES)
def test_the_requests_are_those_recorded(tmp_path: Path, name: str) -> None:
    script = record(tmp_path, CASES[name])
    assert list(hashes(script)) == read_json(RECORDED)[name]


if __name__ == "__main__":
    recorded = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, case in CASES.items():
            script = record(Path(folder) / name, case)
            recorded[name] = list(hashes(script))
    RECORDED.write_text(json.dumps(recorded, indent=1) + "\n")
