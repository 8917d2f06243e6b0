from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from swe_retry.agent.builtin import Coder, tries
from swe_retry.agent.conversation.limits import ConversationLimits, Reflections
from swe_retry.agent.conversation.result import Result
from swe_retry.agent.conversation.setup import ConversationSetup, harness_setup
from swe_retry.agent.conversation.testreport import TestReport
from swe_retry.agent.formats import get_format
from swe_retry.agent.formats.edits import Edit
from swe_retry.agent.formats.protocol import Matching, ReplyScope
from swe_retry.agent.formats.reading.fences import writes_markers
from swe_retry.agent.formats.report import ApplyReport, OnFailure
from swe_retry.agent.lint.findings import Change, Finding
from swe_retry.agent.lint.linter import Linter
from swe_retry.agent.mentions import FileIndex
from swe_retry.agent.protocol import OpenHost, Task
from swe_retry.agent.surroundings import Transcript
from swe_retry.core.worktree import Changes
from swe_retry.llm.chat import (
    ChatModel,
    Message,
    ReplayExhaustedError,
    Reply,
    Tool,
    ToolCall,
    Traits,
    Waiting,
    estimate_tokens,
)
from tests.support import write_files

FENCE = "```"


def parse(
    form: str,
    reply: str | Reply,
    paths: Sequence[str] = (),
    chat: Sequence[str] = (),
    files: Mapping[str, str] | None = None,
) -> Sequence[Edit]:
    message = Reply(reply) if isinstance(reply, str) else reply
    scope = ReplyScope(frozenset(paths), chat, dict(files or {}).get)
    return get_format(form).parse(message, scope)


def apply(
    form: str, reply: str | Reply, files: Mapping[str, str], chat: Sequence[str] = ()
) -> ApplyReport:
    edits = parse(form, reply, tuple(files), chat, files)
    return get_format(form).apply(edits, files.get, chat)


def block(name: str, search: str, replace: str, info: str = "python") -> str:
    body = f"<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE"
    return f"{name}\n{FENCE}{info}\n{body}\n{FENCE}\n"


def problem(report: ApplyReport) -> str:
    (failed,) = report.failures
    return failed.problem


def join_lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def can_say(form: str, after: Sequence[str]) -> bool:
    """Return whether ``form`` can write ``after``: whole texts hold no dots, markers or edits.

    Nor are they a fence.
    """
    if form not in ("whole", "whole-func", "diff-func"):
        return True
    first = next((line for line in after if line.strip()), "")
    edit = first.startswith(("diff ", "--- ", "*** ", "@@ ")) or "..." in after
    if first.startswith((FENCE, "~~~")):
        return False
    return not edit and not writes_markers(after, ())


STUB = "import re\n\n\ndef f(text):\n    pass\n"
DONE = STUB.replace("pass", "return 1")
FILES = {"f.py": STUB, "f_test.py": "import f\n", "g.py": "x = 1\nx = 1\n"}
ONE_ROUND = ConversationLimits(Reflections(locate=0, edit=1, lint=0, test=0))
SETUP = ConversationSetup(
    system="You write code.\n\n{{ format_rules }}",
    opening="The files:\n\n{{ files }}\n\n{{ problem }}",
    followup="The files now:\n\n{{ files }}\n\n{{ message }}",
    shown_files=("f.py", "g.py"),
    more_files=False,
    as_edited=True,
    lint=False,
    test_unedited=True,
    limits=ONE_ROUND,
)
RIGHT = block("f.py", "    pass\n", "    return 1\n")
WRONG = block("f.py", "    fail\n", "    return 1\n")
FOREIGN = block("f_test.py", "import f\n", "") + block("conftest.py", "", "x\n")
FAILED = TestReport(False, message="1 test failed in {{ f }}.\n\n####\n\nFix f.py.")


APP = {"app/main.py": "def f():\n    return 1\n", "app/other.py": "X = 1\n"}
GOOD = block("app/main.py", "    return 1\n", "    return 2\n")
BAD = block("app/main.py", "    return 7\n", "    return 2\n")


@dataclass
class Scripted:
    """Returns its replies in order; raises those that are errors."""

    replies: Sequence[str | Reply | Exception]
    traits: Traits = field(default_factory=Traits)
    requests: list[list[Message]] = field(default_factory=list)
    tools: list[Sequence[Tool]] = field(default_factory=list)
    waiting: Waiting = nullcontext

    def count(self, text: str) -> int:
        return estimate_tokens(text)

    def complete(
        self, messages: Sequence[Message], tools: Sequence[Tool] = ()
    ) -> Reply:
        self.requests.append(list(messages))
        self.tools.append(tools)
        if len(self.requests) > len(self.replies):
            raise ReplayExhaustedError
        reply = self.replies[len(self.requests) - 1]
        if isinstance(reply, Exception):
            raise reply
        return Reply(reply) if isinstance(reply, str) else reply

    def prompt(self, number: int) -> str:
        """Return the last message of a request."""
        return self.requests[number][-1].content


@dataclass(frozen=True)
class CheckingHost(OpenHost):
    """A host with a linter, whose reports on tests come in order."""

    linter: Linter = field(default_factory=Linter)

    def new_findings(self, changes: Sequence[Change]) -> tuple[Finding, ...]:
        return self.linter.new_findings(changes)


def make_coder(
    root: Path,
    model: ChatModel,
    *,
    issue: str = "f",
    repo_map: str = "",
    files: Mapping[str, str] = APP,
    form: str = "diff",
    matching: Matching = Matching.TOLERANT,
    limits: ConversationLimits | None = None,
    tests: Sequence[TestReport] = (),
    linter: Linter | None = None,
    on_failure: OnFailure = OnFailure.KEEP,
) -> Coder:
    """Write ``files`` and return a coder that works on them; ``tests`` are reported in order."""
    write_files(root, files)
    reports = list(tests)
    setup = replace(
        harness_setup(),
        limits=limits or ConversationLimits(),
        matching=matching,
        on_failure=on_failure,
    )
    task = Task(
        root=root,
        message=issue,
        files=FileIndex(files),
        model=model,
        model_name="m",
        edit_format=form,
        temperature=0,
        transcript=Transcript(),
        log=lambda _: None,
        setup=setup,
        host=CheckingHost(
            lambda: repo_map,
            (lambda _: reports.pop(0)) if reports else None,
            linter or Linter(),
        ),
    )
    return Coder.of(task)


def run_coder(coder: Coder) -> Result:
    """Return the outcomes of a try."""
    result = coder.run().result
    assert result is not None
    return result


def converse(
    root: Path,
    *replies: str | Reply,
    traits: Traits | None = None,
    issue: str = "f returns the wrong number",
    repo_map: str = "the map",
    **changes: Any,
) -> tuple[Result, Scripted, Coder]:
    """Run a conversation on ``APP``; ``changes`` are of ``make_coder``."""
    script = Scripted(replies, traits or Traits())
    coder = make_coder(root, script, issue=issue, repo_map=repo_map, **changes)
    return run_coder(coder), script, coder


@dataclass
class Attempt:
    """One exercise in a folder, with the trees that its tests saw."""

    root: Path
    model: Scripted
    reports: list[TestReport]
    trees: list[Changes] = field(default_factory=list)

    def test(self, changes: Changes) -> TestReport:
        self.trees.append(changes)
        return self.reports[min(len(self.trees), len(self.reports)) - 1]

    def task(self, setup: ConversationSetup, form: str) -> Task:
        return Task(
            root=self.root,
            message="Write `f`: see f_test.py. {{ braces }}",
            files=FileIndex(FILES),
            model=self.model,
            model_name="m",
            edit_format=form,
            temperature=0,
            transcript=Transcript(),
            log=lambda _: None,
            setup=setup,
            host=OpenHost(test=self.test),
        )


def attempt(
    root: Path,
    *replies: str | Reply | Exception,
    reports: Sequence[TestReport] = (FAILED,),
    setup: ConversationSetup = SETUP,
    form: str = "diff",
    traits: Traits | None = None,
) -> tuple[list[Result], Attempt]:
    """Return the results of two tries at most."""
    write_files(root, FILES)
    made = Attempt(root, Scripted(replies, traits or Traits()), list(reports))
    works = list(islice(tries(made.task(setup, form)), 2))
    return [work.result for work in works if work.result], made


def fenced(path: str, text: str) -> str:
    return f"{path}\n```\n{text}```"


def tool_reply(name: str, arguments: object) -> Reply:
    """Return a reply that calls a tool; a text is its arguments as they are."""
    text = arguments
    if not isinstance(text, str):
        text = json.dumps(arguments)
    return Reply("", tool_calls=(ToolCall(name, text),))
