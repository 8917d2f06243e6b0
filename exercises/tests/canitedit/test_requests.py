"""What is sent: the texts byte for byte, sampling, and nothing that a model must not know."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from exercises.tests.canitedit.conftest import generate
from exercises.tests.canitedit.test_prompts import ANSWER, ONE_SHOT, SYSTEM
from exercises.tests.support.canitedit import (
    Solver,
    by_seed,
    files,
    problem_of,
    problems,
)
from swe_retry_exercises.canitedit.problems import ALL_PROBLEMS, FIRST_PAPER, KINDS

STOPS = {
    "editcoder": [
        "## Code After:",
        "## Instruction:",
        "## Code Before:",
        "## Test Case:",
        "## Explanation:",
    ],
    "commit": ["<commit_before>", "<commit_msg>", "<commit_after>"],
}


def expected_texts(prompt: str, before: str, instruction: str) -> dict[str, Any]:
    """Return the texts of a request as the protocol has them."""
    if prompt == "commit":
        text = f"<commit_before>{before}<commit_msg>{instruction}<commit_after>"
        return {"prompt": text, "stop": STOPS[prompt]}
    if prompt == "editcoder":
        text = f"## Code Before:\n{before}\n## Instruction:\n{instruction}\n## Code After:\n"
        return {"prompt": text, "stop": STOPS[prompt]}
    code = f"## Code Before\n```py\n{before}\n```\n"
    turn = f"{code}## Instruction\n{instruction}"
    system = ("system", SYSTEM)
    answer = ("assistant", ANSWER)
    messages = {
        "chat": [
            ("user", f"{SYSTEM}\n\n{ONE_SHOT}"),
            answer,
            ("user", f"{SYSTEM}\n\n{turn}"),
        ],
        "chat-system": [system, ("user", ONE_SHOT), answer, ("user", turn)],
        "zero-shot": [
            system,
            ("user", f"{code}\n## Instruction\n{instruction}\n\n## Code After"),
        ],
    }[prompt]
    return {"messages": [{"role": role, "content": text} for role, text in messages]}


@pytest.mark.parametrize(
    "prompt", ["chat", "chat-system", "commit", "editcoder", "zero-shot"]
)
def test_both_instructions_are_sent_in_each_prompt(
    tmp_path: Path, solver: Solver, prompt: str
) -> None:
    assert generate(solver, tmp_path, f"--prompt {prompt} --completions 1").code == 0
    sampling = {
        "model": "gpt-4o",
        "temperature": 0.2,
        "top_p": 0.95,
        "max_tokens": 8192,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    expected = []
    for problem in problems():
        for kind in KINDS:
            texts = expected_texts(prompt, problem.before, problem.instruction(kind))
            expected.append(sampling | texts | {"seed": 1})
    requests = list(solver.requests)
    assert len(requests) == len(expected)
    for request in expected:
        requests.remove(request)
    path = "/v1/chat/completions"
    if prompt in STOPS:
        path = "/v1/completions"
    assert set(solver.paths) == {path}
    # Solutions and tests are never sent.
    for request in solver.requests:
        problem = problem_of(request)
        sent = repr(request)
        new = set(problem.after.splitlines()) - set(problem.before.splitlines())
        hidden = {line.strip() for line in [*new, *problem.tests.splitlines()]}
        assert not [line for line in hidden if len(line) > 9 and line in sent]


def test_the_problems_of_the_first_paper_alone_are_asked(
    tmp_path: Path, solver: Solver
) -> None:
    rows = []
    for number, name in enumerate(sorted(ALL_PROBLEMS)):
        row = problems()[number % 6].model_dump(mode="json")
        rows.append(json.dumps({**row, "id": number, "full_name": name}))
    source = tmp_path / "rows.jsonl"
    source.write_text("\n".join(rows))
    first = f"--set problems.source={source} --set problems.v1=true"
    lazy = "--set completions.kinds=lazy --completions 1"
    assert generate(solver, tmp_path, f"{first} {lazy}").code == 0
    names = {file.full_name for file in files(tmp_path).values()}
    assert names == FIRST_PAPER
    assert len(solver.requests) == 54
    # Another set is another run.
    other = generate(solver, tmp_path, f"--set problems.source={source} {lazy}")
    assert other.code == 2


def test_options_choose_instruction_sampling_and_number(
    tmp_path: Path, solver: Solver
) -> None:
    options = (
        "--completions 3 --set completions.kinds=lazy --set completions.temperature=0.8"
        " --set completions.top_p=1 --set models.max_output_tokens=100"
    )
    assert generate(solver, tmp_path, options).code == 0
    assert by_seed(solver.requests) == sorted([1, 2, 3] * len(problems()))
    for request in solver.requests:
        sampling = (request["temperature"], request["top_p"], request["max_tokens"])
        assert sampling == (0.8, 1.0, 100)
        instruction = problem_of(request).instruction("lazy")
        assert request["messages"][-1]["content"].endswith(instruction)
        # Chat models are asked in the paper's prompt.
        roles = [message["role"] for message in request["messages"]]
        assert roles == ["system", "user", "assistant", "user"]


def test_wrong_options_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-none-of-any-use")
    claude = (
        "--models claude-opus-4-20250514 --set budget.allow_unpriced=true --api-base ''"
    )
    for options, problem in {
        "--set completions.kinds=rude": "completions.kinds rude: must be 'descriptive' or 'lazy'",
        "--set completions.top_p=0": "completions.top_p 0: must be greater than 0",
        "--set completions.temperature=2.5": "completions.temperature 2.5: must be at most 2",
        "--models gpt-4o@diff": "--models gpt-4o@diff: completions have no edit format",
        "--models gpt-4o,gpt-4o": "--models names a model twice",
        "--set models.tries=2": "completions.each says how many",
        "--set models.temperatures=0.5": "completions.temperature says how",
        "--set calls.replay=r": "calls.replay: completions are not replayed",
        "--set budget.seconds_per_attempt=9": "a completion is one call",
        "--set problems.v1=true": "has 0 of the 54 problems of problems.v1",
        "--set problems.source=gone.jsonl": "gone.jsonl does not exist",
        "--run ../r": "--run '../r': letters, digits and ._+- only",
        "--prompt shout": "--prompt shout: must be 'chat', ",
        "--completions 0": "--completions 0: must be at least 1",
        f"{claude} --prompt commit": "has no plain-text completions",
    }.items():
        ended = generate(None, tmp_path, options)
        assert ended.code == 2
        assert problem in ended.err
        assert ended.err.count("\n") == 1
        assert not (tmp_path / "predictions").exists()
