"""From repositories to a score: every command once, on repositories and problems of our own."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from exercises.tests.support.canitedit import ROWS as PROBLEM_ROWS
from exercises.tests.support.editpack import (
    edits,
    read_rows,
    recipe,
    report_beside,
    write_model,
    write_rows,
)
from swe_retry.environments.local.bubblewrap import bubblewrap_works
from swe_retry_exercises.editpack.rows import CONTENT, NEW, OLD, EditRow
from tests.support import TOP, WITH_EXERCISES, sha256_of

pytest.importorskip(
    "torch", reason="torch is not installed (exercises/requirements-train.txt)"
)
pytest.importorskip(
    "trl", reason="trl is not installed (exercises/requirements-train.txt)"
)
pytestmark = pytest.mark.long

REPOSITORIES = 3
EDITS = 420
PROBLEMS = 12
LICENSE = "MIT License\n\nCopyright (c) 2026 The authors\n\nPermission is hereby granted, free of "
LICENSE += "charge, to any person obtaining a copy of this software.\n"
ENVIRONMENT = {
    **os.environ,
    **WITH_EXERCISES,
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "OPENAI_API_KEY": "-",
}


def run(line: str) -> str:
    """Run a command of a module and return what it prints."""
    command = [sys.executable, "-m", *shlex.split(line)]
    ended = subprocess.run(
        command, cwd=TOP, env=ENVIRONMENT, text=True, capture_output=True
    )
    assert ended.returncode == 0, f"{command}\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout


def make_repository(folder: Path, rows: Sequence[EditRow]) -> Path:
    """Make a repository that adds a file for each row, and then edits one in each commit."""
    files = {f"numbers/n{number}.py": row for number, row in enumerate(rows)}
    added = {"LICENSE": LICENSE, **{name: row[OLD] for name, row in files.items()}}
    stream = commit("Add numbers", added)
    for name, row in files.items():
        stream += commit(
            f"{row['message']}\n\nSigned-off-by: A <a@b.c>", {name: row[NEW]}
        )
    subprocess.run(["git", "init", "-q", "-b", "main", folder], check=True)
    subprocess.run(
        ["git", "fast-import", "--quiet"], cwd=folder, input=stream.encode(), check=True
    )
    return folder


def commit(message: str, files: dict[str, str]) -> str:
    """Return a commit on main as ``git fast-import`` reads it."""
    head = f"commit refs/heads/main\ncommitter A <a@b.c> 1700000000 +0000\ndata {len(message)}\n"
    blobs = (
        f"M 644 inline {name}\ndata {len(text)}\n{text}\n"
        for name, text in files.items()
    )
    return f"{head}{message}\n{''.join(blobs)}\n"


def problem(number: int, row: EditRow) -> dict[str, Any]:
    """Return an edit as a problem: its test looks at the number."""
    name = row[NEW].split()[0]
    return {
        "id": number,
        "name": f"{name}_{number}",
        "full_name": f"{number}_{name}",
        "before": row[OLD],
        "after": row[NEW],
        "tests": f"assert {name} == 8\n",
        "instruction_descriptive": row["message"],
        "instruction_lazy": row["message"],
        "taxonomy": {"change_kind": "adaptive", "libraries": [], "topic": "Misc"},
    }


@contextmanager
def serve_model(model: Path) -> Iterator[str]:
    """Serve a model on loopback by ``transformers serve``; yield the address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = Path(sys.executable).with_name("transformers")
    # The server takes requests for the name alone under which it was started.
    line = f"serve {model.name} --device cpu --host 127.0.0.1 --port {port}"
    process = subprocess.Popen(
        [str(program), *line.split()],
        cwd=model.parent,
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while not answers(f"http://127.0.0.1:{port}/health"):
            assert process.poll() is None
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait()


def answers(url: str) -> bool:
    try:
        with urlopen(url) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def pass_at_1(model: Path, problems: Path, home: Path) -> float:
    """Return the score of a model."""
    name = model.name
    cache = f"--set folders.cache={home / 'cache'}"
    with serve_model(model) as url:
        run(
            f"swe_retry_exercises.canitedit run --models {name} --api-base {url} --prompt editcoder"
            " --completions 1 --set completions.kinds=descriptive"
            " --set completions.temperature=0 --set models.max_output_tokens=80"
            f" --set problems.source={problems} --run {name} --out {home} {cache}"
            " --workers 1 --set budget.allow_unpriced=true"
        )
    report = run(
        f"swe_retry_exercises.canitedit report {home / 'predictions' / name / name} --workers 2"
        f" --format json --set evaluation.interpreter={sys.executable} {cache}"
        " --set report.k=1 --set report.allow_partial=true"
    )
    row, *_ = json.loads(report)["rows"]
    assert row["instruction"] == "descriptive"
    assert row["problems"] == PROBLEMS
    return float(row["pass@1"])


@pytest.mark.skipif(not bubblewrap_works(), reason="bubblewrap is not installed")
def test_from_repositories_to_a_better_score(tmp_path: Path) -> None:
    rows = edits(EDITS + PROBLEMS)
    problem_rows = rows[:PROBLEMS]
    training_rows = rows[PROBLEMS:]
    repositories = []
    for n in range(REPOSITORIES):
        folder = tmp_path / f"repository{n}"
        repositories.append(make_repository(folder, training_rows[n::REPOSITORIES]))
    problems = write_rows(
        tmp_path / "problems.jsonl",
        [problem(n, row) for n, row in enumerate(problem_rows)],
    )

    mined, filtered, data, clean = (
        tmp_path / f"{name}.jsonl" for name in ("mined", "kept", "data", "clean")
    )
    paths = " ".join(map(str, repositories))
    run(f"swe_retry_exercises.editpack mine {paths} --out {mined}")
    run(f"swe_retry_exercises.editpack filter {mined} --out {filtered}")
    # The edits are as alike as unrelated ones can be, so some pairs of signatures agree by chance.
    threshold = "--set dedup.threshold=0.7"
    run(f"swe_retry_exercises.editpack dedup {filtered} --out {data} {threshold}")
    # The problems are too short to be compared, and none of them is among the edits.
    assert not {row[OLD] for row in problem_rows} & {row[OLD] for row in training_rows}
    against = f"--against {problems} {PROBLEM_ROWS}"
    run(f"swe_retry_exercises.editpack decontaminate {data} {against} --out {clean}")
    for path in (mined, filtered, data, clean):
        print(report_beside(path)["rows"], report_beside(path)["kept"])
    for before, after in ((mined, filtered), (filtered, data), (data, clean)):
        assert report_beside(after)["inputs"][0]["sha256"] == sha256_of(before)
        assert report_beside(after)["output"]["sha256"] == sha256_of(after)
    texts = {row[CONTENT] for row in read_rows(clean)}
    assert len(texts) > EDITS / 2
    assert not texts & {row[CONTENT] for row in problem_rows}

    model = write_model(tmp_path / "untuned", sorted(texts), vocabulary=344)
    tuned = tmp_path / "tuned"
    options = recipe(
        window=256, batch=8, step_windows=8, lr="4e-3", epochs=200, max_steps=700
    )
    line = f"train {clean} --model {model} --out {tuned} {shlex.join(options)}"
    print(run(f"swe_retry_exercises.editpack {line}"))
    record = json.loads((tuned / "train.json").read_text())
    assert record["data"]["sha256"] == sha256_of(clean)
    inputs = [record["data"]]
    commands = []
    while inputs and "report" in inputs[0]:
        report = inputs[0]["report"]
        commands.append(report["command"])
        inputs = report["inputs"]
    assert commands == ["decontaminate", "dedup", "filter", "mine"]

    before_training = pass_at_1(model, problems, tmp_path)
    after_training = pass_at_1(tuned, problems, tmp_path)
    print(before_training, after_training)
    assert before_training < after_training
