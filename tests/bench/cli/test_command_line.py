"""The command line itself: exit codes, one line, Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent.formats import format_names
from bench.cli.listing import list_models
from harness import main as harness
from llm.settings import load_settings
from tests.support import TOP, run_script, wait_until
from tests.support.commands import Preloaded
from tests.support.provider import Answer, Provider
from tests.support.runs import EDIT, heed_interrupts


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--models", "no-such-model", "--dataset", "demo"],
            "unknown model 'no-such-model'",
        ),
        (
            ["--dataset", "nonsense", "--api-base", "http://127.0.0.1:9/v1"],
            "unknown dataset",
        ),
        (["--dataset", "demo", "--models", "gpt-4o"], "OPENAI_API_KEY"),
        (["--dataset", "demo", "--replay", "/nowhere"], "--replay /nowhere"),
        (
            ["--dataset", "demo", "--set", "models.temperatures=warm"],
            "models.temperatures warm: must be a valid number",
        ),
        (
            ["--set", "models.file=/nowhere.yaml"],
            "models.file /nowhere.yaml: cannot be read",
        ),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    said: str,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "")
    monkeypatch.chdir("/")
    words = ["harness.py", *words, "--out", str(tmp_path), "--environment", "none"]
    monkeypatch.setattr(sys, "argv", words)
    assert harness() == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    assert said in lines[0]
    assert not (tmp_path / "predictions").exists()


def test_wrong_usage_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    """As a process; ``test_wrong_options.py`` has a table of wrong command lines."""
    result = run_script("--tries", "abc", "--out", str(tmp_path))
    assert result.returncode == 2
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.strip().splitlines()) == 1


def test_help_is_exit_code_0_and_groups_the_options() -> None:
    result = run_script("--help")
    assert result.returncode == 0
    assert "Instances and tests:" in result.stdout


def test_models_are_listed_with_settings_and_aliases(tmp_path: Path) -> None:
    settings = tmp_path / "mine.yaml"
    settings.write_text(
        "aliases: {mine: ollama/llama3}\nmodels: {ollama/*: {context: 4321}}\n"
    )
    book = load_settings(settings, format_names())
    lines: list[str] = []
    list_models([], book, lines.append)
    rows = {line.split()[0]: line.split() for line in lines}
    assert rows["ollama/llama3"][1:4] == ["mine", "whole", "4321"]
    assert any(name.startswith("anthropic/claude-opus-") for name in rows)
    lines.clear()
    list_models(["gpt-4o@whole", "mine"], book, lines.append)
    assert [line.split()[0] for line in lines] == ["model", "gpt-4o", "ollama/llama3"]
    assert lines[1].split()[1:3] == ["4o,gpt4o", "whole"]


def words_of(provider: Provider, out: Path, cache: Path) -> list[str]:
    """Return the words of a run of two instances, of which the second hangs at its first call."""
    return [
        "--dataset",
        "demo",
        "--instances",
        "demo__textkit-1,demo__bank-1",
        "--models",
        "gpt-4o",
        "--api-base",
        provider.url,
        "--environment",
        "none",
        "--run",
        "r",
        "--out",
        str(out),
        "--set",
        f"folders.cache={cache}",
        "--workers",
        "1",
        "--tries",
        "1",
    ]


def test_ctrl_c_lets_running_attempts_end_and_the_same_command_goes_on(
    tmp_path: Path, provider: Provider, preloaded: Preloaded
) -> None:
    provider.will_answer(
        "textkit/slug.py", EDIT, Answer("bank/accounts.py", hang=3), EDIT
    )
    cache = (
        tmp_path / "cache"
    )  # its own: what took longest in another test would begin first
    words = words_of(provider, tmp_path, cache)
    process = subprocess.Popen(
        [sys.executable, str(TOP / "harness.py"), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=heed_interrupts,
    )
    wait_until(lambda: len(provider.requests) >= 3)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopping: attempts end at their next step" in said
    assert "demo__bank-1: interrupted" in said and "Traceback" not in said
    assert (tmp_path / "predictions/r/demo__textkit-1.json").exists()
    assert not (tmp_path / "predictions/r/demo__bank-1.json").exists()
    assert not (cache / "work").exists() or not list((cache / "work").iterdir())
    # The reply that came after the interruption was paid for: it is not asked for again.
    assert len(provider.requests) == 3
    said = preloaded.run(*words).stdout
    first = []
    for r in provider.requests:
        if "bank" in str(r["messages"][1]):
            first.append(r["messages"])
    assert [len(messages) for messages in first].count(2) == 1
    assert (tmp_path / "predictions/r/demo__bank-1.json").exists(), said


def test_ctrl_c_twice_ends_at_once_and_leaves_nothing(
    tmp_path: Path, provider: Provider, preloaded: Preloaded
) -> None:
    provider.will_answer("textkit/slug.py", EDIT, Answer("x", hang=60))
    cache = tmp_path / "cache"
    process = preloaded.start(*words_of(provider, tmp_path, cache))
    wait_until(lambda: len(provider.requests) >= 3)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "stopping now" in said
    assert (tmp_path / "predictions/r/demo__textkit-1.json").exists()
    assert not (tmp_path / "predictions/r/demo__bank-1.json").exists()
    assert not list((cache / "work").iterdir())
    assert not list(tmp_path.rglob("*.tmp"))
