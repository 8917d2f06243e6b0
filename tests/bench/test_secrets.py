"""Sentinel keys through what is written and said of a run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.errors import InfrastructureError, UserError
from agent.redaction import Redactor
from bench.cli import run_cli
from bench.store import RunStore
from tests.bench.runs import EDIT, TOP
from tests.provider import Answer, Provider

SECRET = "sk-SENTINEL/0123456789"


def test_no_file_of_a_run_holds_a_secret(tmp_path: Path) -> None:
    store = RunStore(tmp_path, "r", redact=Redactor({"MY_API_KEY": SECRET}))
    said = {"a": [{"b": f"x {SECRET} y", SECRET: 1}], "count": 3}
    store.save_instance("i", said, said, f"# said {SECRET}")
    store.save_unfinished("j", said)
    store.save_run(said)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 5
    for path in files:
        text = path.read_text()
        assert "SENTINEL" not in text, path
        assert "[MY_API_KEY]" in text, path


@pytest.mark.parametrize(
    ("kind", "code"), [(UserError, 2), (InfrastructureError, 1), (OSError, 1), (ValueError, 1)]
)
def test_no_exception_shows_a_secret(
    kind: type[Exception],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def command() -> None:
        try:
            raise KeyError(SECRET)
        except KeyError as error:
            raise kind(f"refused: {SECRET}") from error

    monkeypatch.setenv("MY_API_KEY", SECRET)
    monkeypatch.setattr(sys, "argv", ["harness.py"])
    assert run_cli(command) == code
    shown = capsys.readouterr()
    assert "refused: [MY_API_KEY]" in shown.err
    assert "SENTINEL" not in shown.err + shown.out


def harness(out: Path, cache: Path, *words: str) -> str:
    """Run the command with the sentinel as its key and return all that it printed."""
    common = ["--dataset", "demo", "--out", str(out), "--cache", str(cache), "--workers", "1"]
    result = subprocess.run(
        [sys.executable, str(TOP / "harness.py"), *common, *words],
        capture_output=True, text=True, env={**os.environ, "OPENAI_API_KEY": SECRET}, check=False,
    )  # fmt: skip
    return result.stdout + result.stderr


def test_a_key_reaches_no_output_of_a_whole_run(
    tmp_path: Path, cache: Path, provider: Provider
) -> None:
    quoting = {"message": f"Incorrect API key provided: {SECRET}"}
    # A refusal, a server that is down, a key that is refused; replies never know the key.
    provider.will_answer(
        "textkit/slug.py",
        EDIT,
        Answer(status=400, error=quoting),
        Answer(status=500, error=quoting),
        Answer(status=500, error=quoting),
        Answer(status=401, error=quoting),
    )
    live = ["--models", "gpt-4o", "--api-base", provider.url, "--call-retries", "1", "--tries", "1"]
    said = harness(tmp_path, cache, *live, "--run", "live", "--environment", "local")
    assert "[OPENAI_API_KEY]" in said and "refused the key" in said
    prints = "import os, sys; print(os.environ); sys.exit(1)"
    command = f"command:{sys.executable} -c '{prints}'"
    said += harness(
        tmp_path, cache, "--models", "my-own", "--agent", command, "--agent-env", "OPENAI_API_KEY",
        "--instances", "demo__bank-1", "--run", "outside", "--environment", "none", "--tries", "1",
    )  # fmt: skip
    report = subprocess.run(
        [sys.executable, str(TOP / "report.py"), str(tmp_path / "predictions/outside"),
         "--evaluator", "local", "--cache", str(cache)],
        capture_output=True, text=True, env={**os.environ, "OPENAI_API_KEY": SECRET}, check=False,
    )  # fmt: skip
    files = [p for p in (*tmp_path.rglob("*"), *(cache / "baselines").rglob("*")) if p.is_file()]
    names = {path.name for path in files}
    assert {"harness.log", "ledger.jsonl", "run.json", "demo__bank-1.jsonl"} <= names
    shown = {str(path): path.read_bytes() for path in files}
    shown["printed"] = (said + report.stdout + report.stderr).encode()
    for place, data in shown.items():
        assert b"SENTINEL" not in data, place
    assert any(b"[OPENAI_API_KEY]" in data for data in shown.values())
