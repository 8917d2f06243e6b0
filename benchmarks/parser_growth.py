"""Measure how parsing time grows with hostile input: ``python -m benchmarks.parser_growth``.

Each family of inputs is timed at sizes n, 2n, 4n and 8n. The exponent is the logarithm to base 2
of the time's ratio when the size doubles: 1 is linear, 2 quadratic. It is the slope over those
sizes that take long enough to be measured exactly.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import typer

from agent import lint
from agent.conversation.mentions import FileIndex
from agent.conversation.testreport import describe
from agent.formats import format_names, get_format
from agent.formats.base import MalformedReplyError, Matching, ReplyScope, feedback
from agent.formats.reading.fences import shortest_fence
from bench.regression.failures import failures_of
from bench.regression.runners import Runner, parse_output
from llm.chat import Message, Reply, ToolCall
from llm.client import messages_as_sent

PATH = "package/a.py"
_FENCE = "```"
Make = Callable[[int], str]
"""Returns an input of about the given number of characters."""


def _many(
    unit: str,
    head: str = "",
    tail: str = "",
) -> Make:
    return lambda size: head + unit * max(1, size // len(unit)) + tail


def _block(
    search: str,
    replace: str,
    path: str = PATH,
) -> str:
    sections = f"<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE"
    return f"{path}\n{_FENCE}python\n{sections}\n{_FENCE}\n"


def _nested(size: int) -> str:
    lengths = range(5, 5 + math.isqrt(size))
    return "\n".join(
        [PATH, *(f"{'<' * n} SEARCH\n=====" for n in lengths)]
        + [f"{'>' * n} REPLACE" for n in reversed(lengths)]
    )


def _numbered(template: str) -> Make:
    return lambda size: "".join(
        template.format(n) for n in range(size // len(template))
    )


REPLIES: Mapping[str, Make] = {
    "spaces": _many(" "),
    "line ends": _many("\n"),
    "blank lines and dots": _many(" \n. .\n"),
    "one long word": _many("a"),
    "one long word and a mark": _many("a", tail="|b"),
    "backticks": _many("`"),
    "lines of backticks": _many("```\n"),
    "named fences unclosed": _many("a.py\n```python\n"),
    "named fences": _many("a.py\n```python\nx = (\n```\n"),
    "slashes": _many("a/"),
    "parents": _many("../"),
    "brackets": _many("["),
    "opening markers": _many("<<<<<<< SEARCH\n", head=PATH + "\n"),
    "dividers": _many("=======\n", f"{PATH}\n<<<<<<< SEARCH\n", ">>>>>>> REPLACE\n"),
    "closing markers": _many(">>>>>>> REPLACE\n", head=PATH + "\n<<<<<<< SEARCH\n"),
    "nested markers of all lengths": _nested,
    "words that append": _many("append ", tail="\n" + _block("x\n", "y\n")),
    "blocks": _many(_block("x = 1\n", "x = 2\n")),
    "blocks that nearly match": _numbered(
        _block("    value_{0} = cal({0})  # the number\n    b = {0}\n", "x\n")
    ),
    "blocks for places": _many(_block("x = 1\nx = 1\n", "x = 1\n", "package/same.py")),
    "a long search in equal lines": _many(
        "x = 1\n",
        "package/same.py\n<<<<<<< SEARCH\n",
        "y\n=======\nz\n>>>>>>> REPLACE\n",
    ),
    "a search of one long line": _many(
        "ab ", f"{PATH}\n<<<<<<< SEARCH\n", "\n=======\nz\n>>>>>>> REPLACE\n"
    ),
    "elisions": _many(
        "x = 1\n...\n",
        "package/same.py\n<<<<<<< SEARCH\n",
        "=======\n...\n>>>>>>> REPLACE\n",
    ),
    "an empty search": _many(
        "x = 1\n", "new.py\n```\n<<<<<<< SEARCH\n=======\n", ">>>>>>> REPLACE\n```\n"
    ),
    "new files": _numbered(
        "new{0}.py\n```\n<<<<<<< SEARCH\n=======\nx\n>>>>>>> REPLACE\n```\n"
    ),
    "a whole file": _many("x = 1\n", PATH + "\n```python\n", "```\n"),
    "a whole file of brackets": _many("(((((\n", PATH + "\n```python\n", "```\n"),
    "diff headers": _many("--- a/a.py\n+++ b/a.py\n"),
    "hunks": _many(
        "@@ -1,2 +1,2 @@\n-    value_1 = call(1)\n+x\n",
        "--- a/package/a.py\n+++ b/package/a.py\n",
    ),
    "hunks with wrong counts": _many(
        "@@ -1,99999 +1,99999 @@\n-x\n", "--- a/package/a.py\n+++ b/package/a.py\n"
    ),
    "digits in a hunk": _many("9", "--- a/package/a.py\n+++ b/package/a.py\n@@ -"),
    "renames": _many("rename from a.py\nrename to b.py\n"),
    "patch actions": _many("*** Update File: package/a.py\n@@\n-x = 1\n+y\n"),
    "patch headers": _many("@@ x = 1\n", "*** Update File: package/same.py\n", "+y\n"),
    "patch blank ends": _many(
        "\n", "*** Begin Patch\n*** Add File: x.py\n+x\n", "*** End Patch\n"
    ),
    "headings": _many("### 1. Update `package/a.py`\n"),
    "headings and fences": _many("### 1. Update `package/a.py`\n```python\nx\n```\n"),
    "fences in broken code": _many("(((\n```\n", PATH + "\n```python\n"),
    "fences of two lengths": _many("````\n```\n`````\n", PATH + "\n```python\n"),
    "markers of conflicts": _many(
        "<<<<<<< HEAD\nx\n=======\ny\n>>>>>>> b\n", PATH + "\n"
    ),
    "markers behind code": _many("x>>>>>>> REPLACE\n", PATH + "\n<<<<<<< SEARCH\n"),
    "bare last markers": _many(">>>>>>>\n", PATH + "\n<<<<<<< SEARCH\n=======\n"),
    "a marker and spaces": _many(" ", PATH + "\n<<<<<<< SEARCH", "x"),
    "hunks in fences": _many(PATH + "\n```diff\n@@ @@\n-x\n+y\n```\n"),
    "hunks of new lines": _many(
        "@@ @@ x = 1\n+x\n", "--- a/package/same.py\n+++ b/x.py\n"
    ),
    "patches without ends": _many(
        "*** Begin Patch\n*** Update File: package/a.py\n@@\n-x\n+y\n```\nprose\n"
    ),
    "quoted names": _many("`package/a.py` "),
    "a comment of signs": _many("#", PATH + "\n```python\n", "\n```\n"),
    "NUL bytes": _many("\0"),
    "lone surrogates": _many("\ud800"),
    "escaped quotes": _many('\\"'),
}
ARGUMENTS: Mapping[str, Make] = {
    "content": lambda size: json.dumps(
        {"path": "x.py", "content": "x = 1\n" * (size // 6)}
    ),
    "unclosed": _many("x = 1\\n", '{"path": "x.py", "content": "'),
    "single quotes": _many("x ", "{'path': 'x.py', 'content': '", "'}"),
    "broken quotes": _many('"x" ', '{"path": "x.py", "content": "', '"}'),
    "deep lists": _many("["),
    "deep objects": _many('{"a":'),
    "deep Python": _many("-", tail="1"),
    "unclosed objects": _many('{"a": 1, ', tail="}"),
    "keys": lambda size: json.dumps(
        {"path": "x.py", **{f"k{n}": [] for n in range(size // 12)}}
    ),
    "edits": lambda size: json.dumps(
        {
            "path": PATH,
            "edits": [{"original_lines": "x", "updated_lines": "y"}] * (size // 45),
        }
        | {f"k{n}": 1 for n in range(size // 50)}
    ),
    "digits": _many("9", '{"path": ', "}"),
    "words": _many("a b "),
    "a path": lambda size: json.dumps(
        {
            "path": "a/" * (size // 2),
            "original_lines": "x",
            "updated_lines": "y",
            "content": "x",
        }
    ),
}
SOURCES: Mapping[str, Make] = {
    "parentheses": _many("("),
    "braces and line ends": _many("{\n"),
    "minus": _many("-", "x = ", "1\n"),
    "sums": _many("1+", "x = ", "1\n"),
    "attributes": _many(".a", "x = a", "\n"),
    "line ends": _many("\n", tail="(\n"),
    "comment signs": _many("#"),
    "comment stars": _many("# *", tail="\n("),
    "template marks": _many("{{a|"),
    "template tags": _many("{% if a %}"),
    "undefined names": _numbered("name_{0}\n"),
    "functions": _numbered("def f_{0}():\n    return missing\n"),
    "redefinitions": _many("def f():\n    pass\n"),
    "global names": _many("def f():\n    global a\n    b\n"),
    "star imports": _numbered("from m{0} import *\nname_{0}\n"),
    "returns under finally": lambda size: (
        "def f(x):\n  try:\n"
        + "    if x: return 1\n" * (size // 40)
        + "  finally:\n"
        + "    x += 1\n" * (size // 24)
    ),
    "nested finally": lambda size: (
        "".join(f"{' ' * n}try: pass\n{' ' * n}finally:\n" for n in range(18))
        + " " * 18
        + "x = 1\n"
        + "y = 1\n" * (size // 6)
    ),
    "strings": _many("'a b c d' "),
    "f-strings": _many("{f'", "f'"),
    "digits": _many("9", "x = "),
    "NUL bytes": _many("\0"),
    "lone surrogates": _many("\ud800", "x = '"),
    "a strange encoding": _many("é", "# coding: punycode\n"),
}
LOGS: Mapping[str, Make] = {
    "digits": _many("1"),
    "paths": _many("/a@"),
    "paths with plus": _many("/+"),
    "escapes": _many("\x1b["),
    "escapes unclosed": _many("\x1b]a"),
    "dots": _many("."),
    "rules": _many("=" * 70 + "\n"),
    "failures": _numbered(
        "=" * 70 + "\nFAIL: test_{0} (m.C)\n" + "-" * 70 + "\nTraceback\nError: 1\n"
    ),
    "failures without rules": _many("====\nFAIL: test_a (m.C)\n"),
    "titles": _numbered("_____ test_{0} _____\nE   x\n"),
    "arguments": _many("a = 1\n", "= FAILURES =\n____ test_0 ____\n"),
    "titles of marks": _many("_ "),
    "sections of marks": _many("= "),
    "carriage returns": _many("\r"),
    "NUL bytes": _many("\0"),
    "summaries": _many("FAILED test_0 - x"),
    "nested suites": _many("  a\n    b\n      ✓ c\n"),
    "names with separators": _many("a > " * 200 + "\n"),
    "braces": _many("{\n"),
    "results of TAP": _numbered("not ok {0} - a # b\n"),
    "reasons": _numbered("  {0}) a\n"),
}


# Sorting and the CPU's caches make linear algorithms slightly slower than linear.
_TOLERANCE = 1.35
_TOO_SHORT = 0.02
_TOO_LONG = 60.0
_FILE = "".join(
    f"    value_{n % 700} = call({n})  # the number {n % 50}\n" for n in range(2_000)
)
_REPEATING = "x = 1\n" * 5_000
_PACKAGES = (f"package/m{n}/__init__.py" for n in range(500))
_KNOWN = frozenset((PATH, "package/same.py", "README.md", *_PACKAGES))


@dataclass(frozen=True)
class Family:
    """Inputs of one kind: ``make`` returns one of a given size, ``run`` processes it."""

    name: str
    make: Make
    run: Callable[[str], object]


def _families() -> list[Family]:
    texts = [(form, Matching.TOLERANT) for form in format_names() if "func" not in form]
    index = FileIndex.of(_KNOWN)
    runs: list[tuple[str, Callable[[str], object], dict[str, Make]]] = [
        (f"{form} ({matching.value[:3]})", partial(_reply, form, matching), {**REPLIES})
        for form, matching in [*texts, ("diff", Matching.REFERENCE)]
    ]
    runs += [
        ("whole-func call", partial(_call, "whole-func"), {**ARGUMENTS}),
        ("diff-func call", partial(_call, "diff-func"), {**ARGUMENTS}),
        ("mentions", index.mentioned_files, {**REPLIES, **LOGS}),
        ("fence", lambda text: shortest_fence([text]), {**REPLIES, **LOGS}),
        ("lint of new Python", partial(_lint, "a.py", None), {**SOURCES}),
        ("lint of Python", partial(_lint, "a.py", "a = 1\n"), {**SOURCES}),
        ("lint of JavaScript", partial(_lint, "a.js", None), {**SOURCES}),
        ("lint of C", partial(_lint, "a.c", "int a;\n"), {**SOURCES}),
    ]
    runs += [
        (f"{runner.value} log", partial(_log, runner), {**LOGS})
        for runner in (Runner.PYTEST, Runner.UNITTEST, Runner.SYMPY)
    ]
    # Tries the parsers of all runners.
    runs.append(("results", partial(parse_output, runner=Runner.SCRIPT), {**LOGS}))
    return [
        Family(f"{where}: {name}", make, run)
        for where, run, inputs in runs
        for name, make in inputs.items()
    ]


def _reply(form: str, matching: Matching, text: str) -> None:
    edit_format = get_format(form, matching)
    files = {PATH: _FILE, "package/same.py": _REPEATING}
    try:
        edits = edit_format.parse(Reply(text), ReplyScope(_KNOWN, (PATH,)))
    except MalformedReplyError:
        return
    feedback(edit_format.apply(edits, files.get, (PATH,)))
    edit_format.join(text, text)


def _call(form: str, text: str) -> None:
    edit_format = get_format(form)
    call = ToolCall(edit_format.tools[0]["name"], text)
    edits = edit_format.parse(
        Reply("", tool_calls=(call,)), ReplyScope(_KNOWN, (PATH,))
    )
    feedback(edit_format.apply(edits, {PATH: _FILE}.get, (PATH,)))
    edit_format.parse(Reply(text), ReplyScope())
    messages_as_sent([Message("assistant", "", (call,)), Message("user", "x")])


def _lint(
    path: str,
    before: str | None,
    after: str,
) -> None:
    found = lint.Linter().new_findings([lint.Change(path, before, after)])
    lint.describe(found, {path: after})


def _log(runner: Runner, text: str) -> None:
    describe(failures_of(text, runner, [f"test_{n}" for n in range(20)], "timed out"))


def _seconds(family: Family, text: str, runs: int) -> float:
    best = math.inf
    for number in range(runs):
        # Use another text each time, so that no cache is measured.
        varied = text + "\n" * number
        started = time.process_time()
        family.run(varied)
        best = min(best, time.process_time() - started)
        if best > 1:
            break
    return best


def _measured(
    family: Family,
    sizes: list[int],
    runs: int,
) -> list[float]:
    times: list[float] = []
    for size in sizes:
        times.append(_seconds(family, family.make(size), runs))
        if times[-1] > _TOO_LONG:
            break
    return times


def _exponent(times: list[float]) -> float:
    """Return the slope over the times that are long enough, 0 if there are fewer than two."""
    clear = [t for t in times if t > _TOO_SHORT]
    if len(clear) > 1:
        return math.log2(clear[-1] / clear[0]) / (len(clear) - 1)
    return 0.0


def main(
    size: Annotated[int, typer.Option(help="The smallest size, in characters.")] = 64
    * 1024,
    runs: Annotated[int, typer.Option(help="Number of runs; the best one counts.")] = 2,
    only: Annotated[
        str, typer.Option(help="Only families with this in the name.")
    ] = "",
    huge: Annotated[
        int, typer.Option(help="Size of the single blocks at the end.")
    ] = 100_000_000,
) -> None:
    """Print each family's times and exponent; exit with 1 if one grows faster than allowed."""
    sizes = [size << n for n in range(4)]
    families = [family for family in _families() if only in family.name]
    print(
        f"{'family':50}" + "".join(f"{n // 1024:>7} KiB" for n in sizes) + "  exponent"
    )
    bad = 0
    for family in families:
        times = _measured(family, sizes, runs)
        exponent = _exponent(times)
        fails = exponent > _TOLERANCE or times[-1] > _TOO_LONG
        bad += fails
        cells = "".join(f"{t:>9.3f} s" for t in times)
        print(
            f"{family.name:50}{cells}  {exponent:8.2f}{'  TOO FAST' if fails else ''}",
            flush=True,
        )
    if not only:
        _print_huge(huge)
    print(f"{len(families)} families, {bad} above {_TOLERANCE}")
    raise typer.Exit(1 if bad else 0)


def _print_huge(size: int) -> None:
    for form, family in (
        ("diff", "an empty search"),
        ("whole", "a whole file"),
        ("diff", "dividers"),
    ):
        text = REPLIES[family](size)
        started = time.process_time()
        _reply(form, Matching.TOLERANT, text)
        print(
            f"{form}: {family} of {size:,} characters: {time.process_time() - started:.1f} s"
        )


if __name__ == "__main__":
    typer.run(main)
