"""What a terminal shows of an output, without what changes from run to run. Pure."""

from __future__ import annotations

import re

# Sequences with parameters as for colours, titles of windows, and commands of one character.
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_REPLACED = (
    # `<thing.Box object at 0x7f0e5d3146a0>`, also truncated; other hex numbers may matter.
    (re.compile(r"\bat 0x[0-9a-fA-F]+"), "at 0x…"),
    (re.compile(r"\b0x7f[0-9a-f]{10}\b"), "0x…"),
    # pytest's folders for `tmpdir`, in full or abbreviated by pytest; those of `tempfile`.
    (
        re.compile(
            r"/tmp/pytest-of-[\w.-]+/pytest-\d+(?:/popen-gw\d+)?|/tmp/pytest-\.\.\.-\d+"
        ),
        "/tmp/pytest",
    ),
    (
        re.compile(r"(?:/private)?(?:/var/folders/\w+/\w+/T|/tmp)/tmp[a-z0-9_]{6,8}\b"),
        "/tmp/tmp…",
    ),
    # Every environment has the tree in a folder of this name; paths are made relative to it.
    (re.compile(r"(?<![\w/.@+-])(?:/[\w.@+-]+)*/testbed/|(?<=[@+])/testbed/"), ""),
    (re.compile(r"(?<![\w/.@+-])(?:/[\w.@+-]+)+/(?=lib/python\d)"), ""),
    (re.compile(r"\bin \d+\.\d+ ?s(?:ec(?:ond)?s?)?\b"), "in … s"),
    # Time stamps at the beginning of a line only: assertions may be about others.
    (
        re.compile(
            r"(?m)^\[?(?:\d{4}-\d\d-\d\d[ T])?\d\d:\d\d:\d\d(?:[.,]\d+)?Z?\]?:? +"
        ),
        "",
    ),
)
# `tests/test_a.py ..F.s [ 33%]`, `[gw0] [ 50%] PASSED …`, and bars such as `45%|####  | 9/20`.
_PROGRESS = re.compile(
    r"^(?:[^\s:]+ )?[.FEsSxXpPfRwK]+ *(?:\[ *\d+%\])?$|\[ *\d+%\]|^ *\d+%\||^\[gw\d+\] linux"
)


def without_escapes(output: str) -> str:
    """Return ``output`` without colours, movements of the cursor and rewritten lines."""
    text = _ESCAPES.sub("", output.replace("\r\n", "\n"))
    lines = []
    for line in text.split("\n"):
        # A progress bar rewrites its line.
        rewritten = line.rstrip("\r").split("\r")
        lines.append(rewritten[-1])
    return "\n".join(lines)


def without_noise(output: str) -> str:
    """Return ``output`` as a terminal shows it, without the parts that change from run to run."""
    lines = without_escapes(output).split("\n")
    text = "\n".join(map(str.rstrip, lines))
    text = _CONTROLS.sub("", text)
    for pattern, replacement in _REPLACED:
        text = pattern.sub(replacement, text)
    return text


def is_progress(line: str) -> bool:
    return bool(line) and bool(_PROGRESS.search(line))
