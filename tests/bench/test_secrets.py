"""Sentinel keys through what is written and said of a run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agent.errors import InfrastructureError, UserError
from agent.redaction import Redactor
from bench.cli import run_cli
from bench.store import RunStore

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
