"""What the documents say to type is what the commands take."""

from __future__ import annotations

import io
import re
import shlex
import subprocess
import textwrap
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.exceptions import TyperException

from swe_retry.cli import harness
from swe_retry.core.errors import UserError
from swe_retry.launch.program import Program
from swe_retry.llm.options import Models
from tests.old_options import PAGE, page, replacements
from tests.support import TOP
from tests.support.programs import commands, options_of, programs

pytestmark = pytest.mark.check

RENAMED = TOP / "swe_retry/launch/renamed.tsv"

DOCUMENTS = [TOP / "README.md", TOP / "CONTRIBUTING.md", *sorted(TOP.glob("docs/*.md"))]
DOCUMENTS += sorted(TOP.glob("exercises/docs/*.md"))
_CONTINUED = re.compile(r"\\\n\s*")
_COMMAND = re.compile(
    r"(?:\$ |\.venv/bin/)?((?:python -m \w+(?:\.\w+)?|(?:python )?(?:harness|report)\.py)\b.*)"
)
_SPAN = re.compile(r"`([^`\n]+(?:\n[^`\n]+)?)`")
_OF_OURS = re.compile(r"--|(python )?(harness|report)\.py|python -m swe_retry|retry-")
_OPTION = re.compile(r"--[a-z][\w-]+")
_FILE = re.compile(r"^    # (\w+\.yaml)\n((?:    .*\n)+)", re.MULTILINE)
# What a document leaves out, and what is optional.
_ELLIPSIS = re.compile(r"…|\.\.\.|[][]")
_REDIRECTION = re.compile(r"\s[|<>].*$")


def command_lines(text: str) -> Iterator[str]:
    """Yield the command lines of a document: lines of blocks, and code in the text."""
    text = _CONTINUED.sub(" ", text)
    for line in text.splitlines():
        if line.startswith("    ") or line.startswith(("python ", "$ python ")):
            match = _COMMAND.match(line.strip())
            if match:
                yield match[1]
    for span in _SPAN.findall(text):
        match = _COMMAND.fullmatch(" ".join(span.split()))
        if match:
            yield match[1]


def files_of(text: str) -> Iterator[tuple[str, str]]:
    """Yield name and content of the files of a document: blocks that begin with ``# NAME.yaml``."""
    for name, content in _FILE.findall(text):
        yield name, textwrap.dedent(content)


def words_of(line: str) -> list[str]:
    plain = _REDIRECTION.sub("", _ELLIPSIS.sub("", line))
    return shlex.split(plain, comments=True)


@cache
def known_commands() -> dict[tuple[str, ...], Any]:
    return {tuple(name.split()): command for name, command in commands()}


def parse(command_line: list[str]) -> None:
    """Give a command line to its command; one with settings reads and checks all of them."""
    if command_line[0] == "python" and command_line[1] != "-m":
        del command_line[0]
    lengths = [n for n in range(1, 5) if tuple(command_line[:n]) in known_commands()]
    if not lengths:
        assert command_line[1] == "-m", command_line
        assert find_spec(command_line[2]), command_line
        return
    name = tuple(command_line[: lengths[-1]])
    command = known_commands()[name]
    arguments = command_line[lengths[-1] :]
    if not arguments:
        return
    lists_settings = "--settings" in options_of(command) and "--help" not in arguments
    if lists_settings:
        arguments.append("--settings")
    try:
        context = command.make_context(" ".join(name), arguments)
        if lists_settings:
            command.invoke(context)
    except typer.Exit as end:
        assert end.exit_code == 0  # of --help and --settings


LINES = [
    pytest.param(path, line, id=f"{path.name}: {line}")
    for path in DOCUMENTS
    for line in dict.fromkeys(command_lines(path.read_text(encoding="utf-8")))
]


@pytest.mark.parametrize(("path", "line"), LINES)
def test_a_command_line_of_a_document_is_taken(
    path: Path,
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in files_of(path.read_text(encoding="utf-8")):
        (tmp_path / name).write_text(content, encoding="utf-8")
    parse(words_of(line))


@cache
def former_options() -> set[str]:
    """Return the options of older versions that no command has now."""
    rows = RENAMED.read_text(encoding="utf-8").splitlines()
    former = {row.split("\t")[1] for row in rows}
    for command in known_commands().values():
        former -= set(options_of(command))
    return former


@pytest.mark.parametrize(
    "path", [path for path in DOCUMENTS if path != PAGE], ids=lambda path: path.name
)
def test_no_document_names_an_option_that_is_gone(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    named = set()
    for span in _SPAN.findall(text):
        if _OF_OURS.match(span):
            named.update(_OPTION.findall(span))
    gone = former_options() & named
    assert not gone


def test_a_wrong_option_in_a_document_is_seen() -> None:
    block = "    python harness.py --modles a \\\n        --run r   # why\n"
    text = f"Type\n\n{block}\nor `report.py RUN --pages`."
    lines = list(command_lines(text))
    assert [words_of(line) for line in lines] == [
        ["python", "harness.py", "--modles", "a", "--run", "r"],
        ["report.py", "RUN", "--pages"],
    ]
    for line in lines:
        with pytest.raises(TyperException, match="No such option"):
            parse(words_of(line))
    with pytest.raises(UserError, match="must be"):
        parse(["harness.py", "--tries", "x"])


def test_the_page_of_runs_has_the_default_temperatures() -> None:
    text = (TOP / "docs/run.md").read_text()
    (values,) = re.findall(r"`models\.temperatures=([\d.,]+)`", text)
    assert tuple(map(float, values.split(","))) == Models().temperatures


def test_the_page_of_old_options_names_each_of_them() -> None:
    unknown = []
    for command, option, replacement in replacements():
        if replacement is None:
            unknown.append(f"{command} {option}")
    assert not unknown
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m tests.old_options"


@cache
def settings_of_program(key: str) -> set[str]:
    """Return the settings of all commands of a program, as they list them."""
    names = set()
    for program in programs():
        for command in known_commands_of(program) if program.key == key else ():
            if "--settings" in options_of(command):
                required = [item.name for item in command.params if item.required]
                printed = io.StringIO()
                with redirect_stdout(printed), suppress(typer.Exit):
                    command.invoke(command.make_context(key, ["--settings", *required]))
                names.update(re.findall(r"^[a-z_.0-9]+", printed.getvalue(), re.M))
    return names


def known_commands_of(program: Program) -> Iterator[Any]:
    for name, command in known_commands().items():
        if name[: len(program.name.split())] == tuple(program.name.split()):
            yield command


ROWS = [tuple(row.split("\t")) for row in RENAMED.read_text().splitlines()]


@pytest.mark.parametrize(("key", "old", "new"), [row for row in ROWS if row[2]])
def test_what_replaces_an_option_exists(key: str, old: str, new: str) -> None:
    """It is a setting, or a command line of options and settings that exist."""
    [program] = [program for program in programs() if program.key == key]
    if new.startswith("harness.py "):
        assert new.split()[1] in harness.SUBCOMMANDS
        return
    settings = set(re.findall(r"--set ([a-z_.0-9]+)=", new))
    if "." in new and " " not in new:
        settings = {new}
    assert settings <= settings_of_program(key)
    options = {option for c in known_commands_of(program) for option in options_of(c)}
    assert set(_OPTION.findall(new)) <= options
    command = new.split()[0]
    is_subcommand = command in program.subcommands
    assert is_subcommand or command.startswith("--") or settings == {new}
    assert old not in program.subcommands


def test_the_demo_says_that_it_installs(tmp_path: Path) -> None:
    command = ["make", "--dry-run", "demo", f"VENV={tmp_path}/venv"]
    steps = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=True)
    assert f"installing into {tmp_path}/venv" in steps.stdout
    assert "installing the packages of requirements-exercises.lock into" in steps.stdout
