"""``--via``: the agent edits the program as a file, with one reply and without tests."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

from agent.builtin import BuiltinAgent
from agent.conversation.base import ConversationLimits, ConversationSetup, Ending, Reflections
from agent.conversation.mentions import FileIndex
from agent.formats.base import OnFailure
from agent.protocol import AgentResult, Task, Transcript
from agent.workspace import TextFile
from core.money import as_text
from exercises.canitedit.prompts import plain_lines
from exercises.canitedit.results import Completion, TokenCounts
from llm.chat import (
    BudgetUsedError,
    ChatModel,
    Reply,
    WindowExceededError,
    refusal,
)
from llm.options import ModelChoice

PROGRAM = "program.py"
"""The name under which a model sees the program."""
SYSTEM = """\
You are an expert software engineer. You change a program only by writing edits in the format \
below; whatever else you write is read as explanation. You have one reply: nobody answers \
questions, and no edit can be corrected.

{{ format_rules }}"""
OPENING = """\
{{ files }}

Edit this program as the instruction says.

<instruction>
{{ problem }}
</instruction>"""


def edit_program(
    before: str,
    instruction: str,
    choice: ModelChoice,
    model: ChatModel,
    temperature: float,
    place: Path,
    log: Callable[[str], None],
) -> Completion:
    """Have the agent edit ``before`` in the edit format of ``choice``.

    The program is unchanged where an edit failed, or the reply has none.
    """
    said = Transcript()
    with tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as root:
        path = Path(root, PROGRAM)
        # The rows have no line end at the end, which edit formats take for granted.
        ended = before if before.endswith("\n") or not before else f"{before}\n"
        path.write_bytes(ended.encode("utf-8", "replace"))
        task = Task(
            root=Path(root),
            message=instruction,
            repo_map="",
            files=FileIndex.of([PROGRAM]),
            model=model,
            model_name=choice.name,
            edit_format=choice.edit_format,
            temperature=temperature,
            limits=ConversationLimits(Reflections(shared=0)),
            run_tests=None,
            transcript=said,
            log=log,
            on_failure=OnFailure.ROLL_BACK,
            setup=ConversationSetup(
                SYSTEM, OPENING, shown=(PROGRAM,), more_files=False, lint=False
            ),
        )
        work = BuiltinAgent().work(task)
        _check_asked(work, said)
        after = TextFile.decode(path.read_bytes()).text if path.is_file() else ""
    result = plain_lines(after)
    program = result if ended == before else result.removesuffix("\n")
    applied = bool(work.result and work.result.edit)
    return completion_of(program, said.calls[-1].reply, applied=applied)


def _check_asked(work: AgentResult, said: Transcript) -> None:
    """Raise what the agent keeps to itself: that the model gave no reply."""
    ending = work.result.ending if work.result else Ending.FAILED
    if work.error and ending in (Ending.REFUSED, Ending.CONTEXT):
        raise refusal(work.error, None)
    if ending is Ending.BUDGET:
        raise BudgetUsedError(work.error)
    if not said.calls:
        raise WindowExceededError("the program does not fit the window of the model")


def raw_reply(reply: Reply) -> str:
    """Return a reply as text: its content, or JSON where it has function calls."""
    if not reply.tool_calls:
        return reply.content
    calls = [{"name": call.name, "arguments": call.arguments} for call in reply.tool_calls]
    return json.dumps({"content": reply.content, "tool_calls": calls}, ensure_ascii=False)


def completion_of(program: str, reply: Reply, *, applied: bool | None = None) -> Completion:
    usage = reply.usage
    tokens = None
    if usage is not None:
        sent, written = usage.prompt_tokens, usage.completion_tokens
        tokens = TokenCounts(prompt_tokens=sent, completion_tokens=written)
    return Completion(
        program=program,
        reply=raw_reply(reply),
        truncated=reply.truncated,
        tokens=tokens,
        cost=as_text(reply.cost),
        applied=applied,
    )
