"""Parsers in processes: any Python, hostile texts, processes that die or hang, and their end."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core.errors import InfrastructureError, StoppedError, UserError
from exercises.editpack.filtering import SyntaxParser, syntax_parser

MakePython = Callable[[str], str]
# Answers as a worker does: `text` is what it is asked about.
WORKER = """\
import os, signal, sys, time
from pathlib import Path
def say(words):
    sys.stdout.write(words + "\\n")
    sys.stdout.flush()
def ask():
    head = sys.stdin.buffer.read(8)
    return sys.stdin.buffer.read(int.from_bytes(head, "big")).decode() if head else sys.exit()
here = Path(__file__)
here.with_name(f"{here.name}.{os.getpid()}").touch()
"""


@pytest.fixture
def parser() -> SyntaxParser:
    return SyntaxParser(sys.executable)


@pytest.fixture
def make_python(tmp_path: Path) -> MakePython:
    """Make a program that is started in place of a Python."""

    def make(code: str) -> str:
        path = tmp_path / f"python{len([*tmp_path.iterdir()])}"
        path.write_text(f"#!{sys.executable}\n{WORKER}{code}")
        path.chmod(0o755)
        return str(path)

    return make


def none_left(python: str) -> bool:
    """Tell whether all processes of a made program have ended; there was one."""
    place = Path(python)
    pids = [int(path.suffix[1:]) for path in place.parent.glob(f"{place.name}.*")]
    return bool(pids) and not any(map(runs, pids))


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n", ""),
        ("", ""),
        ("def f():\n  return 1\n\f\nclass A: pass", ""),
        ("x = '\\d'", ""),  # a warning is no fault
        ("return 1", ""),  # nor is what only a compiler sees
        ("x = '" + "a" * 5_000_000 + "'", ""),
        ("print 'a'", "SyntaxError: Missing parentheses"),
        ("if 1:\nx", "IndentationError: expected an indented block"),
        ("x = 1\0", "null byte"),
        ("x = '\ud800'", "UnicodeEncodeError"),
        ("[" * 1_000_000, "too many nested parentheses"),
        ("-" * 100_000 + "1", "Error"),
        ("\ufeffx = 1", "SyntaxError: invalid non-printable character U+FEFF"),
    ],
)
def test_what_this_python_says(parser: SyntaxParser, text: str, said: str) -> None:
    found, after, again = parser([text, "x = 1", text])
    assert (said in found) if said else found == ""
    assert "\n" not in found
    assert after == ""
    assert again == found


def interpreters() -> dict[str, str]:
    """Return the other Pythons of this machine by their versions."""
    root = Path(os.environ.get("PYENV_ROOT") or "~/.pyenv").expanduser() / "versions"
    return {path.parents[1].name: str(path) for path in sorted(root.glob("3.*/bin/python"))}


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
@pytest.mark.parametrize("version", interpreters())
def test_each_python_gives_each_text_a_verdict(version: str) -> None:
    with syntax_parser(interpreters()[version], 1) as parser:
        assert parser.version == version
        found = parser([*HOSTILE.values()])
        for text, problem in zip(HOSTILE.values(), found, strict=True):
            assert parser([text, "print(f'{1}')", text]) == [problem, "", problem]
        verdicts = dict(zip(HOSTILE, found, strict=True))
        assert verdicts["brackets"]
        assert verdicts["null"]
        assert verdicts["a text"] == ""


@pytest.mark.skipif(not interpreters(), reason="no other Python is installed by pyenv")
def test_another_python_parses() -> None:
    numbered = {tuple(map(int, name.split("."))): name for name in interpreters()}
    oldest, version = min(numbered.items())
    with syntax_parser(interpreters()[version], 1) as parser:
        assert parser.version == version
        walrus, text = parser(["(x := 1)", "f'{x}'"])
        assert (bool(walrus), text) == (oldest < (3, 8), "")


def test_a_python_of_the_path_is_found_by_its_name(
    monkeypatch: pytest.MonkeyPatch, make_python: MakePython
) -> None:
    python = Path(make_python("say('3.9.1')\nask()\nsay('')\nask()"))
    monkeypatch.setenv("PATH", str(python.parent))
    with syntax_parser(python.name, 1) as parser:
        assert (parser.version, parser(["?"])) == ("3.9.1", [""])


@pytest.mark.parametrize(
    ("dies", "said"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "the parser died (signal 11)"),
        ("sys.exit(3)", "the parser died (exit code 3)"),
        ("os.kill(os.getpid(), signal.SIGXCPU)", "the parser took more than 10 s"),
        ("signal.pause()", "the parser did not answer in time"),
        ("say('x' * 10000)", "the parser died (signal"),
        ("say('MemoryError'); continue", "MemoryError"),
    ],
)
def test_a_process_that_ends_is_a_verdict_and_is_replaced(
    make_python: MakePython, dies: str, said: str
) -> None:
    code = f"say('3.9.1')\nwhile True:\n    text = ask()\n    if text == 'x':\n        {dies}\n"
    if "10000" in dies:  # which is no line
        code = code.replace(
            "say('x' * 10000)", "os.write(1, b'x' * 10000); os.kill(os.getpid(), 9)"
        )
    parser = SyntaxParser(make_python(code + "    say('' if text == 'good' else 'bad')"))
    if "pause" in dies:
        parser.patience = 2.0
    first, good, second, bad = parser(["x", "good", "x", "bad"])
    assert first.startswith(said)
    assert (good, second, bad) == ("", first, "bad")
    assert none_left(parser.python)


def test_a_process_that_reads_nothing_stops_no_one(make_python: MakePython) -> None:
    parser = SyntaxParser(make_python("say('3.9.1')\nsignal.pause()"), patience=2.0)
    assert parser(["x" * 1_000_000]) == ["the parser did not answer in time"]


def test_a_limit_that_came_of_earlier_texts_is_tried_again(make_python: MakePython) -> None:
    """A process that served others has no memory left; a new one has."""
    code = "say('3.9.1')\nask()\nsay('')\nask()\nsay('MemoryError')\nask()"
    assert SyntaxParser(make_python(code))(["a", "b"]) == ["", ""]


@pytest.mark.long
def test_memory_and_time_are_limited(parser: SyntaxParser) -> None:
    large = "x = [" + "1,\n" * 1_500_000 + "]"
    assert parser(["ok = 1", large, "ok = 1"]) == ["", "MemoryError", ""]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("say('Python')", "does not answer as a Python"),
        ("sys.exit(2)", "the parser died (exit code 2)"),
        ("say('2.7.18')", "is Python 2.7.18"),
        ("say('3.5.10')\nask()", "is Python 3.5.10"),
        ("os.write(1, b'y\\n' * 10000)", "does not answer as a Python"),
    ],
)
def test_what_is_no_python_is_one_line(make_python: MakePython, code: str, said: str) -> None:
    python = make_python(code)
    with pytest.raises(UserError) as error, syntax_parser(python, 1):
        pass
    assert said in str(error.value)
    assert str(error.value).endswith("name a Python of 3.6 or newer")
    assert none_left(python)


def test_a_name_that_is_no_program() -> None:
    for name in ("no-such-python", "/", __file__):
        with pytest.raises(UserError, match="there is no such program"), syntax_parser(name, 1):
            pass


def test_a_python_that_goes_away_ends_the_command(make_python: MakePython) -> None:
    python = make_python("say('3.9.1')\nask()\nhere.unlink()")
    with syntax_parser(python, 1) as parser:
        [found] = parser(["x"])
        assert found.startswith("the parser died")
        with pytest.raises(InfrastructureError, match="does not start"):
            parser(["y"])


def test_the_order_is_kept_and_few_items_are_read_ahead(make_python: MakePython) -> None:
    """Items are read only as results are taken."""
    python = make_python("say('3.9.1')\nwhile True:\n    say(ask())\n")
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(300):
            taken.append(number)
            yield number

    with syntax_parser(python, 3) as parser:
        found = parser.map(lambda item: parser([f"{item}"])[0], items())
        first = [next(found) for _ in range(5)]
        assert first == ["0", "1", "2", "3", "4"]
        assert len(taken) < 50
        assert [*found] == [str(number) for number in range(5, 300)]
    assert none_left(python)


def test_an_error_leaves_no_process(make_python: MakePython) -> None:
    """Also where the threads wait for processes that hang."""
    python = make_python("say('3.9.1')\nask()\n(here.parent / 'hangs').touch()\nsignal.pause()")
    with pytest.raises(KeyError), syntax_parser(python, 2) as parser:
        found = [parser.threads.submit(parser, ["x"]) for _ in range(2)]
        while not (Path(python).parent / "hangs").exists():
            time.sleep(0.01)
        raise KeyError
    assert all(one.cancelled() or isinstance(one.exception(), StoppedError) for one in found)
    assert none_left(python)


def test_secrets_are_kept_from_the_interpreter(
    monkeypatch: pytest.MonkeyPatch, make_python: MakePython
) -> None:
    monkeypatch.setenv("OWN_API_KEY", "secret")
    python = make_python("say('3.9.1')\nask()\nsay(str('OWN_API_KEY' in os.environ))\nask()")
    with syntax_parser(python, 1) as parser:
        assert parser(["x"]) == ["False"]
