"""Settings: dotted names, sources in their order, and mistakes in one line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
from pydantic import Field

from swe_retry.core.settings import (
    Commas,
    Folder,
    Pairs,
    Section,
    SplitLines,
    chosen_settings,
    settings_of,
    values_of,
)
from swe_retry.core.sources import of_texts
from swe_retry.launch.flags import CommandLine, SettingFlag
from swe_retry.launch.program import Program, command


class Calls(Section):
    timeout: float = Field(default=300, ge=1, description="Wait this many seconds.")
    prices: Annotated[dict[str, int], Pairs] = Field(default={}, description="Prices.")


class Tests(Section):
    __test__ = False

    which: Literal["related", "all", "none"] = Field(
        default="related", description="Which."
    )
    timeout: float = Field(default=60, description="Seconds.")
    setup: Annotated[tuple[str, ...], SplitLines] = Field(
        default=(), description="Commands."
    )
    apply: bool = Field(default=False, description="Apply the patch.")
    tries: int = Field(default=3, ge=1, description="Attempts with each model.")
    names: Annotated[tuple[str, ...], Commas] = Field(
        default=("a", "b"), description="Names."
    )
    folder: Folder | None = Field(default=None, description="A folder.")


class Root(Section):
    calls: Calls = Calls()
    tests: Tests = Tests()


FLAGS = (
    SettingFlag("tests.names", "--names", "NAME,NAME", "Models", short="-n"),
    SettingFlag("tests.tries", "--tries", "N", "Models"),
    SettingFlag("tests.setup", "--setup", "COMMAND", "Own", repeatable=True),
    SettingFlag("tests.apply", "--apply", "", "Own"),
    SettingFlag("calls.prices", "--price", "MODEL=N", "Own", repeatable=True),
)


class Started:
    """Runs a command in this process and has what it received."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.patch = patch
        self.settings = Root()
        self.recorded: Any = None

    def __call__(self, *words: str) -> int:
        @command(Root, FLAGS)
        def main(
            line: CommandLine[Root],
            word: Annotated[str | None, typer.Argument(hidden=True)] = None,
            redo: Annotated[
                str, typer.Option("--redo", rich_help_panel="Actions")
            ] = "",
        ) -> None:
            """Solve."""
            self.settings = line.load(self.recorded, word=word)

        self.patch.setattr(sys, "argv", ["solve.py", *words])
        return Program(default=main).main()


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Started:
    return Started(monkeypatch)


def test_sources_precede_each_other(
    start: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    early = tmp_path / "early.yaml"
    early.write_text("tests:\n  tries: 5\n  which: all\ncalls.timeout: 5\n")
    late = tmp_path / "late.yaml"
    late.write_text("tests: {which: none, setup: [make, make install], folder: ~}\n")
    monkeypatch.setenv("RETRY_CALLS__TIMEOUT", "1")
    monkeypatch.setenv("RETRY_TESTS__TIMEOUT", "2")
    monkeypatch.setenv("RETRY_OTHERS__TIMEOUT", "of another command")
    start.recorded = of_texts(Root, ["tests.timeout=3", "calls.timeout=4"])
    files = ("--config", str(early), "--config", str(late))
    assert start(*files, "--tries", "7") == 0
    settings = start.settings
    assert settings.tests.tries == 7
    assert settings.tests.which == "none"
    assert settings.tests.timeout == 3
    assert settings.tests.setup == ("make", "make install")
    assert settings.calls.timeout == 5
    assert start(*files, "--set", "tests.tries=", "--set", "tests.setup=") == 0
    assert start.settings.tests.tries == 3
    assert start.settings.tests.setup == ()


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
    [
        (["-n", "x, y"], "tests.names", ["x", "y"]),
        (["--set", "tests.names=x,y"], "tests.names", ["x", "y"]),
        (["--set", "tests.names=x", "--set", "tests.names=y"], "tests.names", ["x", "y"]),
        (["--setup", "a, b", "--setup", "c"], "tests.setup", ["a, b", "c"]),
        (["--set", "tests.setup=a, b\n\n c"], "tests.setup", ["a, b", "c"]),
        (["--price", "a=1,b=2", "--price", "c=3"], "calls.prices", {"a": 1, "b": 2, "c": 3}),
        (["--price", "5,b=2"], "calls.prices", {"*": 5, "b": 2}),
        (["--apply"], "tests.apply", True),
        (["--set", "tests.tries=1", "--set", "tests.tries=2"], "tests.tries", 2),
        (["--set", "tests.apply=yes"], "tests.apply", True),
    ],
)  # fmt: skip
def test_text_becomes_a_value(
    start: Started,
    arguments: list[str],
    name: str,
    value: Any,
) -> None:
    assert start(*arguments) == 0
    assert values_of(start.settings)[name] == value


def test_a_mapping_is_united_and_a_list_replaced(
    start: Started, tmp_path: Path
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("calls: {prices: {a: 1, b: 2}}\ntests: {names: [x]}\n")
    assert start("--config", str(file), "--price", "b=3", "-n", "y") == 0
    assert start.settings.calls.prices == {"a": 1, "b": 3}
    assert start.settings.tests.names == ("y",)


def test_only_what_was_given_is_recorded(start: Started) -> None:
    assert start("--tries", "3", "--set", "tests.folder=/x/../y") == 0
    recorded = {"tests": {"tries": 3, "folder": "/y"}}
    assert chosen_settings(start.settings) == recorded


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--tries", "x"], "--tries x: must be a valid integer"),
        (["--tries", "0"], "--tries 0: must be at least 1"),
        (["--set", "calls.timeout=inf"], "calls.timeout inf: must be a finite number"),
        (["--set", "tests.which=some"], "tests.which some: must be 'related', 'all' or 'none'"),
        (["--set", "tests.apply=maybe"], "tests.apply maybe: must be a valid boolean"),
        (["--set", "calls.prices=a=x"], "calls.prices a x: must be a valid integer"),
        (["--price", "a=1,a=2"], "--price: a stands twice; give it once"),
        (["--set", "call.timeout=3"],
         "--set call.timeout=3: there is no setting call.timeout; did you mean calls.timeout?"),
        (["--set", "timeout=3"],
         "--set timeout=3: there is no setting timeout; "
         "did you mean calls.timeout or tests.timeout?"),
        (["--set", "tests=3"],
         "--set tests=3: there is no setting tests; "
         "did you mean tests.which or tests.timeout or tests.setup?"),
        (["--set", "calls.timeout"], "--set calls.timeout: give NAME=VALUE, as calls.timeout=…"),
        (["--set", "tests.tries=1", "--tries", "2"],
         "--set tests.tries and --tries are the same; give one"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(
    start: Started,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    line: str,
) -> None:
    assert start(*arguments) == 2
    assert capsys.readouterr().err == f"error: {line}\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("call: {timeout: 3}", "there is no setting call.timeout; did you mean calls.timeout?"),
        ("calls: {tries: 3}", "there is no setting calls.tries; did you mean tests.tries?"),
        ("calls: {timeout: 3}\ncalls.timeout: 4", "calls.timeout stands twice; give it once"),
        ("[1]", "give settings, as `models: {tries: 5}`"),
        ("a: 1\na: 2", "is not YAML: 'a' stands twice"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_file_names_the_file(
    start: Started,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    text: str,
    problem: str,
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(text)
    assert start("--config", str(file)) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: --config {file}: {problem}")
    assert error.count("\n") == 1


def test_a_wrong_value_of_a_file_names_file_and_setting(
    start: Started,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("tests: {tries: x}")
    assert start("--config", str(file)) == 2
    line = f"error: --config {file}: tests.tries x: must be a valid integer\n"
    assert capsys.readouterr().err == line


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("RETRY_CALLS__TIMEOUTS", "1",
         "RETRY_CALLS__TIMEOUTS in the environment: there is no setting calls.timeouts; "
         "did you mean calls.timeout?"),
        ("RETRY_CALL__TIMEOUT", "1",
         "RETRY_CALL__TIMEOUT in the environment: there is no setting call.timeout; "
         "did you mean calls.timeout?"),
        ("RETRY_CALLS__TIMEOUT", "x", "RETRY_CALLS__TIMEOUT x: must be a valid number"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_environment_names_the_variable(
    start: Started,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    value: str,
    line: str,
) -> None:
    monkeypatch.setenv(name, value)
    assert start() == 2
    assert capsys.readouterr().err == f"error: {line}\n"


def test_the_settings_are_listed_with_values_and_flags(
    start: Started, capsys: pytest.CaptureFixture[str]
) -> None:
    assert start("--settings", "--tries", "5") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(settings_of(Root))
    assert "tests.tries  5  Attempts with each model.  (--tries)" in lines
    assert "tests.folder  -  A folder." in lines
    assert start("--settings", "TIMEOUT") == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == ["calls.timeout", "tests.timeout"]


def test_help_has_flags_in_panels_with_defaults(
    start: Started, capsys: pytest.CaptureFixture[str]
) -> None:
    assert start("--help") == 0
    help_text = " ".join(capsys.readouterr().out.split())
    assert "Models: -n, --names NAME,NAME Names. [a,b]" in help_text
    assert "--tries N Attempts with each model. [3]" in help_text
    assert "Actions: --redo" in help_text
    assert "Everything else: --config FILE" in help_text
    assert "[WORD]" not in help_text
