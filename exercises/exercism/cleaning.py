"""The output of tests as the model receives it: equal on every machine and in each run. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_PYTHON = "lib/python/"
_ENDS = r"\s\"'()<>\[\]:,;="
# Only from the beginning of a word: a long one is searched once.
_PATH = rf"(?<![^{_ENDS}])[^{_ENDS}]*"
_RULES = tuple(
    (re.compile(pattern, re.MULTILINE), replacement)
    for pattern, replacement in (
        (r"^Ran \d+ tests? in \d+\.\d+s\n?", ""),
        (r"^-+ generated xml file: .* -+\n?", ""),
        # pytest adds hours, minutes and seconds from one minute on.
        (r"\bin \d+\.\d+s\b(?: \(\d+:\d\d:\d\d\))?", ""),
        (r"={4,}", "===="),
        (r"-{4,}", "----"),
        # unittest shortens long texts in the middle, so also in the middle of an address: the
        # number of characters left out and the rest differ as the address does.
        (r"\b0x[0-9a-fA-F]*\[\d+ chars\][0-9a-fA-F]*(?=>)", "0x..[..]"),
        (r"\b0x[0-9a-fA-F]+", "0x.."),
        (r"\bid='\d+'", "id='..'"),
        # Where Python lies, and the lines of its modules in a patch version.
        (rf"{_PATH}/lib(?:64)?/python3(?:\.\d+)?/(?:(?:site|dist)-packages/)?", _PYTHON),
        (rf"((?:{_PYTHON}[^\s\":]+|<frozen [\w. ]+>)(?:\", line |:))\d+", r"\1.."),
        (rf"{_PATH}/bin/python[\d.]*", "python"),
        (r"^platform .* -- Python .*\n", ""),
        (r"/tmp/tmp\w{8}\b", "/tmp/tmp.."),
    )
)


def cleaned(output: str, name: str, folders: Iterable[str], changing: Iterable[str] = ()) -> str:
    """Return the output of tests without what differs between two runs of the same code.

    Besides this the tests need PYTHONHASHSEED=0, no bytecode, no cache of pytest, and one minor
    version of Python (see ``languages``).

    Args:
        output: standard output and error.
        name: of the exercise; it replaces the folder.
        folders: paths under which the tests saw their folder.
        changing: further patterns of what differs (``Language.changing``); it is dropped.
    """
    for folder in sorted(filter(None, folders), key=len, reverse=True):
        output = output.replace(folder, name)
    for further in changing:
        output = re.sub(further, "", output, flags=re.MULTILINE)
    for pattern, replacement in _RULES:
        output = pattern.sub(replacement, output)
    return "".join(_without_guides(output.splitlines(keepends=True)))


def _without_guides(lines: Iterable[str]) -> Iterator[str]:
    before = ""
    for line in lines:
        marks = line.removeprefix("E").strip()
        if not ("0x.." in before and marks.startswith("?") and {*marks} <= {*"?^+- "}):
            before = line
            yield line
