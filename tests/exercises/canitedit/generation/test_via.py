"""``--via``: the agent edits the program as a file, in one reply."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent.formats import format_names, get_format
from core.errors import StoppedError
from exercises.canitedit.generation.editing import PROGRAM, edit_program
from exercises.canitedit.problems import Problem, load_problems
from llm.chat import (
    BudgetUsedError,
    Message,
    Reply,
    RequestRefusedError,
    Tool,
    Traits,
    WindowExceededError,
)
from llm.options import ModelChoice
from tests.support.canitedit import Editor, Solver, files, generate, problem_of, problems
from tests.support.formats import block


@dataclass
class OneReply:
    """A model with a small window, one that raises, or one with a reply."""

    traits: Traits
    error: Exception | None = None
    reply: Reply | None = None

    def count(self, text: str) -> int:
        return len(text)

    def complete(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> Reply:
        if self.reply is None:
            raise self.error or AssertionError("nothing may be asked")
        return self.reply


@pytest.mark.parametrize(
    ("model", "error", "said"),
    [
        (OneReply(Traits(context=9)), WindowExceededError, "does not fit the window"),
        (OneReply(Traits(), RequestRefusedError("m: no")), RequestRefusedError, "m: no"),
        (OneReply(Traits(), BudgetUsedError("all spent")), BudgetUsedError, "all spent"),
        (OneReply(Traits(), StoppedError("stop")), StoppedError, "stop"),
    ],
    ids=["window", "refused", "budget", "stopped"],
)
def test_what_gives_no_reply_is_raised(
    tmp_path: Path, model: OneReply, error: type[Exception], said: str
) -> None:
    choice = ModelChoice("m", "m", "diff")
    with pytest.raises(error, match=said):
        edit_program("x = 1", "Set x to 2.", choice, model, 0.2, tmp_path, print)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("form", format_names())
def test_the_solution_in_an_edit_format_gives_the_solution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    with Editor(form) as provider:
        options = ("--via", form, "--completions", "1")
        assert generate(monkeypatch, tmp_path, provider.url, *options) == 0
    made = files(tmp_path)
    assert len(provider.requests) == len(made) == 12
    for file in made.values():
        (one,) = file.completions
        assert one.program == file.problem.after
        assert (one.applied, one.truncated) == (True, False)
        assert one.reply
        assert file.sampling.prompt == f"via {form}"
    request = provider.requests[0]
    problem = problem_of(request)
    assert f"program.py\n```\n{problem.before}\n```" in request["messages"][-1]["content"]
    rules = get_format(form).instructions("```")
    assert request["messages"][0]["content"].endswith(rules)
    assert bool(request.get("tools")) is form.endswith("-func")
    assert (request["seed"], request["top_p"], request["max_tokens"]) == (1, 0.95, 8192)


@pytest.mark.long
@pytest.mark.skipif("CANITEDIT_ROWS" not in os.environ, reason="CANITEDIT_ROWS is not set")
@pytest.mark.parametrize("form", format_names())
def test_the_published_solutions_in_an_edit_format(tmp_path: Path, form: str) -> None:
    for problem in load_problems(os.environ["CANITEDIT_ROWS"]):
        before, after = f"{problem.before}\n", f"{problem.after}\n"
        model = OneReply(Traits(), reply=get_format(form).render(PROGRAM, before, after))
        choice = ModelChoice("m", "m", form)
        edited = edit_program(problem.before, "Edit.", choice, model, 0.2, tmp_path, print)
        assert (edited.program, edited.applied) == (problem.after, True), problem.full_name


class Failing(Solver):
    """Replies of which no edit, or not every edit, can be applied; by seed."""

    replies: dict[int, str]

    def text(self, problem: Problem, request: dict[str, Any]) -> str:
        first = problem.before.splitlines(keepends=True)[0]
        good = block("program.py", first, f"# new\n{first}")
        return {
            1: "I would rather not.",
            2: block("program.py", "no such line\n", "x\n"),
            3: block("other.py", "", "x = 1\n"),
            4: good + block("program.py", "no such line\n", "x\n"),
            5: good,
            6: "program.py\n```python\n<<<<<<< SEARCH\n",
        }[request["seed"]]


def test_an_edit_that_fails_leaves_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Failing() as provider:
        options = ("--via", "diff", "--completions", "6", "--instruction", "lazy")
        assert generate(monkeypatch, tmp_path, provider.url, *options) == 0
    assert len(provider.requests) == 6 * len(problems()), "there is no second try"
    for file in files(tmp_path).values():
        before, made = file.problem.before, file.completions
        changed = f"# new\n{before}"
        assert [one.program for one in made] == [before] * 4 + [changed, before]
        assert [one.applied for one in made] == [False] * 4 + [True, False]
    assert "30 unchanged, 30 not applied" in capsys.readouterr().out
