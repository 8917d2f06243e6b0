"""The transcript of an instance, which users read on terminals."""

from __future__ import annotations

from swe_retry.attempts.transcript import transcript
from swe_retry.llm.chat import Message, ToolCall
from swe_retry.record.result import InstanceResult
from tests.support.attempts import make_candidate

TITLE = "\x1b]0;a title of the terminal\x07"
HOSTILE = f"before {TITLE}\x1b[2J\x9b31m\x1b[31mred\x1b[0m\u202e\x08 after"


def test_no_escape_sequence_of_an_agent_is_in_a_transcript() -> None:
    tool_call = ToolCall(HOSTILE, HOSTILE)
    attempt = make_candidate(
        patch=HOSTILE,
        messages=(
            Message(HOSTILE, HOSTILE),
            Message("assistant", HOSTILE, (tool_call,)),
        ),
        error=HOSTILE,
        test_note=HOSTILE,
        dropped_files=(HOSTILE,),
    )
    for imported in (False, True):
        result = InstanceResult(
            instance_id="a__b-1",
            title=HOSTILE,
            reason=HOSTILE,
            model_patch=attempt.model_patch,
            attempts=(attempt.but(imported=imported),),
        )
        text = transcript(result)
        assert text.replace("\n", "").isprintable()
        assert text.count("before red\\u202e\\x08 after") >= 8
