"""What is written: the public layout with replies, tokens and costs; equal files; the report."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exercises.tests.canitedit.conftest import NO_SERVER, generate
from exercises.tests.canitedit.test_results import LAYOUT
from exercises.tests.commands import CANITEDIT
from exercises.tests.support.canitedit import (
    ROWS,
    Solver,
    failed,
    files,
    passed,
    plain,
    problems,
    run_folder,
)
from swe_retry_exercises.canitedit.problems import KINDS, Problem
from swe_retry_exercises.canitedit.results import write_file
from tests.support.provider import Answer

CLAMP = "1001_clamp_instruction_lazy"
FOUR = "--completions 4"


class Varied(Solver):
    """Solves, forgets the fence, is cut off, and returns the program as it was."""

    def answer(self, request: dict[str, Any]) -> Answer:
        seed = request["seed"]
        finish = "stop"
        if seed == 3:
            finish = "length"
        answer = super().answer(request)
        return replace(answer, finish=finish, tokens=(100 + seed, 10))

    def text(self, problem: Problem, request: dict[str, Any]) -> str:
        first_line = problem.after.splitlines()[0]
        by_seed = {
            1: f"```py\n{problem.after}\n```\n",
            2: problem.after,
            3: f"```py\n{first_line}\n    return ",
            4: f"```\n{problem.before}\n```",
        }
        return by_seed[request["seed"]]


@pytest.fixture(scope="module")
def varied_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four different completions of each problem."""
    folder = tmp_path_factory.mktemp("varied")
    with Varied() as provider:
        assert generate(provider, folder, FOUR).code == 0
    return folder


def record_of(out: Path, model: str) -> dict[str, Any]:
    path = run_folder(out) / f"{model}-{CLAMP}.json"
    return dict(json.loads(path.read_text()))


def test_a_file_has_the_public_layout_with_replies_tokens_and_costs(
    varied_run: Path,
) -> None:
    folder = run_folder(varied_run) / "gpt-4o"
    names = set()
    for problem in problems():
        for kind in KINDS:
            names.add(f"{problem.full_name}_instruction_{kind}.json.gz")
    assert {path.name for path in folder.iterdir()} == names
    content = plain(folder / f"{CLAMP}.json.gz")
    ours = {"completions", "replies", "truncated", "tokens", "cost"}
    assert set(content) == {*LAYOUT.split(), *ours}
    clamp = problems()[0]
    first_line = clamp.after.splitlines()[0]
    assert content["completions"] == [
        f"{clamp.after}\n",
        "",
        f"{first_line}\n    return \n",
        f"{clamp.before}\n",
    ]
    assert content["replies"][1] == clamp.after
    assert content["truncated"] == [False, False, True, False]
    assert content["tokens"][3] == {
        "prompt_tokens": 104,
        "completion_tokens": 10,
    }
    assert content["cost"][0] == "0.0003525"
    assert content["script_args"] == {
        "model": "gpt-4o",
        "prompt": "chat-system",
    }
    assert content["temperature"] == 0.2
    assert content["top_p"] == 0.95
    assert content["max_tokens"] == 8192
    assert content["tests"] == clamp.tests


def test_what_is_odd_is_counted(varied_run: Path) -> None:
    ended = generate(None, varied_run, FOUR)
    assert ended.code == 0
    assert f", and is {NO_SERVER}" in ended.out, "the server moved"
    record = record_of(varied_run, "gpt-4o")
    assert record["status"] == "generated"
    assert record["completions"] == 4
    assert record["truncated"] == 1
    assert record["empty"] == 1
    assert record["unchanged"] == 1
    assert record["refused"] == 0
    assert record["cost"] == pytest.approx(0.0014250)


def test_equal_completions_give_equal_files(tmp_path: Path, varied_run: Path) -> None:
    with Varied() as provider:
        assert generate(provider, tmp_path, f"{FOUR} --workers 1").code == 0
    folder = run_folder(varied_run)
    paths = list((folder / "gpt-4o").iterdir())
    paths += folder.glob("gpt-4o-*.json")
    for path in paths:
        other = run_folder(tmp_path) / path.relative_to(folder)
        assert path.read_bytes() == other.read_bytes()


def test_the_report_reads_it_once_it_is_evaluated(
    varied_run: Path,
    tmp_path: Path,
) -> None:
    folder = run_folder(tmp_path)
    shutil.copytree(run_folder(varied_run), folder)
    for file in files(tmp_path).values():
        first, *others = [f"{program}\n" for program in file.completions]
        results = [passed(first)]
        results += map(failed, others)
        evaluated = file.model_copy(update={"results": tuple(results)})
        write_file(folder / "gpt-4o", evaluated)
    output = CANITEDIT.output(f"report {folder} --set report.k=1 --format json")
    text = json.dumps(json.loads(output))
    for figure in ("truncated", "without_fence", "empty", "unchanged"):
        assert f'"{figure}": 0.25' in text, figure


def test_each_model_has_a_folder(tmp_path: Path, solver: Solver) -> None:
    models = "openai/m,azure/m,gpt-4o-mini"
    settings = "--set budget.allow_unpriced=true --set completions.kinds=lazy"
    settings += " --completions 1"
    assert generate(solver, tmp_path, f"--models {models} {settings}").code == 0
    folders = set()
    for path in run_folder(tmp_path).iterdir():
        if path.is_dir():
            folders.add(path.name)
    assert folders == {"openai-m", "azure-m", "gpt-4o-mini"}
    for name in folders:
        assert len(files(tmp_path, name)) == len(problems())
    assert record_of(tmp_path, "azure-m")["cost"] is None, "no price is known"


def test_a_secret_that_a_model_repeats_is_not_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secret = "sk-0123456789abcdef0123"
    monkeypatch.setenv("OPENAI_API_KEY", secret)

    class Telling(Solver):
        def text(self, problem: Problem, request: dict[str, Any]) -> str:
            return f"```py\nkey = {secret!r}\n```"

    with Telling() as provider:
        assert generate(provider, tmp_path, "--completions 1").code == 0
    assert len(files(tmp_path)) == 12
    for file in files(tmp_path).values():
        assert secret not in repr(file)


def test_rows_of_parquet(tmp_path: Path, solver: Solver) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "rows.parquet"
    rows = [json.loads(line) for line in ROWS.read_text().splitlines()]
    pq.write_table(pa.Table.from_pylist(rows), path)
    options = f"--set problems.source={path} --completions 1"
    assert generate(solver, tmp_path, options).code == 0
    assert len(files(tmp_path)) == 12
