"""Both displays, watched from outside: a child process on a real pseudo-terminal, or on a pipe."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios

import pytest

from tests.support import TOP

BEGIN = """
import sys, time, os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
from decimal import Decimal
from runs.progress.state import ProgressState, WorkStep
from runs.progress.display import make_display
progress = ProgressState(4)
asked = []
def spent():
    asked.append(1)
    return Decimal("1.5"), Decimal("1.5")
def wait_for_a_draw():
    enough = len(asked) + 2  # a drawing begins by asking for the dollars
    for _ in range(3000):  # it may have died
        time.sleep(0.01)
        if len(asked) >= enough:
            return
    raise SystemExit("nothing is drawn")
progress.word = "plausible"
with make_display(sys.stderr, progress, spent, every=0.05) as display:
    for name in ("own__thing-1", "own__thing-2", "own__thing-3"):
        progress.note_start(name)
    progress.step("own__thing-1", 2, "gpt\\x1b[31m-4o", WorkStep.TESTING)
    progress.note_call()
"""
WORK = """
    wait_for_a_draw()
    display.note("note: \\x1b]0;evil\\x07slow")
    good = "plausible", "all\\r\\nclean\\x1b[2J"
    display.note_finished("own__thing-1", *good, "$0.5000")
    display.note_finished("own__thing-2", "infra_error", "no disk", "unknown")
    wait_for_a_draw()
"""
AT_ONCE = BEGIN + WORK.replace("wait_for_a_draw()", "")
PLAIN = [
    "note: slow",
    "[1/4] own__thing-1: plausible; all clean; $0.5000",
    "[2/4] own__thing-2: infra_error; no disk; unknown",
]
END = '\nprint("the end", file=sys.stderr)\n'


class Screen:
    """As much of a terminal as tqdm uses: carriage return, new line, cursor up, erase below."""

    def __init__(self) -> None:
        self.lines: list[str] = [""]
        self.row = self.column = 0

    def write(self, text: str) -> None:
        for escape, plain in re.findall(r"(\x1b\[[0-9]*[A-Za-z])|([^\x1b])", text):
            self._escape(escape) if escape else self._put(plain)

    def _escape(self, escape: str) -> None:
        if escape == "\x1b[A":
            self.row -= 1
            assert self.row >= 0, "above the first line"
        else:
            assert escape == "\x1b[J", escape
            self.lines[self.row] = self.lines[self.row][: self.column]
            del self.lines[self.row + 1 :]

    def _put(self, character: str) -> None:
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self.row += 1
            self.lines += [""] * (self.row + 1 - len(self.lines))
        else:
            assert character.isprintable(), repr(character)
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = (
                line[: self.column] + character + line[self.column + 1 :]
            )
            self.column += 1

    def text(self) -> list[str]:
        return [line.rstrip() for line in self.lines if line.strip()]


def on_a_terminal(
    script: str,
    rows: int = 24,
    columns: int = 100,
    **environ: str,
) -> str:
    """Return all that the child wrote to its terminal."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    child = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=TOP,
        stderr=slave,
        stdin=slave,
        env={
            **os.environ,
            "TERM": "xterm",
            "PYTHONIOENCODING": "utf-8",
            "PYTHON_COLORS": "0",
            **environ,
        },
    )
    os.close(slave)
    written = b""
    try:
        while chunk := _read(master):
            written += chunk
    finally:
        os.close(master)
        child.wait()
    return written.decode()


def _read(master: int) -> bytes:
    try:
        return os.read(master, 65536)
    except OSError:  # Linux's way to say that nobody has the terminal open any more
        return b""


def screens(written: str) -> list[list[str]]:
    """Return what was on the screen each time the cursor was back at the start of a line."""
    screen = Screen()
    seen = []
    for part in re.split(r"(?<=\r)", written):
        screen.write(part)
        seen.append(screen.text())
    return seen


def test_on_a_terminal_a_bar_the_running_ones_below_and_the_finished_above() -> None:
    seen = screens(on_a_terminal(BEGIN + WORK + END))
    first = next(lines for lines in seen if len(lines) == 4)
    assert first[0].startswith("0/4 done, 0 plausible, 0 failed, $1.50, 1 calls/min")
    assert [re.sub(r"\d:\d\d$", "", line) for line in first[1:]] == [
        "  own__thing-1  attempt 2  gpt-4o  testing  ",
        "  own__thing-2  waiting  ",
        "  own__thing-3  waiting  ",
    ]
    later = [lines[3:] for lines in seen if lines[:3] == PLAIN and len(lines) == 5]
    (bar, running) = later[-1]
    assert bar.startswith("2/4 done, 1 plausible, 1 failed, $1.50 of ~$3.00, 0:0")
    assert running.startswith("  own__thing-3  waiting")
    assert seen[-1] == [*PLAIN, "the end"], "nothing of the bar is left"


def test_an_exception_leaves_the_terminal_clean() -> None:
    seen = screens(on_a_terminal(BEGIN + WORK + "    raise SystemExit('broken off')"))
    assert seen[-1] == [*PLAIN, "broken off"]


def test_an_interrupt_leaves_the_terminal_clean() -> None:
    kill = f"    os.kill(os.getpid(), {int(signal.SIGINT)}); time.sleep(60)\n"
    seen = screens(on_a_terminal(BEGIN + WORK + kill))
    assert seen[-1][:3] == PLAIN
    assert seen[-1][3].startswith("Traceback"), "at the start of a line"
    assert seen[-1][-1] == "KeyboardInterrupt"


@pytest.mark.parametrize(("rows", "columns"), [(6, 30), (4, 12), (2, 80), (1, 1)])
def test_small_terminals_are_not_overrun(rows: int, columns: int) -> None:
    many = "    for n in range(20): progress.note_start(f'other__thing-{n}')\n"
    many += "    wait_for_a_draw()\n"
    written = on_a_terminal(BEGIN + many, rows, columns)
    drawn = [lines for lines in screens(written) if lines]
    assert drawn
    for lines in drawn:
        assert len(lines) <= max(rows - 1, 1)
        assert all(len(line) < max(columns, 2) for line in lines)
    assert not screens(written)[-1]


def test_the_size_is_asked_for_at_each_refresh() -> None:
    shrink = """
    wait_for_a_draw()
    import fcntl, struct, termios
    fcntl.ioctl(2, termios.TIOCSWINSZ, struct.pack("HHHH", 4, 30, 0, 0))
    wait_for_a_draw()
"""
    written = on_a_terminal(BEGIN + shrink)
    assert written.count("\x1b[J") == 2, "what was wrapped is erased"
    seen = [lines for lines in screens(written) if lines]
    assert max(map(len, seen)) == 4
    assert max(map(len, seen[0])) > 30
    assert seen[-3][0] == "0/4 done, 0 plausible, 0 fail"
    assert "  … and 2 more" in {line for lines in seen for line in lines}


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_terminals_of_other_encodings_get_what_they_can_show(encoding: str) -> None:
    work = WORK.replace("no disk", "漢字")
    written = on_a_terminal(BEGIN + work, PYTHONIOENCODING=encoding)
    assert "infra_error; ??; unknown" in written


def test_with_a_pipe_a_plain_line_per_finished_instance() -> None:
    done = subprocess.run(
        [sys.executable, "-c", AT_ONCE],
        cwd=TOP,
        capture_output=True,
        check=True,
    )
    assert done.stderr.decode().split("\n") == [*PLAIN, ""]
    assert not done.stdout


def test_a_dumb_terminal_gets_plain_lines() -> None:
    written = on_a_terminal(AT_ONCE, TERM="dumb")
    assert written.split("\r\n") == [*PLAIN, ""]


def test_a_reader_that_is_gone_does_not_stop_the_run() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    after = "\nprint('the run went on')\n"
    done = subprocess.run(
        [sys.executable, "-c", AT_ONCE + after],
        cwd=TOP,
        stdout=subprocess.PIPE,
        stderr=writer,
    )
    os.close(writer)
    assert done.stdout == b"the run went on\n"
