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
from contextlib import suppress

import pytest

from tests.support import TOP

BEGIN = """
import sys, time, os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
from decimal import Decimal
from swe_retry.runner.progress.state import ProgressState, WorkStep
from swe_retry.runner.progress.display import make_display
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
            if escape:
                self._escape(escape)
            else:
                self._put(plain)

    def _escape(self, escape: str) -> None:
        if escape == "\x1b[A":
            self.row -= 1
            assert self.row >= 0, "above the first line"
        else:
            assert escape == "\x1b[J", escape
            line = self.lines[self.row]
            self.lines[self.row] = line[: self.column]
            del self.lines[self.row + 1 :]

    def _put(self, character: str) -> None:
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self.row += 1
            if self.row == len(self.lines):
                self.lines.append("")
        else:
            assert character.isprintable(), repr(character)
            line = self.lines[self.row].ljust(self.column)
            before = line[: self.column]
            after = line[self.column + 1 :]
            self.lines[self.row] = before + character + after
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
    master, slave = open_terminal(rows, columns)
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
    try:
        return read_terminal(master)
    finally:
        os.close(master)
        child.wait()


def open_terminal(rows: int, columns: int) -> tuple[int, int]:
    """Return both ends of a terminal of this size; a child writes to the second."""
    master, slave = pty.openpty()
    size = struct.pack("HHHH", rows, columns, 0, 0)
    fcntl.ioctl(slave, termios.TIOCSWINSZ, size)
    return master, slave


def read_terminal(master: int) -> str:
    """Return all that is written until nobody has the terminal open any more."""
    written = b""
    # Linux raises an error at the end.
    with suppress(OSError):
        while chunk := os.read(master, 65536):
            written += chunk
    return written.decode()


def screens(written: str) -> list[list[str]]:
    """Return what was on the screen each time the cursor was back at the start of a line."""
    screen = Screen()
    seen = []
    for part in re.split(r"(?<=\r)", written):
        screen.write(part)
        seen.append(screen.text())
    return seen


def test_on_a_terminal_a_bar_the_running_ones_below_and_the_finished_above() -> None:
    written = on_a_terminal(BEGIN + WORK + END)
    seen = screens(written)
    full = [lines for lines in seen if len(lines) == 4]
    bar, *running = full[0]
    assert bar.startswith("0/4 done, 0 plausible, 0 failed, $1.50, 1 calls/min")
    without_times = [re.sub(r"\d:\d\d$", "", line) for line in running]
    assert without_times == [
        "  own__thing-1  attempt 2  gpt-4o  testing  ",
        "  own__thing-2  waiting for a processor  ",
        "  own__thing-3  waiting for a processor  ",
    ]
    later = [lines for lines in seen if lines[:3] == PLAIN and len(lines) == 5]
    bar, last_running = later[-1][3:]
    assert bar.startswith("2/4 done, 1 plausible, 1 failed, $1.50 of ~$3.00, 0:0")
    assert last_running.startswith("  own__thing-3  waiting")
    assert seen[-1] == [*PLAIN, "the end"], "nothing of the bar is left"


def test_an_exception_leaves_the_terminal_clean() -> None:
    failure = "    raise SystemExit('broken off')"
    seen = screens(on_a_terminal(BEGIN + WORK + failure))
    assert seen[-1] == [*PLAIN, "broken off"]


def test_an_interrupt_leaves_the_terminal_clean() -> None:
    kill = f"    os.kill(os.getpid(), {int(signal.SIGINT)}); time.sleep(60)\n"
    seen = screens(on_a_terminal(BEGIN + WORK + kill))
    last = seen[-1]
    assert last[:3] == PLAIN
    assert last[3].startswith("Traceback"), "at the start of a line"
    assert last[-1] == "KeyboardInterrupt"


@pytest.mark.parametrize(("rows", "columns"), [(6, 30), (4, 12), (2, 80), (1, 1)])
def test_small_terminals_are_not_overrun(rows: int, columns: int) -> None:
    many = "    for n in range(20): progress.note_start(f'other__thing-{n}')\n"
    many += "    wait_for_a_draw()\n"
    written = on_a_terminal(BEGIN + many, rows, columns)
    drawn = [lines for lines in screens(written) if lines]
    assert drawn
    for lines in drawn:
        assert len(lines) <= max(rows - 1, 1)
        for line in lines:
            assert len(line) < max(columns, 2)
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
    assert any("  … and 2 more" in lines for lines in seen)


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
