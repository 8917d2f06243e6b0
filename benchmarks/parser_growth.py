"""How parsing time grows with hostile input, against linear growth.

``python -m benchmarks.parser_growth``.

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

from swe_retry.agent.conversation.testreport import describe
from swe_retry.agent.formats import format_names, get_format
from swe_retry.agent.formats.protocol import MalformedReplyError, Matching, ReplyScope
from swe_retry.agent.formats.reading.fences import shortest_fence
from swe_retry.agent.formats.report import feedback
from swe_retry.agent.lint.findings import Change
from swe_retry.agent.lint.findings import describe as describe_findings
from swe_retry.agent.lint.linter import Linter
from swe_retry.agent.mentions import FileIndex
from swe_retry.frameworks import Runner, parse_output
from swe_retry.llm.chat import Message, Reply, ToolCall
from swe_retry.llm.messages import messages_as_sent
from swe_retry.testing.failures import failures_of

PATH = "package/a.py"
_FENCE = "```"
_PYTHON = f"{PATH}\n{_FENCE}python\n"
_SEARCH = f"{PATH}\n<<<<<<< SEARCH\n"
Make = Callable[[int], str]
"""Returns an input of about the given number of characters."""


def _repeat(unit: str, head: str = "", tail: str = "") -> Make:
    def make(size: int) -> str:
        count = max(1, size // len(unit))
        return head + unit * count + tail

    return make


def _block(search: str, replace: str, path: str = PATH) -> str:
    sections = f"<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE"
    return f"{path}\n{_FENCE}python\n{sections}\n{_FENCE}\n"


def _dump_keys(size: int) -> str:
    content: dict[str, object] = {"path": "x.py"}
    for number in range(size // 12):
        content[f"k{number}"] = []
    return json.dumps(content)


def _dump_edits(size: int) -> str:
    edit = {"original_lines": "x", "updated_lines": "y"}
    content: dict[str, object] = {"path": PATH, "edits": [edit] * (size // 45)}
    for number in range(size // 50):
        content[f"k{number}"] = 1
    return json.dumps(content)


def _nest_finally(size: int) -> str:
    text = ""
    for depth in range(18):
        indent = " " * depth
        text += f"{indent}try: pass\n{indent}finally:\n"
    return f"{text}{' ' * 18}x = 1\n" + "y = 1\n" * (size // 6)


def _nest_markers(size: int) -> str:
    lengths = range(5, 5 + math.isqrt(size))
    lines = [PATH]
    for length in lengths:
        lines.append(f"{'<' * length} SEARCH\n=====")
    for length in reversed(lengths):
        lines.append(f"{'>' * length} REPLACE")
    return "\n".join(lines)


def _count(template: str) -> Make:
    def make(size: int) -> str:
        count = size // len(template)
        return "".join(map(template.format, range(count)))

    return make


REPLIES: Mapping[str, Make] = {
    "spaces": _repeat(" "),
    "line ends": _repeat("\n"),
    "blank lines and dots": _repeat(" \n. .\n"),
    "one long word": _repeat("a"),
    "one long word and a mark": _repeat("a", tail="|b"),
    "backticks": _repeat("`"),
    "lines of backticks": _repeat("```\n"),
    "named fences unclosed": _repeat("a.py\n```python\n"),
    "named fences": _repeat("a.py\n```python\nx = (\n```\n"),
    "slashes": _repeat("a/"),
    "parents": _repeat("../"),
    "brackets": _repeat("["),
    "opening markers": _repeat("<<<<<<< SEARCH\n", head=PATH + "\n"),
    "dividers": _repeat("=======\n", _SEARCH, ">>>>>>> REPLACE\n"),
    "closing markers": _repeat(">>>>>>> REPLACE\n", _SEARCH),
    "nested markers of all lengths": _nest_markers,
    "words that append": _repeat("append ", tail="\n" + _block("x\n", "y\n")),
    "blocks": _repeat(_block("x = 1\n", "x = 2\n")),
    "blocks that nearly match": _count(
        _block("    value_{0} = cal({0})  # the number\n    b = {0}\n", "x\n")
    ),
    "blocks for places": _repeat(
        _block("x = 1\nx = 1\n", "x = 1\n", "package/same.py")
    ),
    "a long search in equal lines": _repeat(
        "x = 1\n",
        "package/same.py\n<<<<<<< SEARCH\n",
        "y\n=======\nz\n>>>>>>> REPLACE\n",
    ),
    "a search of one long line": _repeat(
        "ab ", _SEARCH, "\n=======\nz\n>>>>>>> REPLACE\n"
    ),
    "elisions": _repeat(
        "x = 1\n...\n",
        "package/same.py\n<<<<<<< SEARCH\n",
        "=======\n...\n>>>>>>> REPLACE\n",
    ),
    "an empty search": _repeat(
        "x = 1\n", "new.py\n```\n<<<<<<< SEARCH\n=======\n", ">>>>>>> REPLACE\n```\n"
    ),
    "new files": _count(
        "new{0}.py\n```\n<<<<<<< SEARCH\n=======\nx\n>>>>>>> REPLACE\n```\n"
    ),
    "a whole file": _repeat("x = 1\n", _PYTHON, "```\n"),
    "a whole file of brackets": _repeat("(((((\n", _PYTHON, "```\n"),
    "diff headers": _repeat("--- a/a.py\n+++ b/a.py\n"),
    "hunks": _repeat(
        "@@ -1,2 +1,2 @@\n-    value_1 = call(1)\n+x\n",
        "--- a/package/a.py\n+++ b/package/a.py\n",
    ),
    "hunks with wrong counts": _repeat(
        "@@ -1,99999 +1,99999 @@\n-x\n", "--- a/package/a.py\n+++ b/package/a.py\n"
    ),
    "digits in a hunk": _repeat("9", "--- a/package/a.py\n+++ b/package/a.py\n@@ -"),
    "renames": _repeat("rename from a.py\nrename to b.py\n"),
    "patch actions": _repeat("*** Update File: package/a.py\n@@\n-x = 1\n+y\n"),
    "patch headers": _repeat(
        "@@ x = 1\n", "*** Update File: package/same.py\n", "+y\n"
    ),
    "patch blank ends": _repeat(
        "\n", "*** Begin Patch\n*** Add File: x.py\n+x\n", "*** End Patch\n"
    ),
    "headings": _repeat("### 1. Update `package/a.py`\n"),
    "headings and fences": _repeat("### 1. Update `package/a.py`\n```python\nx\n```\n"),
    "fences in broken code": _repeat("(((\n```\n", _PYTHON),
    "fences of two lengths": _repeat("````\n```\n`````\n", _PYTHON),
    "markers of conflicts": _repeat(
        "<<<<<<< HEAD\nx\n=======\ny\n>>>>>>> b\n", PATH + "\n"
    ),
    "markers behind code": _repeat("x>>>>>>> REPLACE\n", _SEARCH),
    "bare last markers": _repeat(">>>>>>>\n", f"{_SEARCH}=======\n"),
    "a marker and spaces": _repeat(" ", PATH + "\n<<<<<<< SEARCH", "x"),
    "hunks in fences": _repeat(PATH + "\n```diff\n@@ @@\n-x\n+y\n```\n"),
    "hunks of new lines": _repeat(
        "@@ @@ x = 1\n+x\n", "--- a/package/same.py\n+++ b/x.py\n"
    ),
    "patches without ends": _repeat(
        "*** Begin Patch\n*** Update File: package/a.py\n@@\n-x\n+y\n```\nprose\n"
    ),
    "quoted names": _repeat("`package/a.py` "),
    "a comment of signs": _repeat("#", _PYTHON, "\n```\n"),
    "NUL bytes": _repeat("\0"),
    "lone surrogates": _repeat("\ud800"),
    "escaped quotes": _repeat('\\"'),
}
ARGUMENTS: Mapping[str, Make] = {
    "content": lambda size: json.dumps(
        {"path": "x.py", "content": "x = 1\n" * (size // 6)}
    ),
    "unclosed": _repeat("x = 1\\n", '{"path": "x.py", "content": "'),
    "single quotes": _repeat("x ", "{'path': 'x.py', 'content': '", "'}"),
    "broken quotes": _repeat('"x" ', '{"path": "x.py", "content": "', '"}'),
    "deep lists": _repeat("["),
    "deep objects": _repeat('{"a":'),
    "deep Python": _repeat("-", tail="1"),
    "unclosed objects": _repeat('{"a": 1, ', tail="}"),
    "keys": _dump_keys,
    "edits": _dump_edits,
    "digits": _repeat("9", '{"path": ', "}"),
    "words": _repeat("a b "),
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
    "parentheses": _repeat("("),
    "braces and line ends": _repeat("{\n"),
    "minus": _repeat("-", "x = ", "1\n"),
    "sums": _repeat("1+", "x = ", "1\n"),
    "attributes": _repeat(".a", "x = a", "\n"),
    "line ends": _repeat("\n", tail="(\n"),
    "comment signs": _repeat("#"),
    "comment stars": _repeat("# *", tail="\n("),
    "template marks": _repeat("{{a|"),
    "template tags": _repeat("{% if a %}"),
    "undefined names": _count("name_{0}\n"),
    "functions": _count("def f_{0}():\n    return missing\n"),
    "redefinitions": _repeat("def f():\n    pass\n"),
    "global names": _repeat("def f():\n    global a\n    b\n"),
    "star imports": _count("from m{0} import *\nname_{0}\n"),
    "returns under finally": lambda size: (
        "def f(x):\n  try:\n"
        + "    if x: return 1\n" * (size // 40)
        + "  finally:\n"
        + "    x += 1\n" * (size // 24)
    ),
    "nested finally": _nest_finally,
    "strings": _repeat("'a b c d' "),
    "f-strings": _repeat("{f'", "f'"),
    "digits": _repeat("9", "x = "),
    "NUL bytes": _repeat("\0"),
    "lone surrogates": _repeat("\ud800", "x = '"),
    "a strange encoding": _repeat("é", "# coding: punycode\n"),
}
LOGS: Mapping[str, Make] = {
    "digits": _repeat("1"),
    "paths": _repeat("/a@"),
    "paths with plus": _repeat("/+"),
    "escapes": _repeat("\x1b["),
    "escapes unclosed": _repeat("\x1b]a"),
    "dots": _repeat("."),
    "rules": _repeat("=" * 70 + "\n"),
    "failures": _count(
        "=" * 70 + "\nFAIL: test_{0} (m.C)\n" + "-" * 70 + "\nTraceback\nError: 1\n"
    ),
    "failures without rules": _repeat("====\nFAIL: test_a (m.C)\n"),
    "titles": _count("_____ test_{0} _____\nE   x\n"),
    "arguments": _repeat("a = 1\n", "= FAILURES =\n____ test_0 ____\n"),
    "titles of marks": _repeat("_ "),
    "sections of marks": _repeat("= "),
    "carriage returns": _repeat("\r"),
    "NUL bytes": _repeat("\0"),
    "summaries": _repeat("FAILED test_0 - x"),
    "nested suites": _repeat("  a\n    b\n      ✓ c\n"),
    "names with separators": _repeat("a > " * 200 + "\n"),
    "braces": _repeat("{\n"),
    "results of TAP": _count("not ok {0} - a # b\n"),
    "reasons": _count("  {0}) a\n"),
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
_FILES = frozenset((PATH, "package/same.py", "README.md", *_PACKAGES))


@dataclass(frozen=True)
class Family:
    """Inputs of one kind: ``make`` returns one of a given size, ``run`` processes it."""

    name: str
    make: Make
    run: Callable[[str], object]


def _families() -> list[Family]:
    mentions = FileIndex(_FILES).mentioned_files
    texts = {**REPLIES, **LOGS}
    families = []

    def add(
        name: str, run: Callable[[str], object], inputs: Mapping[str, Make]
    ) -> None:
        for kind, make in inputs.items():
            families.append(Family(f"{name}: {kind}", make, run))

    for form in format_names():
        if "func" not in form:
            add(f"{form} (tol)", partial(_reply, form, Matching.TOLERANT), REPLIES)
    add("diff (ref)", partial(_reply, "diff", Matching.REFERENCE), REPLIES)
    for form in ("whole-func", "diff-func"):
        add(f"{form} call", partial(_call, form), ARGUMENTS)
    add("mentions", mentions, texts)
    add("fence", lambda text: shortest_fence([text]), texts)
    add("lint of new Python", partial(_lint, "a.py", None), SOURCES)
    add("lint of Python", partial(_lint, "a.py", "a = 1\n"), SOURCES)
    add("lint of JavaScript", partial(_lint, "a.js", None), SOURCES)
    add("lint of C", partial(_lint, "a.c", "int a;\n"), SOURCES)
    for runner in (Runner.PYTEST, Runner.UNITTEST, Runner.SYMPY):
        add(f"{runner.value} log", partial(_log, runner), LOGS)
    # Tries the parsers of all runners.
    add("results", partial(parse_output, runner=Runner.SCRIPT), LOGS)
    return families


def _reply(form: str, matching: Matching, text: str) -> None:
    edit_format = get_format(form, matching)
    files = {PATH: _FILE, "package/same.py": _REPEATING}
    try:
        edits = edit_format.parse(Reply(text), ReplyScope(_FILES, (PATH,)))
    except MalformedReplyError:
        return
    feedback(edit_format.apply(edits, files.get, (PATH,)))
    edit_format.join(text, text)


def _call(form: str, text: str) -> None:
    edit_format = get_format(form)
    call = ToolCall(edit_format.tools[0]["name"], text)
    reply = Reply("", tool_calls=(call,))
    scope = ReplyScope(_FILES, (PATH,))
    files = {PATH: _FILE}
    edits = edit_format.parse(reply, scope)
    feedback(edit_format.apply(edits, files.get, (PATH,)))
    edit_format.parse(Reply(text), ReplyScope())
    conversation = [Message("assistant", "", (call,)), Message("user", "x")]
    messages_as_sent(conversation)


def _lint(path: str, before: str | None, after: str) -> None:
    change = Change(path, before, after)
    findings = Linter().new_findings([change])
    describe_findings(findings, {path: after})


def _log(runner: Runner, text: str) -> None:
    names = [f"test_{n}" for n in range(20)]
    describe(failures_of(text, runner, names, "timed out"))


def _seconds(family: Family, text: str, runs: int) -> float:
    best = math.inf
    for number in range(runs):
        # Use another text each time, so that no cache is measured.
        varied = text + "\n" * number
        start = time.process_time()
        family.run(varied)
        best = min(best, time.process_time() - start)
        if best > 1:
            break
    return best


def _times(family: Family, sizes: list[int], runs: int) -> list[float]:
    times: list[float] = []
    for size in sizes:
        seconds = _seconds(family, family.make(size), runs)
        times.append(seconds)
        if seconds > _TOO_LONG:
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
    heads = "".join(f"{n // 1024:>7} KiB" for n in sizes)
    print(f"{'family':50}{heads}  exponent")
    bad = 0
    for family in families:
        times = _times(family, sizes, runs)
        exponent = _exponent(times)
        cells = "".join(f"{seconds:>9.3f} s" for seconds in times)
        line = f"{family.name:50}{cells}  {exponent:8.2f}"
        if exponent > _TOLERANCE or times[-1] > _TOO_LONG:
            bad += 1
            line += "  TOO FAST"
        print(line, flush=True)
    if not only:
        _print_huge(huge)
    print(f"{len(families)} families, {bad} above {_TOLERANCE}")
    raise typer.Exit(bool(bad))


def _print_huge(size: int) -> None:
    for form, family in (
        ("diff", "an empty search"),
        ("whole", "a whole file"),
        ("diff", "dividers"),
    ):
        text = REPLIES[family](size)
        start = time.process_time()
        _reply(form, Matching.TOLERANT, text)
        seconds = time.process_time() - start
        print(f"{form}: {family} of {size:,} characters: {seconds:.1f} s")


if __name__ == "__main__":
    typer.run(main)
