"""What is written: the public layout with replies, tokens and costs; equal files; the report."""

from __future__ import annotations

import gzip
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exercises.canitedit.__main__ import PROGRAM
from exercises.canitedit.problems import KINDS, Problem
from exercises.canitedit.results import write_file
from tests.support.canitedit import (
    ROWS,
    Solver,
    failed,
    files,
    generate,
    passed,
    problems,
    run_folder,
)
from tests.support.provider import Answer

# Of the recorded run, without ``results``.
PUBLIC = {
    "id", "name", "full_name", "before", "after", "tests", "instruction_descriptive",
    "instruction_lazy", "taxonomy", "instr_kind", "prompt", "language", "temperature", "top_p",
    "max_tokens", "stop_tokens", "script_args",
}  # fmt: skip
LAZY = "1001_clamp_instruction_lazy.json.gz"


class Varied(Solver):
    """Solves, forgets the fence, is cut off, and returns the program as it was."""

    def answer(self, request: dict[str, Any]) -> Answer:
        seed = request["seed"]
        finish = "stop"
        if seed == 3:
            finish = "length"
        return replace(super().answer(request), finish=finish, tokens=(100 + seed, 10))

    def text(self, problem: Problem, request: dict[str, Any]) -> str:
        code = problem.after.splitlines()
        return {
            1: f"```py\n{problem.after}\n```\n",
            2: problem.after,
            3: f"```py\n{code[0]}\n    return ",
            4: f"```\n{problem.before}\n```",
        }[request["seed"]]


@pytest.fixture
def varied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of four different completions of each problem."""
    with Varied() as provider:
        assert generate(monkeypatch, tmp_path, provider.url, "--completions", "4") == 0
    return tmp_path


def test_a_file_has_the_public_layout_with_replies_tokens_and_costs(
    varied: Path,
) -> None:
    folder = run_folder(varied) / "gpt-4o"
    names = {
        f"{p.full_name}_instruction_{kind}.json.gz"
        for p in problems()
        for kind in KINDS
    }
    assert {path.name for path in folder.iterdir()} == names
    found = json.loads(gzip.decompress((folder / LAZY).read_bytes()))
    ours = {"completions", "replies", "truncated", "tokens", "cost"}
    assert {*found} == PUBLIC | ours
    clamp = problems()[0]
    code = clamp.after.splitlines()
    assert found["completions"] == [
        f"{clamp.after}\n",
        "",
        f"{code[0]}\n    return \n",
        f"{clamp.before}\n",
    ]
    assert found["replies"][1] == clamp.after
    assert found["truncated"] == [False, False, True, False]
    assert found["tokens"][3] == {"prompt_tokens": 104, "completion_tokens": 10}
    assert found["cost"][0] == "0.0003525"
    assert found["script_args"] == {"model": "gpt-4o", "prompt": "chat"}
    assert (found["temperature"], found["top_p"], found["max_tokens"]) == (
        0.2,
        0.95,
        8192,
    )
    assert found["tests"] == clamp.tests


def test_what_is_odd_is_counted(
    varied: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert (
        generate(monkeypatch, varied, "http://127.0.0.1:1/v1", "--completions", "4")
        == 0
    )
    said = capsys.readouterr().out
    assert ", and is http://127.0.0.1:1/v1" in said, "the server moved"
    record = json.loads((run_folder(varied) / f"gpt-4o-{LAZY[:-8]}.json").read_text())
    assert record["status"] == "generated"
    numbers = ("completions", "truncated", "empty", "unchanged", "refused")
    assert [record[name] for name in numbers] == [4, 1, 1, 1, 0]
    assert record["cost"] == pytest.approx(0.0014250)


def test_equal_completions_give_equal_files(
    tmp_path: Path, varied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    with Varied() as provider:
        options = ("--completions", "4", "--workers", "1")
        assert generate(monkeypatch, other, provider.url, *options) == 0
    for path in (run_folder(varied) / "gpt-4o").iterdir():
        assert (
            path.read_bytes() == (run_folder(other) / "gpt-4o" / path.name).read_bytes()
        )
    for path in run_folder(varied).glob("gpt-4o-*.json"):
        assert path.read_bytes() == (run_folder(other) / path.name).read_bytes()


def test_the_report_reads_it_once_it_is_evaluated(
    varied: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = run_folder(varied) / "gpt-4o"
    for file in files(varied).values():
        first, *others = file.completions
        results = (
            passed(f"{first}\n"),
            *(failed(f"{program}\n") for program in others),
        )
        write_file(folder, file.model_copy(update={"results": results}))
    capsys.readouterr()
    argv = [
        "exercises.canitedit",
        "report",
        str(run_folder(varied)),
        "--set",
        "report.k=1",
        "--format",
        "json",
    ]
    monkeypatch.setattr(sys, "argv", argv)
    assert PROGRAM.dispatch() == 0
    report = json.loads(capsys.readouterr().out)
    text = json.dumps(report)
    for figure in ("truncated", "without_fence", "empty", "unchanged"):
        assert f'"{figure}": 0.25' in text, figure


def test_each_model_has_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = "openai/m,azure/m,gpt-4o-mini"
    options = (
        "--models",
        models,
        "--set",
        "budget.allow_unpriced=true",
        "--set",
        "completions.kinds=lazy",
    )
    with Solver() as provider:
        assert generate(monkeypatch, tmp_path, provider.url, *options) == 0
    folders = {path.name for path in run_folder(tmp_path).iterdir() if path.is_dir()}
    assert folders == {"openai-m", "azure-m", "gpt-4o-mini"}
    assert all(len(files(tmp_path, name)) == len(problems()) for name in folders)
    record = json.loads(
        (run_folder(tmp_path) / f"azure-m-{LAZY[:-8]}.json").read_text()
    )
    assert record["cost"] is None, "no price is known"


def test_a_secret_that_a_model_repeats_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sk-0123456789abcdef0123"
    monkeypatch.setenv("OPENAI_API_KEY", secret)

    class Telling(Solver):
        def text(self, problem: Problem, request: dict[str, Any]) -> str:
            return f"```py\nkey = {secret!r}\n```"

    with Telling() as provider:
        assert generate(monkeypatch, tmp_path, provider.url) == 0
    for file in files(tmp_path).values():
        assert secret not in repr(file)


def test_rows_of_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [json.loads(line) for line in ROWS.read_text().splitlines()]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    options = (
        "--set",
        f"problems.source={tmp_path / 'rows.parquet'}",
        "--completions",
        "1",
    )
    with Solver() as provider:
        assert generate(monkeypatch, tmp_path, provider.url, *options) == 0
    assert len(files(tmp_path)) == 12
