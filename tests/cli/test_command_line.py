"""The command line itself: exit codes, one line, Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from swe_retry.agent.formats import format_names
from swe_retry.cli.harness import main as harness
from swe_retry.cli.listing import list_models
from swe_retry.llm.model_settings import load_settings
from tests.support import TOP, run_script, wait_until
from tests.support.commands import Preloaded
from tests.support.provider import Answer, Provider
from tests.support.runs import EDIT, heed_interrupts

BAD_INPUT = {
    "--models no-such-model --dataset demo": "unknown model 'no-such-model'",
    "--dataset nonsense --api-base http://127.0.0.1:9/v1": "unknown dataset",
    "--dataset demo --models gpt-4o": "OPENAI_API_KEY",
    "--dataset demo --replay /nowhere": "--replay /nowhere",
    "--dataset demo --set models.temperatures=warm": (
        "models.temperatures warm: must be a valid number"
    ),
    "--set models.file=/nowhere.yaml": "models.file /nowhere.yaml: cannot be read",
}


def test_bad_input_is_one_line_and_exit_code_2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "")
    monkeypatch.chdir("/")
    for options, message in BAD_INPUT.items():
        command = f"harness.py {options} --out {tmp_path} --environment none"
        monkeypatch.setattr(sys, "argv", command.split())
        assert harness() == 2
        printed = capsys.readouterr()
        (line,) = printed.err.strip().splitlines()
        assert line.startswith("error: ")
        assert message in line
        assert not (tmp_path / "predictions").exists()


def test_wrong_usage_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    """As a process; ``test_wrong_options.py`` has a table of wrong command lines."""
    result = run_script("--tries", "abc", "--out", str(tmp_path))
    assert result.returncode == 2
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.strip().splitlines()) == 1


def test_models_are_listed_with_settings_and_aliases(tmp_path: Path) -> None:
    settings = tmp_path / "mine.yaml"
    settings.write_text(
        "aliases: {mine: ollama/llama3}\nmodels: {ollama/*: {context: 4321}}\n"
    )
    book = load_settings(settings, format_names())
    lines: list[str] = []
    list_models([], book, lines.append)
    rows = [line.split() for line in lines]
    (row,) = [row for row in rows if row[0] == "ollama/llama3"]
    assert row[1:4] == ["mine", "whole", "4321"]
    assert any(row[0].startswith("anthropic/claude-opus-") for row in rows)
    lines.clear()
    list_models(["gpt-4o@whole", "mine"], book, lines.append)
    rows = [line.split() for line in lines]
    assert [row[0] for row in rows] == ["model", "gpt-4o", "ollama/llama3"]
    assert rows[1][1:3] == ["4o,gpt4o", "whole"]


def options_for(provider: Provider, out: Path, cache: Path) -> list[str]:
    """Return the options of a run of two instances, of which the second hangs at its first call."""
    instances = "--dataset demo --instances demo__textkit-1,demo__bank-1"
    model = f"--models gpt-4o --api-base {provider.url} --environment none"
    folders = f"--run r --out {out} --set folders.cache={cache}"
    return f"{instances} {model} {folders} --workers 1 --tries 1".split()


def test_ctrl_c_lets_running_attempts_end_and_the_same_command_goes_on(
    tmp_path: Path, provider: Provider, preloaded: Preloaded
) -> None:
    slow = Answer("bank/accounts.py", hang=3)
    provider.will_answer("textkit/slug.py", EDIT, slow, EDIT)
    # Its own: what took longest in another test would begin first.
    cache = tmp_path / "cache"
    predictions = tmp_path / "predictions/r"
    work = cache / "work"
    argv = options_for(provider, tmp_path, cache)
    script = str(TOP / "harness.py")
    process = subprocess.Popen(
        [sys.executable, script, *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=heed_interrupts,
    )
    wait_until(lambda: len(provider.requests) >= 3)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopping: attempts end at their next step" in output
    # It is named once, has cost something, and is not done.
    assert "[1/2] demo__bank-1: interrupted; SIGINT was received; $0.00" in output
    assert output.count("demo__bank-1") == 1
    assert "Traceback" not in output
    assert (predictions / "demo__textkit-1.json").exists()
    assert not (predictions / "demo__bank-1.json").exists()
    if work.exists():
        assert not list(work.iterdir())
    # The reply that came after the interruption was paid for: it is not asked for again.
    assert len(provider.requests) == 3
    output = preloaded.run(*argv).stdout
    lengths = []
    for request in provider.requests:
        if "bank" in str(request["messages"][1]):
            lengths.append(len(request["messages"]))
    assert lengths.count(2) == 1
    assert (predictions / "demo__bank-1.json").exists(), output
    # The bar goes on from what the first start did.
    assert "[2/2] demo__bank-1: " in output


def test_ctrl_c_twice_ends_at_once_and_leaves_nothing(
    tmp_path: Path, provider: Provider, preloaded: Preloaded
) -> None:
    provider.will_answer("textkit/slug.py", EDIT, Answer("x", hang=60))
    cache = tmp_path / "cache"
    predictions = tmp_path / "predictions/r"
    argv = options_for(provider, tmp_path, cache)
    process = preloaded.start(*argv)
    wait_until(lambda: len(provider.requests) >= 3)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "stopping now" in output
    assert (predictions / "demo__textkit-1.json").exists()
    assert not (predictions / "demo__bank-1.json").exists()
    assert not list((cache / "work").iterdir())
    assert not list(tmp_path.rglob("*.tmp"))
