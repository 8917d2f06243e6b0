"""The benchmark of a local model, against a server and an aider whose replies are known."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from benchmarks.local_model import PlayedExercise, aider_row, main, result_table
from exercises.tests.support.exercism import (
    SIX,
    Contents,
    ExerciseProvider,
    needs_bubblewrap,
    six,
)
from swe_retry.launch.program import Program
from swe_retry_exercises.exercism.catalog import Exercise
from tests.support import WITH_EXERCISES, write_files
from tests.support.provider import Answer
from tests.support.servers import Handler, LoopbackServer

CLOCK = "cuckoo-clock"
PATH = "garden-path"
PLAYED = (CLOCK, PATH)
# Neither can be an edit: lines that no file has, and a file without its end.
MALFORMED = {
    "diff": (
        "cuckoo_clock.py\n```\n<<<<<<< SEARCH\nabsent = 1\n=======\nabsent = 2\n"
        ">>>>>>> REPLACE\n```\n"
    ),
    "whole": "cuckoo_clock.py\n```\ndef strikes(hour):\n",
}

# What aider's own benchmark does for the test: one call, a summary of the clock's conversation,
# and the tests by the command `pytest`.
AIDER_BENCHMARK = """\
import subprocess

import lox, pandas, plots
from aider import models, prompts
from litellm import completion


def run_test(original, folder, model, edit_format, tries, **options):
    import litellm

    assert (original / "python/exercises/practice" / folder.name).is_dir()
    name = folder.name
    message = f"aider {name} {edit_format} {model} {models.request_timeout:g}"
    reply = litellm.completion(messages=[{"role": "system", "content": message}])
    path = folder / (name.replace("-", "_") + ".py")
    path.write_text(reply.content)
    if name == "cuckoo-clock":
        summarize = {"role": "system", "content": prompts.summarize}
        litellm.completion(messages=[summarize])
    ended = subprocess.run(["pytest", "-q"], cwd=folder)
    return {
        "tests_outcomes": [ended.returncode == 0],
        "num_malformed_responses": int(edit_format == "diff"),
    }
"""
LITELLM = """\
import json, os
from types import SimpleNamespace
from urllib.request import Request, urlopen


def completion(messages):
    url = os.environ["OPENAI_API_BASE"] + "/chat/completions"
    data = json.dumps({"model": "m", "messages": messages}).encode()
    answer = json.load(urlopen(Request(url, data)))
    usage = SimpleNamespace(**answer["usage"])
    content = answer["choices"][0]["message"]["content"]
    return SimpleNamespace(usage=usage, content=content)
"""


class ScriptedServer(ExerciseProvider):
    """Answers our run and aider; the first reply about the clock is malformed."""

    def answer(self, request: dict[str, Any]) -> Answer:
        messages = request["messages"]
        first = str(messages[0]["content"])
        if first == "summarize":
            return Answer("short", tokens=(300, 5))
        if first.startswith("aider "):
            return self._answer_aider(first)
        answer = super().answer(request)
        if len(messages) == 2 and "cuckoo" in str(messages[1]["content"]):
            return Answer(MALFORMED[self.form(request).name], tokens=(500, 50))
        return answer

    def _answer_aider(self, message: str) -> Answer:
        _, name, edit_format, model, seconds = message.split()
        assert (model, seconds) == ("openai/gpt-4o", "77")
        if (name, edit_format) == (PATH, "diff"):
            return Answer(status=500)
        exercise = six()[name]
        files = exercise.example() if name == CLOCK else exercise.stubs()
        path = f"{name.replace('-', '_')}.py"
        return Answer(files[path].decode(), tokens=(1000, 20))


def solution(exercise: Exercise, try_: int) -> Contents:
    """The clock is solved by the second message, the path in the second try."""
    if try_ == 1:
        return exercise.stubs()
    return exercise.example()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for name in PLAYED:
        shutil.copytree(SIX / name, tmp_path / "source" / name)
    return tmp_path / "source"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    site = folder / ".venv/site"
    write_files(
        folder,
        {
            "benchmark/benchmark.py": AIDER_BENCHMARK,
            ".venv/site/litellm.py": LITELLM,
            ".venv/site/aider/__init__.py": "",
            ".venv/site/aider/models.py": "request_timeout = 600\n",
            ".venv/site/aider/prompts.py": "summarize = 'summarize'\n",
        },
    )
    python = folder / ".venv/bin/python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nPYTHONPATH={site} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return folder


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    for name, value in WITH_EXERCISES.items():
        monkeypatch.setenv(name, value)
    with ScriptedServer(list(six().values()), solution) as server:
        yield server


def run(server: str, out: Path, *options: object) -> int:
    argv = ["local_model", "--server", server, "--out", str(out), *map(str, options)]
    with patch.object(sys, "argv", argv):
        return Program(default=main).main()


@pytest.mark.long
@needs_bubblewrap
def test_the_table_has_what_the_server_was_made_to_answer(
    server: ScriptedServer,
    source: Path,
    checkout: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    options: tuple[object, ...] = (
        "--model",
        "gpt-4o",
        "--source",
        source,
        "--call-seconds",
        77,
    )
    options += ("--aider", checkout, "--format", "markdown")
    cache = ("--set", f"folders.cache={tmp_path / 'cache'}")
    assert run(server.url, tmp_path / "out", *options, *cache) == 0
    printed = capfd.readouterr().out
    lines = printed[printed.index("| agent, format") :].splitlines()
    assert lines[2:] == EXPECTED
    # The order changes with each exercise.
    asked = []
    for request in server.requests:
        text = str(request["messages"])
        name = CLOCK if "cuckoo" in text else PATH
        if text.startswith("[{'role': 'system', 'content': 'aider"):
            asked.append(("aider", name))
        elif "summarize" not in text:
            asked.append(("ours", name))
    order = list(dict.fromkeys(asked))
    assert [agent for agent, _ in order] == ["ours", "aider", "aider", "ours"]
    # The same command asks again only what has no result.
    before = len(server.requests)
    assert run(server.url, tmp_path / "out", *options, *cache) == 0
    assert len(server.requests) == before + 1


# Ours: the clock takes 500 and 100 prompt tokens, the path 100 and 100. Aider: each call takes
# 1,000, the clock's summary 300, and a call about the path was refused in `diff`.
EXPECTED = [
    "| ours, diff | 2 of 2 | 1 of 2, 50.0 % | 2 of 2, 100.0 % | 1 of 4 | 400 | 40 | 0 | 0 |",
    "| aider, diff | 1 of 2 | 1 of 1, 100.0 % | 1 of 1, 100.0 % | 1 of 1 | 1,300 | 25 | 0 | 1 |",
    "| ours, whole | 2 of 2 | 1 of 2, 50.0 % | 2 of 2, 100.0 % | 1 of 4 | 400 | 40 | 0 | 0 |",
    "| aider, whole | 2 of 2 | 1 of 2, 50.0 % | 1 of 2, 50.0 % | 0 of 2 | 1,150 | 22 | 0 | 0 |",
    "Tokens and seconds are those of an exercise, in the mean.",
    "aider, diff: 300 of the prompt tokens are for summaries.",
    "aider, whole: 150 of the prompt tokens are for summaries.",
    "no result: aider, diff, python/garden-path: HTTPError: HTTP Error 500: Internal Server Error",
    "diff, 1 try: of 1 exercise both solve 1, only ours 0, only aider 0; exact McNemar p = 1",
    "diff, 2 tries: of 1 exercise both solve 1, only ours 0, only aider 0; exact McNemar p = 1",
    "whole, 1 try: of 2 exercises both solve 1, only ours 0, only aider 0; exact McNemar p = 1",
    "whole, 2 tries: of 2 exercises both solve 1, only ours 1, only aider 0; exact McNemar p = 1",
]


def row(agent: str, exercise: str, *outcomes: bool) -> PlayedExercise:
    return PlayedExercise(agent, exercise, "whole", outcomes)


def test_pairs_are_compared_for_each_number_of_tries() -> None:
    ours = [row("ours", str(number), number < 5) for number in range(6)]
    theirs = [row("aider", str(number), False, number == 5) for number in range(6)]
    lost = replace(row("aider", "7", True), problem="a call failed")
    lines = list(result_table([*ours, *theirs, lost], 2, markdown=False))
    assert "no result: aider, whole, 7: a call failed" in lines
    assert lines[-2:] == [
        "whole, 1 try: of 6 exercises both solve 0, only ours 5, only aider 0; "
        "exact McNemar p = 0.0625",
        "whole, 2 tries: of 6 exercises both solve 0, only ours 5, only aider 1; "
        "exact McNemar p = 0.219",
    ]


@pytest.mark.parametrize("summary", [True, False])
def test_only_a_failed_summary_leaves_a_result(summary: bool) -> None:
    call = {"summary": summary, "error": "after shutdown"}
    row = aider_row("python/a", "whole", {"calls": [call], "outcomes": [True]})
    assert row.failed_calls == 1
    assert row.problem == ("" if summary else "after shutdown")


class _Models(Handler):
    stub: ModelServer

    def respond(self) -> None:
        data = [{"id": name} for name in self.stub.names]
        self.send_json({"object": "list", "data": data})


class ModelServer(LoopbackServer):
    handler = _Models

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names = names


@pytest.mark.parametrize(
    ("names", "problem"),
    [(("a", "b"), "--model: choose one of a, b"), ((), "--model: choose one of ")],
)
def test_the_model_must_be_named_where_the_server_lists_several(
    names: tuple[str, ...],
    problem: str,
    source: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with ModelServer(*names) as server:
        code = run(f"{server.url}/v1", tmp_path / "out", "--source", source)
    assert code == 2
    assert capsys.readouterr().err == f"error: {problem}\n"


def test_a_server_that_does_not_answer_and_a_wrong_checkout_are_named(
    source: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    server = "http://127.0.0.1:9/v1"
    assert run(server, tmp_path, "--source", source) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: --server {server}: it lists no models (")
    assert error.count("\n") == 1
    assert run(server, tmp_path, "--source", source, "--aider", tmp_path) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: --aider {tmp_path}: there is no {tmp_path}/bench")
