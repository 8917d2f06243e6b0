"""What is sent: the texts byte for byte, sampling, and nothing that a model must not know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from exercises.canitedit.problems import KINDS, Problem
from tests.exercises.canitedit.test_prompts import ANSWER, ONE_SHOT, SYSTEM
from tests.support.canitedit import Solver, by_seed, generate, problem_of, problems

EDITCODER_STOPS = [
    "## Code After:",
    "## Instruction:",
    "## Code Before:",
    "## Test Case:",
    "## Explanation:",
]
COMMIT_STOPS = ["<commit_before>", "<commit_msg>", "<commit_after>"]


def turn(before: str, instruction: str) -> str:
    return f"## Code Before\n```py\n{before}\n```\n## Instruction\n{instruction}"


def expected(prompt: str, before: str, instruction: str) -> dict[str, Any]:
    """Return the texts of a request as the protocol has them."""
    asked = turn(before, instruction)
    example = {"role": "assistant", "content": ANSWER}
    if prompt == "chat":
        first = {"role": "user", "content": f"{SYSTEM}\n\n{ONE_SHOT}"}
        return {
            "messages": [
                first,
                example,
                {"role": "user", "content": f"{SYSTEM}\n\n{asked}"},
            ]
        }
    if prompt == "commit":
        text = f"<commit_before>{before}<commit_msg>{instruction}<commit_after>"
        return {"prompt": text, "stop": COMMIT_STOPS}
    if prompt == "editcoder":
        text = f"## Code Before:\n{before}\n## Instruction:\n{instruction}\n## Code After:\n"
        return {"prompt": text, "stop": EDITCODER_STOPS}
    system = {"role": "system", "content": SYSTEM}
    if prompt == "chat-system":
        first = {"role": "user", "content": ONE_SHOT}
        return {
            "messages": [system, first, example, {"role": "user", "content": asked}]
        }
    zero = (
        asked.replace("```\n## Instruction", "```\n\n## Instruction")
        + "\n\n## Code After"
    )
    return {"messages": [system, {"role": "user", "content": zero}]}


@pytest.mark.parametrize(
    "prompt", ["chat", "chat-system", "commit", "editcoder", "zero-shot"]
)
def test_both_instructions_are_sent_in_each_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prompt: str
) -> None:
    with Solver() as provider:
        assert generate(monkeypatch, tmp_path, provider.url, "--prompt", prompt) == 0
    sampling = {
        "model": "gpt-4o",
        "temperature": 0.2,
        "top_p": 0.95,
        "max_tokens": 8192,
    }
    wanted = [
        {
            **sampling,
            "seed": seed,
            **expected(prompt, one.before, one.instruction(kind)),
        }
        for one in problems()
        for kind in KINDS
        for seed in (1, 2)
    ]
    assert sorted(provider.requests, key=repr) == sorted(
        ordered(wanted, provider), key=repr
    )
    text = prompt in ("commit", "editcoder")
    assert {*provider.paths} == {"/v1/completions" if text else "/v1/chat/completions"}


def ordered(wanted: list[dict[str, Any]], provider: Solver) -> list[dict[str, Any]]:
    """Return the requests with their keys in the order in which they were sent."""
    keys = list(provider.requests[0])
    assert all({*one} == {*keys} for one in wanted)
    return [{key: one[key] for key in keys} for one in wanted]


def test_options_choose_instruction_sampling_and_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = (
        "--set",
        "completions.kinds=lazy",
        "--completions",
        "3",
        "--set",
        "completions.temperature=0.8",
        "--set",
        "completions.top_p=1",
        "--set",
        "models.max_output_tokens=100",
    )
    with Solver() as provider:
        assert generate(monkeypatch, tmp_path, provider.url, *options) == 0
    assert by_seed(provider.requests) == sorted([1, 2, 3] * len(problems()))
    values = {
        (r["temperature"], r["top_p"], r["max_tokens"]) for r in provider.requests
    }
    assert values == {(0.8, 1.0, 100)}
    assert all(_asks(problem_of(r), r).endswith("lazy") for r in provider.requests)


def _asks(problem: Problem, request: dict[str, Any]) -> str:
    last = request["messages"][-1]["content"]
    return next(kind for kind in KINDS if last.endswith(problem.instruction(kind)))


def test_solutions_and_tests_are_never_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Solver() as provider:
        assert generate(monkeypatch, tmp_path, provider.url, "--prompt", "chat") == 0
    assert len(provider.requests) == 24
    for request in provider.requests:
        problem = problem_of(request)
        sent = repr(request)
        new = {*problem.after.splitlines()} - {*problem.before.splitlines()}
        hidden = {line.strip() for line in [*new, *problem.tests.splitlines()]}
        assert not [line for line in hidden if len(line) > 9 and line in sent]


WRONG = {
    (
        "--set",
        "completions.kinds=rude",
    ): "completions.kinds rude: must be 'descriptive' or 'lazy'",
    ("--set", "completions.top_p=0"): "completions.top_p 0: must be greater than 0",
    (
        "--set",
        "completions.temperature=2.5",
    ): "completions.temperature 2.5: must be at most 2",
    (
        "--models",
        "gpt-4o@diff",
    ): "--models gpt-4o@diff: completions have no edit format",
    ("--models", "gpt-4o,gpt-4o"): "--models names a model twice",
    ("--set", "models.tries=2"): "completions.each says how many",
    ("--set", "models.temperatures=0.5"): "completions.temperature says how",
    ("--set", "calls.replay=r"): "calls.replay: completions are not replayed",
    ("--set", "budget.seconds_per_attempt=9"): "a completion is one call",
    ("--set", "problems.v1=true"): "there is no setting problems.v1",
    ("--set", "problems.source=gone.jsonl"): "gone.jsonl does not exist",
    ("--run", "../r"): "--run '../r': letters, digits and ._+- only",
    ("--prompt", "shout"): "--prompt shout: must be 'chat', ",
    ("--completions", "0"): "--completions 0: must be at least 1",
    (
        "--models",
        "claude-opus-4-20250514",
        "--set",
        "budget.allow_unpriced=true",
        "--api-base",
        "",
        "--prompt",
        "commit",
    ): "has no plain-text completions",
}


@pytest.mark.parametrize("options", WRONG, ids=" ".join)
def test_wrong_options_are_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-none-of-any-use")
    assert generate(monkeypatch, tmp_path, "http://127.0.0.1:1/v1", *options) == 2
    said = capsys.readouterr().err
    assert WRONG[options] in said
    assert said.count("\n") == 1
    assert not (tmp_path / "predictions").exists()
