"""Parsers in processes: hostile texts, and processes that die or hang."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from swe_retry.core.errors import InfrastructureError
from swe_retry_exercises.editpack import filter as module
from swe_retry_exercises.editpack.filter import syntax_problems

MakeWorker = Callable[[str], Path]
# Answers as a worker does: `text` is what it is asked about.
WORKER = """\
import json, os, signal, sys, time
from pathlib import Path
def say(words):
    sys.stdout.write(words + "\\n")
    sys.stdout.flush()
def ask():
    line = sys.stdin.buffer.readline()
    return json.loads(line) if line else sys.exit()
here = Path(__file__)
here.with_name(f"{here.name}.{os.getpid()}").touch()
"""


@pytest.fixture
def make_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeWorker:
    """Make a script that is started in place of the worker."""

    def make(code: str) -> Path:
        path = tmp_path / "worker.py"
        path.write_text(WORKER + code)
        monkeypatch.setattr(module, "_SCRIPT", path)
        return path

    return make


def none_left(script: Path) -> bool:
    """Tell whether all processes of a made script have ended; there was one."""
    pids = [int(path.suffix[1:]) for path in script.parent.glob(f"{script.name}.*")]
    return bool(pids) and not any(map(runs, pids))


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_what_this_python_says() -> None:
    for text, expected in {
        "x = 1\n": "",
        "": "",
        "def f():\n  return 1\n\f\nclass A: pass": "",
        "x = '\\d'": "",  # a warning is no fault
        "return 1": "",  # nor is what only a compiler sees
        "x = '" + "a" * 5_000_000 + "'": "",
        "print 'a'": "SyntaxError: Missing parentheses",
        "if 1:\nx": "IndentationError: expected an indented block",
        "x = 1\0": "null byte",
        "x = '\ud800'": "UnicodeEncodeError",
        "[" * 1_000_000: "too many nested parentheses",
        "-" * 100_000 + "1": "Error",
        "\ufeffx = 1": "SyntaxError: invalid non-printable character U+FEFF",
    }.items():
        problem, after, again = syntax_problems([text, "x = 1", text])
        assert (expected in problem) if expected else problem == ""
        assert "\n" not in problem
        assert after == ""
        assert again == problem


HOSTILE = {
    "brackets": "[" * 1_000_000,
    "closed brackets": "(" * 5000 + ")" * 5000,
    "operators": "x = " + "+".join(["1"] * 100_000),
    "signs": "-" * 100_000 + "1",
    "attributes": "a" + ".b" * 100_000,
    "calls": "a" + "()" * 100_000,
    "branches": "if 1: pass\n" + "elif 2: pass\n" * 20_000,
    "lambdas": "lambda:" * 3000 + "1",
    "digits": "x = " + "1" * 200_000,
    "null": "\0",
    "surrogate": "x = '\udfff'",
    "a text": "x = '" + "a" * 5_000_000 + "'",
}


@pytest.mark.long
def test_each_hostile_text_has_a_verdict() -> None:
    problems = syntax_problems([*HOSTILE.values()])
    for text, problem in zip(HOSTILE.values(), problems, strict=True):
        assert syntax_problems([text, "print(f'{1}')", text]) == [problem, "", problem]
    verdicts = dict(zip(HOSTILE, problems, strict=True))
    assert verdicts["brackets"]
    assert verdicts["null"]
    assert verdicts["a text"] == ""


@pytest.mark.parametrize(
    ("dies", "problem"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "the parser died (signal 11)"),
        ("sys.exit(3)", "the parser died (exit code 3)"),
        ("os.kill(os.getpid(), signal.SIGXCPU)", "the parser took more than 10 s"),
        ("signal.pause()", "the parser did not answer in time"),
        ("say('x' * 10000)", "the parser died (signal"),
    ],
)
def test_a_process_that_ends_is_a_verdict_and_is_replaced(
    make_worker: MakeWorker,
    monkeypatch: pytest.MonkeyPatch,
    dies: str,
    problem: str,
) -> None:
    code = f"say('ready')\nwhile True:\n    text = ask()\n    if text == 'x':\n        {dies}\n"
    if "10000" in dies:  # which is no line
        code = code.replace(
            "say('x' * 10000)", "os.write(1, b'x' * 10000); os.kill(os.getpid(), 9)"
        )
    script = make_worker(code + "    say('' if text == 'good' else 'bad')")
    if "pause" in dies:
        monkeypatch.setattr(module, "_MAX_WAIT", 2.0)
    first, good, second, bad = syntax_problems(["x", "good", "x", "bad"])
    assert first.startswith(problem)
    assert (good, second, bad) == ("", first, "bad")
    assert none_left(script)


def test_a_process_that_reads_nothing_stops_no_one(
    make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_worker("say('ready')\nsignal.pause()")
    monkeypatch.setattr(module, "_MAX_WAIT", 2.0)
    assert syntax_problems(["x" * 1_000_000]) == ["the parser did not answer in time"]


def test_a_process_that_reads_late_gets_all_texts(make_worker: MakeWorker) -> None:
    make_worker("say('ready')\ntime.sleep(1)\nwhile True:\n    say(str(len(ask())))")
    assert syntax_problems(["x" * 1_000_000, "y"]) == ["1000000", "1"]


def test_a_limit_that_came_of_earlier_texts_is_tried_again(
    make_worker: MakeWorker,
) -> None:
    """A process that served others has no memory left; a new one has."""
    make_worker("say('ready')\nask()\nsay('')\nask()\nsys.exit()")
    assert syntax_problems(["a", "b"]) == ["", ""]


@pytest.mark.long
def test_memory_and_time_are_limited() -> None:
    large = "x = [" + "1,\n" * 1_500_000 + "]"
    assert syntax_problems(["ok = 1", large, "ok = 1"]) == ["", "MemoryError", ""]


@pytest.mark.parametrize("code", ["sys.exit(2)", "os.write(1, b'y\\n' * 10000)"])
def test_a_parser_that_does_not_start_ends_the_command(
    make_worker: MakeWorker, code: str
) -> None:
    script = make_worker(code)
    with pytest.raises(InfrastructureError, match="the parser does not start"):
        syntax_problems(["x"])
    assert none_left(script)


def test_a_parser_that_goes_away_ends_the_command(make_worker: MakeWorker) -> None:
    make_worker("say('ready')\nask()\nhere.unlink()")
    [problem] = syntax_problems(["x"])
    assert problem.startswith("the parser died")
    with pytest.raises(InfrastructureError, match="does not start"):
        syntax_problems(["y"])


def test_secrets_are_kept_from_the_interpreter(
    monkeypatch: pytest.MonkeyPatch, make_worker: MakeWorker
) -> None:
    monkeypatch.setenv("OWN_API_KEY", "secret")
    make_worker("say('ready')\nask()\nsay(str('OWN_API_KEY' in os.environ))\nask()")
    assert syntax_problems(["x"]) == ["False"]
