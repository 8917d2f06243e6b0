"""No file of a run holds a key that a provider or a model quotes, and replays go on equally."""

from __future__ import annotations

import json
import os

import pytest

from swe_retry.core.redaction import Redactor
from swe_retry.llm.dialects.pieces import redact_answer
from tests.agent.gateway.conftest import (
    BY_NAME,
    EDIT,
    ID,
    NEW,
    GatewayRuns,
    agent_config,
    needs_bubblewrap,
)
from tests.agent.gateway.test_lanes import THOUGHTS
from tests.support import assert_in_no_file
from tests.support.dialects import DIALECTS, Fault, Turn
from tests.support.runs import but

KEY = "sk-sentinel-0123456789"
SHOWN = "[QUOTED_API_KEY]"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUOTED_API_KEY", KEY)


@needs_bubblewrap
@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_file_of_an_agent_s_run_holds_a_key(
    runs: GatewayRuns,
    monkeypatch: pytest.MonkeyPatch,
    dialect: str,
    streamed: bool,
) -> None:
    options = ["stream"] if streamed else []
    monkeypatch.setattr(Fault, "words", f"the key {KEY} is busy")
    edit = {**EDIT, "new": f"{NEW}  # {KEY}"}
    turns = (Turn(f"I see {KEY}.", ("replace", edit)), Turn(f"So {KEY} is in."))
    fault = Fault(500, {"x-request-id": KEY, "retry-after": "0"})
    with runs.serve(fault, turns=turns) as stub:
        first = runs.solve(agent_config(dialect, *options))
        assert first["status"] == "plausible", first["reason"]
        assert f"# {SHOWN}" in first["model_patch"]
        assert stub.billed == 2
        runs.report()
        assert_in_no_file(KEY, runs.folder)
        (attempt,) = runs.attempts()
        for call in attempt["calls"]:
            assert SHOWN in call["content"]
            answer = BY_NAME[_name(dialect)].read_text(call["body"])
            assert SHOWN in answer.content
            assert KEY not in answer.content
        replay = but(agent_config(dialect, *options, run="again"), replay=runs.recorded)
        again = runs.solve(replay)
        assert again["model_patch"] == first["model_patch"]
        assert "served to a changed request" not in runs.log("again")
        # The journal alone serves what it has after the process was killed.
        (runs.recorded / f"{ID}.json").unlink()
        journal = runs.folder / f"logs/r/journals/{ID}.jsonl"
        lines = journal.read_bytes().splitlines(keepends=True)
        kinds = [json.loads(line)["kind"] for line in lines]
        journal.write_bytes(b"".join(lines[: kinds.index("answered") + 1]))
        continued = runs.solve(agent_config(dialect, *options))
        assert continued["model_patch"] == first["model_patch"]
        assert stub.billed == 3


def _name(dialect: str) -> str:
    return "generateContent" if dialect == "gemini" else dialect


@pytest.mark.parametrize("name", BY_NAME)
def test_thoughts_that_quote_a_key_in_parts_are_redacted(name: str) -> None:
    text = json.dumps(THOUGHTS[name]).replace("I think.", f"I think {KEY}.")
    text = text.replace("reasoning_content", "reasoning")
    text = text.replace('"I "', f'"I {KEY[:9]}"').replace('"think."', f'"{KEY[9:]}."')
    events = [f"data: {json.dumps(event)}\n\n" for event in json.loads(text)]
    redact = Redactor.of_environment(dict(os.environ))
    redacted = redact_answer("".join(events) + "data: [DONE]\n\n", redact)
    assert redacted.endswith("data: [DONE]\n\n") or name != "chat"
    answer = BY_NAME[name].read_text(redacted)
    assert SHOWN in answer.reasoning
    assert KEY[9:] not in redacted
    assert answer.content == "So."
    plain = "".join(events).replace(KEY[9:], "x")
    assert redact_answer(plain, redact) == plain, "else it stays as it came"
