"""Runs that end early or are started again: keys, budgets, refusals, other options."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from exercises.tests.canitedit.conftest import NO_SERVER, generate
from exercises.tests.support.canitedit import (
    RUN,
    Solver,
    bytes_of,
    files,
    problem_of,
    problems,
    run_folder,
)
from swe_retry.cli.harness import main as harness
from swe_retry.core.errors import UserError
from swe_retry.record.store import RunStore
from swe_retry_exercises.canitedit.generation import READER
from tests.support.commands import Preloaded
from tests.support.provider import Answer, Provider

LAZY = "--set completions.kinds=lazy"
FIVE_CALLS = f"{LAZY} --set budget.calls=5"


def test_a_wrong_key_ends_the_run_without_results(
    tmp_path: Path,
    provider: Provider,
) -> None:
    provider.will_answer(Answer(status=401, error={"message": "no such key"}))
    ended = generate(provider, tmp_path, LAZY)
    assert ended.code == 2
    assert "error: gpt-4o: the provider refused the key or the account" in ended.err
    assert "no such key" in ended.err
    assert len(provider.requests) <= 4, "one for each worker"
    names = {path.name for path in run_folder(tmp_path).iterdir()}
    assert names <= {"run.json", "ledger.jsonl", "harness.log"}
    provider.answers.clear()
    provider.will_answer("```py\nx = 1\n```")
    assert generate(provider, tmp_path, LAZY).code == 0, "with a right key it goes on"
    assert len(files(tmp_path)) == 6


def test_a_budget_ends_a_run_that_continues_without_paying_twice(
    tmp_path: Path,
    solver: Solver,
) -> None:
    ended = generate(solver, tmp_path, f"{FIVE_CALLS} --format json")
    assert ended.code == 1
    *_, last_line = ended.out.splitlines()
    counts = json.loads(last_line)["counts"]
    assert counts["generated"] + counts["budget"] <= 6
    assert len(solver.requests) == 5
    for file in files(tmp_path).values():
        assert len(file.completions) == 2
    ended = generate(solver, tmp_path, FIVE_CALLS)
    assert ended.code == 1
    assert "over budget (budget.calls)" in ended.out
    assert len(solver.requests) == 5
    assert generate(solver, tmp_path, LAZY).code == 0
    assert len(solver.requests) == 12
    bought = Counter[tuple[str, int]]()
    for request in solver.requests:
        bought[repr(request["messages"]), request["seed"]] += 1
    assert set(bought.values()) == {1}
    uninterrupted = tmp_path / "uninterrupted"
    assert generate(solver, uninterrupted, LAZY).code == 0
    assert bytes_of(tmp_path) == bytes_of(uninterrupted)


def test_other_options_are_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    solver: Solver,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.jsonl").write_text(problems()[0].model_dump_json())
    assert generate(solver, tmp_path, "--set budget.calls=1").code == 1
    differences = {
        "--set completions.temperature=0.3": "completions.temperature was 0.2, is 0.3",
        "--completions 3": "completions.each was 2, is 3",
        "--prompt zero-shot": "completions.prompt was chat-system, is zero-shot",
        "--models gpt-4o-mini": "--models was gpt-4o, is gpt-4o-mini",
        "--set problems.source=one.jsonl": "problems.source (its rows)",
    }
    for options, difference in differences.items():
        ended = generate(solver, tmp_path, options)
        assert ended.code == 2
        problem = "error: run r was started with different settings: "
        assert ended.err.startswith(problem)
        assert difference in ended.err
        assert ended.err.count("\n") == 1
    assert len(solver.requests) == 1


def test_instructions_may_be_added_and_removed_files_come_back_for_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    solver: Solver,
) -> None:
    assert generate(solver, tmp_path, LAZY).code == 0
    assert len(solver.requests) == 12
    assert generate(solver, tmp_path).code == 0
    assert len(solver.requests) == 24
    before = bytes_of(tmp_path)
    paths = list((run_folder(tmp_path) / "gpt-4o").iterdir())
    for path in paths[:5]:
        path.unlink()
    assert generate(solver, tmp_path).code == 0
    assert len(solver.requests) == 24
    assert bytes_of(tmp_path) == before
    argv = f"harness.py clean {RUN} --out {tmp_path} --all --yes".split()
    monkeypatch.setattr("sys.argv", argv)
    assert harness() == 0
    assert not run_folder(tmp_path).exists()


def test_other_commands_name_the_one_that_reads_the_run(
    tmp_path: Path,
    solver: Solver,
    preloaded: Preloaded,
) -> None:
    assert generate(solver, tmp_path, f"{LAZY} --completions 1").code == 0
    folder = run_folder(tmp_path)
    assert json.loads((folder / "run.json").read_text())["read_with"] == READER
    with pytest.raises(UserError, match=READER):
        RunStore.of_folder(folder)
    for line in (
        f"report.py {folder}",
        f"harness.py status {RUN} --out {tmp_path}",
        f"harness.py --dataset demo --models gpt-4o --run {RUN} --out {tmp_path}"
        f" --environment none --api-base {NO_SERVER}",
    ):
        script, *argv = line.split()
        ended = preloaded.run(*argv, script=script)
        assert ended.returncode == 2, ended.stdout
        assert READER in ended.stdout
        assert ended.stdout.count("\n") == 1


REFUSED = Answer(
    status=400,
    error={
        "message": "max_tokens is too large",
        "type": "invalid",
    },
)

TOO_LONG = Answer(
    status=400,
    error={
        "message": "This model's maximum context length is 9 tokens. You requested 99.",
        "code": "context_length_exceeded",
    },
)


class Refusing(Solver):
    """Refuses the second completion, or all of them."""

    refusal = REFUSED
    seeds: tuple[int, ...] = (2,)

    def answer(self, request: dict[str, Any]) -> Answer:
        if request["seed"] in self.seeds:
            return self.refusal
        return super().answer(request)


class TooLong(Solver):
    """Refuses all requests about one problem as too long."""

    def answer(self, request: dict[str, Any]) -> Answer:
        if problem_of(request) == problems()[0]:
            return TOO_LONG
        return super().answer(request)


def test_refused_completions_are_empty_and_counted(tmp_path: Path) -> None:
    with Refusing() as provider:
        ended = generate(provider, tmp_path, LAZY)
    assert ended.code == 0
    for file in files(tmp_path).values():
        assert list(map(bool, file.completions)) == [True, False]
    assert "2 completions, 1 request refused" in ended.out
    records = list(run_folder(tmp_path).glob("gpt-4o-*"))
    assert len(records) == 6
    for path in records:
        record = json.loads(path.read_text())
        assert record["empty"] == 1
        assert record["refused"] == 1
    # A program that is too long for a model is its result, even if no completion is left.
    with TooLong() as provider:
        assert generate(provider, tmp_path / "long", LAZY).code == 0
    assert len(files(tmp_path / "long")) == 6


def test_a_run_that_no_model_answers_is_no_result(tmp_path: Path) -> None:
    with Refusing() as provider:
        provider.refusal = TOO_LONG
        provider.seeds = (1, 2)
        ended = generate(provider, tmp_path, f"{LAZY} --format json")
        assert ended.code == 1
        *_, last_line = ended.out.splitlines()
        summary = json.loads(last_line)
        assert summary["exit_code"] == 1
        assert "maximum context length is 9 tokens" in summary["stopped"]
        ended = generate(provider, tmp_path, LAZY)
        assert ended.code == 1, "the same command says so again"
        assert "every request was refused: gpt-4o: " in ended.out
        provider.seeds = ()
        _, _, advice = ended.out.partition("repeat with ")
        redo, _, _ = advice.partition("\n")
        assert generate(provider, tmp_path, f"{LAZY} {redo}").code == 0


def test_a_run_whose_requests_are_all_refused_says_why(tmp_path: Path) -> None:
    with Refusing() as provider:
        provider.seeds = (1, 2)
        ended = generate(provider, tmp_path, LAZY)
        assert ended.code == 1
        assert "every request was refused: gpt-4o:" in ended.out
        assert "max_tokens is too large" in ended.out
        assert files(tmp_path) == {}
        assert generate(provider, tmp_path, f"{LAZY} --redo error").code == 1
        assert len(provider.requests) == 24
        provider.seeds = ()
        assert generate(provider, tmp_path, LAZY).code == 1
        assert len(provider.requests) == 24, "they are not asked again by themselves"
        assert generate(provider, tmp_path, f"{LAZY} --redo not_generated").code == 0
        assert len(files(tmp_path)) == 6
        name = "1001_clamp_instruction_lazy"
        folder = run_folder(tmp_path) / "gpt-4o"
        stale = folder / f"{name}.results.json.gz"
        stale.write_text("of the completions before")
        assert generate(provider, tmp_path, f"{LAZY} --redo gpt-4o-{name}").code == 0
    assert len(provider.requests) == 38
    assert len(list(folder.iterdir())) == 6
    assert not stale.exists()
