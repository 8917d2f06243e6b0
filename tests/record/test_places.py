"""Runs by name: in every command, before a folder of that name here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from swe_retry.cli.harness import main as harness
from swe_retry.cli.report import main as report
from swe_retry.record import places, versions
from swe_retry.record.store import RunStore
from tests.support.programs import commands


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the harness, with the run ``mine``; the current one is another."""
    for module in (places, versions):
        monkeypatch.setattr(module, "TOP", tmp_path / "top")
    (tmp_path / "here/mine").mkdir(parents=True)
    (tmp_path / "here/other").mkdir()
    (tmp_path / "top/predictions/mine").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "top"


def test_every_command_takes_names_of_runs() -> None:
    takers = set()
    for name, command in commands():
        for parameter in command.params:
            kind: Any = getattr(parameter, "type_descriptor", None)
            if kind and kind.parameter_info.parser is places.find_run:
                takers.add(name)
            elif parameter.metavar == "RUN" and parameter.param_type_name == "argument":
                assert kind.annotation is str, name  # it is found below --out
    words = ("compare", "combine", "select", "lab", "verify", "package", "convert")
    assert {"report.py", *(f"report.py {word}" for word in words)} <= takers


def test_a_name_precedes_a_folder_here(top: Path) -> None:
    assert places.find_run("mine") == top / "predictions/mine"
    assert places.find_run("./mine") == Path("mine")
    assert places.find_run("other") == Path("other")
    assert places.find_run("..") == Path("..")
    assert RunStore.find("mine", top).folder == top / "predictions/mine"
    assert RunStore.find("other", top).folder == Path.cwd() / "other"
    assert RunStore.find("gone", top).folder == top / "predictions/gone"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("comapre a b", "there is no command 'comapre'; did you mean compare?"),
        ("--settings", "evaluation.evaluator"),
        ("./mine --evaluator lcoal", "; did you mean local?"),
        ("package mine x --split lit --meta m", "multimodal; did you mean lite?"),
        ("gold dmeo x", "; did you mean demo?"),
    ],
)
def test_a_mistyped_command_is_named(
    words: str,
    hint: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["report.py", *words.split()])
    report()
    captured = capsys.readouterr()
    assert hint in captured.out + captured.err


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("status mien --out ../top", "; did you mean mine?"),
        ("clean mien --out ../top", "; did you mean mine?"),
        ("--dataset dmeo --models gpt-4o", "; did you mean demo?"),
        ("--dataset demo --models gpt-4o --agent codxe --run x", "mean codex?"),
        ("try codxe", "--agent 'codxe': give one of"),  # before keys are asked for
        (
            "--dataset demo --models gpt-4o --instances demo__bnak-1 --run x",
            "check --instances; did you mean demo__bank-1?",
        ),
        (
            "--dataset demo --models gpt-4o --price gtp-4o=1,2 --run x",
            "; did you mean gpt-4o?",
        ),
    ],
)
def test_names_of_closed_lists_are_hinted_at(
    words: str,
    hint: str,
    top: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["harness.py", *words.split()])
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert harness() == 2
    assert hint in capsys.readouterr().err
