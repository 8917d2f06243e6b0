"""Rows of edits, and the commands run in this process."""

from __future__ import annotations

import gzip
import json
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from exercises.dispatch import dispatch
from exercises.editpack.__main__ import COMMANDS

EditRow = dict[str, Any]
Run = Callable[..., int]


def edit(old: str, new: str, message: str = "Change it", **more: object) -> EditRow:
    return {"old_contents": old, "new_contents": new, "message": message, **more}


def write_rows(path: Path, rows: Iterable[object]) -> Path:
    """Write rows a line each; what is bytes already is a line as it is."""
    lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    data = b"".join(line + b"\n" for line in lines)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def read_rows(path: Path) -> list[EditRow]:
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    return [json.loads(line) for line in text.splitlines()]


def report_beside(path: Path) -> EditRow:
    found: EditRow = json.loads(path.with_name(f"{path.name}.report.json").read_bytes())
    return found


def runner(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return what runs a command of editpack and returns its exit code."""

    def run(*words: object) -> int:
        monkeypatch.setattr(sys, "argv", ["editpack", *map(str, words)])
        return dispatch("exercises.editpack", COMMANDS)

    return run


_HEADS = (
    "", "\n", "# one\n", "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n\n", "# a\n\n# b\n\n",
    '"""One line."""\n', '"""Several\nlines.\n"""\n', "'''Several\nlines.'''\n",
    '# c\n"""Behind\na comment.\n"""\n# d\n', 'T = """\na\n"""\n', '# """ in a comment\n',
    'r"""Raw\n\\d"""  # noqa\n', '"""Never closed\n', '"""a\n"""; CODE = 1\n', "    # indented\n",
    "\ufeff# marked\n", "# c\r\n\r\n", '"""Of\r\nWindows."""\r\n', "\f\n# after a feed\n", "# \0\n",
    '"a\\\nb"\n', 'f"""\n{1}"""\n', "# old\rMAC = 1\n", '""" """ """\nodd\n"""\n',
)  # fmt: skip
_BODIES = (
    "def f(x):\n    return x + 1\n", "import os\n\n\nprint(os.name)\n", "class A:\n    pass\n",
    "x = [1, 2, 3]\n", "for i in range(3):\n    print(i)\n", "text = 'Todo'\n", "\n", "  \n\t\n",
)  # fmt: skip
_SPOILT = (
    "# TODO: later\n", "# fixme\n", "log.debug('x')\n", "import setuptools\n", "print 'two'\n",
    "fix me = 1\n", "BUG = 'FIX ME'\n", "if:\n", "from setuptools import setup\n", "x = '\0'\n",
    "s = '\ud800'\n", "todo = 1\n", "del (\n",
)  # fmt: skip


def generated_edits(number: int, seed: int = 6) -> Iterator[EditRow]:
    """Yield edits with heads of all kinds, spoilt or small at random; equal for equal numbers."""
    choose = random.Random(seed)
    for place in range(number):
        body = "".join(choose.choices(_BODIES, k=choose.randint(0, 3)))
        spoilt = "".join(choose.sample(_SPOILT, choose.choice((0, 0, 0, 1, 2))))
        more = "y" * choose.choice((0, 5, 8, 9, 10, 11, 30))
        old = choose.choice(_HEADS) + body + choose.choice(("", "", *_SPOILT))
        new = choose.choice((_HEADS, (old[: old.find(body)],))[choose.random() < 0.6])
        yield edit(old, new + body + spoilt + (f"{more} = 1\n" if more else ""), commit=str(place))
