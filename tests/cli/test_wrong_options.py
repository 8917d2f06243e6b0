"""Wrong command lines of both scripts: exit code 2 and one line, which names the option."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from swe_retry.cli.harness import SUBCOMMANDS
from swe_retry.cli.harness import main as harness
from swe_retry.cli.report import main as report

TABLE = Path(__file__).with_name("wrong-options.tsv")
LINES = TABLE.read_text(encoding="utf-8").splitlines()
ROWS = [line.split("\t") for line in LINES]
USUAL = {
    "--dataset": "demo",
    "--environment": "none",
    "--out": "o",
}
FILES = {
    "bad.yaml": "modles: x\n",
    "flag.yaml": "project: {apply: 3}\n",
    "num.yaml": "scale: {workers: 0}\n",
    "list.yaml": "[]",
    "old.yaml": "call-timeout: 5\n",
    "m.yaml": "models: {a: {nokey: 1}}\n",
    "file": "x",
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "c"))
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "")
    return tmp_path


@pytest.mark.parametrize(("script", "command", "message"), ROWS)
def test_a_wrong_command_line_is_refused_in_one_line(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    command: str,
    message: str,
) -> None:
    argv = shlex.split(command)
    main = harness if script == "harness.py" else report
    if main is harness and argv[0] not in SUBCOMMANDS:
        for option, value in USUAL.items():
            if option not in argv:
                argv = [option, value, *argv]
    monkeypatch.setattr(sys, "argv", [script, *argv])
    assert main() == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    (error,) = printed.err.strip().splitlines()
    assert error.startswith("error: ")
    assert message in error.replace(f"{here}/", "")
    assert not (here / "o").exists()
    assert not (here / "c").exists()
