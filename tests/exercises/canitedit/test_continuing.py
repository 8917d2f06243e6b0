"""Runs that end early or are started again: keys, budgets, refusals, other options."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from core.errors import UserError
from exercises.canitedit.generation import READER
from harness import main as harness
from runs.storage.store import RunStore
from tests.support.canitedit import (
    RUN,
    Solver,
    bytes_of,
    files,
    generate,
    problems,
    run_folder,
)
from tests.support.commands import Preloaded
from tests.support.provider import Answer, Provider

LAZY = ("--set", "completions.kinds=lazy")


def test_a_wrong_key_ends_the_run_without_results(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    provider: Provider,
    capsys: pytest.CaptureFixture[str],
) -> None:
    provider.will_answer(Answer(status=401, error={"message": "no such key"}))
    assert generate(monkeypatch, tmp_path, provider.url) == 1
    said = capsys.readouterr().err
    assert "error: gpt-4o: the provider refused the key or the account" in said
    assert "no such key" in said
    assert len(provider.requests) <= 4, "one for each worker"
    names = {path.name for path in run_folder(tmp_path).iterdir()}
    assert names <= {"run.json", "ledger.jsonl", "harness.log"}
    provider.answers.clear()
    provider.will_answer("```py\nx = 1\n```")
    assert generate(monkeypatch, tmp_path, provider.url) == 0, (
        "with a right key it goes on"
    )
    assert len(files(tmp_path)) == 12


def test_a_budget_ends_a_run_that_continues_without_paying_twice(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Solver() as provider:
        assert (
            generate(
                monkeypatch, tmp_path, provider.url, *LAZY, "--set", "budget.calls=5"
            )
            == 1
        )
        assert len(provider.requests) == 5
        assert "over budget (budget.calls)" in capsys.readouterr().out
        assert all(len(file.completions) == 2 for file in files(tmp_path).values())
        assert (
            generate(
                monkeypatch, tmp_path, provider.url, *LAZY, "--set", "budget.calls=5"
            )
            == 1
        )
        assert len(provider.requests) == 5
        assert generate(monkeypatch, tmp_path, provider.url, *LAZY) == 0
        assert len(provider.requests) == 12
        assert {*hashes_with_seed(provider).values()} == {1}
        whole = tmp_path / "whole"
        assert generate(monkeypatch, whole, provider.url, *LAZY) == 0
    assert bytes_of(tmp_path) == bytes_of(whole)


def hashes_with_seed(provider: Provider) -> Counter[tuple[str, int]]:
    """Return how often each completion was asked for."""
    return Counter((repr(r["messages"]), r["seed"]) for r in provider.requests)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (
            ("--set", "completions.temperature=0.3"),
            "completions.temperature was 0.2, is 0.3",
        ),
        (("--completions", "3"), "completions.each was 2, is 3"),
        (("--prompt", "zero-shot"), "completions.prompt was chat, is zero-shot"),
        (("--models", "gpt-4o-mini"), "--models was gpt-4o, is gpt-4o-mini"),
        (("--set", "problems.source=one.jsonl"), "problems.source (its rows)"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_other_options_are_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    named: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.jsonl").write_text(problems()[0].model_dump_json())
    with Solver() as provider:
        assert (
            generate(monkeypatch, tmp_path, provider.url, "--set", "budget.calls=1")
            == 1
        )
        capsys.readouterr()
        assert generate(monkeypatch, tmp_path, provider.url, *options) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: run r was started with different settings: ")
    assert named in said
    assert said.count("\n") == 1
    assert len(provider.requests) == 1


def test_instructions_may_be_added_and_removed_files_come_back_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Solver() as provider:
        assert generate(monkeypatch, tmp_path, provider.url, *LAZY) == 0
        assert len(provider.requests) == 12
        assert generate(monkeypatch, tmp_path, provider.url) == 0
        assert len(provider.requests) == 24
        before = bytes_of(tmp_path)
        for path in [*(run_folder(tmp_path) / "gpt-4o").iterdir()][:5]:
            path.unlink()
        assert generate(monkeypatch, tmp_path, provider.url) == 0
        assert len(provider.requests) == 24
    assert bytes_of(tmp_path) == before


def test_other_commands_name_the_one_that_reads_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, preloaded: Preloaded
) -> None:
    with Solver() as provider:
        options = ("--completions", "1", *LAZY)
        assert generate(monkeypatch, tmp_path, provider.url, *options) == 0
    folder = run_folder(tmp_path)
    assert json.loads((folder / "run.json").read_text())["read_with"] == READER
    with pytest.raises(UserError, match=READER):
        RunStore.of_folder(folder)
    for script, *argv in (
        ("report.py", str(folder)),
        ("harness.py", "status", RUN, "--out", str(tmp_path)),
        (
            "harness.py",
            "--dataset",
            "demo",
            "--models",
            "gpt-4o",
            "--run",
            RUN,
            "--out",
            str(tmp_path),
            "--environment",
            "none",
            "--api-base",
            "http://127.0.0.1:1/v1",
        ),
    ):
        ended = preloaded.run(*argv, script=script)
        assert ended.returncode == 2, ended.stdout
        assert READER in ended.stdout
        assert ended.stdout.count("\n") == 1


REFUSED = Answer(
    status=400, error={"message": "max_tokens is too large", "type": "invalid"}
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
    seeds = (2,)

    def answer(self, request: dict[str, Any]) -> Answer:
        if request["seed"] in self.seeds:
            return self.refusal
        return super().answer(request)


def test_refused_completions_are_empty_and_counted(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Refusing() as provider:
        assert generate(monkeypatch, tmp_path, provider.url, *LAZY) == 0
    for file in files(tmp_path).values():
        assert list(map(bool, file.completions)) == [True, False]
    assert "2 completions, 1 request refused" in capsys.readouterr().out
    records = []
    for path in run_folder(tmp_path).glob("gpt-4o-*"):
        records.append(json.loads(path.read_text()))
    assert [(record["empty"], record["refused"]) for record in records] == [(1, 1)] * 6
    # A program that is too long for a model is its result, even if no completion is left.
    with Refusing() as provider:
        provider.refusal = TOO_LONG
        provider.seeds = (1, 2)
        assert generate(monkeypatch, tmp_path / "long", provider.url, *LAZY) == 0
    assert len(files(tmp_path / "long")) == 6


@pytest.mark.parametrize("word", ["error", "not_generated"])
def test_a_run_whose_requests_are_all_refused_says_why(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    word: str,
) -> None:
    with Refusing() as provider:
        provider.seeds = (1, 2)
        assert generate(monkeypatch, tmp_path, provider.url, *LAZY) == 1
        said = capsys.readouterr().out
        assert "every request was refused: gpt-4o:" in said
        assert "max_tokens is too large" in said
        assert files(tmp_path) == {}
        provider.seeds = ()
        assert generate(monkeypatch, tmp_path, provider.url, *LAZY) == 1
        assert len(provider.requests) == 12, "they are not asked again by themselves"
        assert generate(monkeypatch, tmp_path, provider.url, *LAZY, "--redo", word) == 0
        assert len(files(tmp_path)) == 6
        place = run_folder(tmp_path) / "gpt-4o"
        stale = place / "1001_clamp_instruction_lazy.results.json.gz"
        stale.write_text("of the completions before")
        one = "gpt-4o-1001_clamp_instruction_lazy"
        assert generate(monkeypatch, tmp_path, provider.url, *LAZY, "--redo", one) == 0
    assert len(provider.requests) == 26
    assert len([*place.iterdir()]) == 6
    assert not stale.exists()


def test_status_json_and_removal(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Solver() as provider:
        url = provider.url
        assert (
            generate(
                monkeypatch,
                tmp_path,
                url,
                *LAZY,
                "--set",
                "budget.calls=5",
                "--format",
                "json",
            )
            == 1
        )
        *_, last = capsys.readouterr().out.splitlines()
        counts = json.loads(last)["counts"]
        assert counts["generated"] + counts["budget"] <= 6
        assert generate(monkeypatch, tmp_path, url, *LAZY) == 0
    words = ["harness.py", "clean", RUN, "--out", str(tmp_path), "--all", "--yes"]
    monkeypatch.setattr(sys, "argv", words)
    assert harness() == 0
    assert not run_folder(tmp_path).exists()
