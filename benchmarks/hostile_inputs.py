"""Pure: families of inputs of any length that are expensive to parse."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping

PATH = "package/a.py"
_FENCE = "```"
Make = Callable[[int], str]
"""Returns an input of about the given number of characters."""


def _many(unit: str, head: str = "", tail: str = "") -> Make:
    return lambda size: head + unit * max(1, size // len(unit)) + tail


def _block(search: str, replace: str, path: str = PATH) -> str:
    sections = f"<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE"
    return f"{path}\n{_FENCE}python\n{sections}\n{_FENCE}\n"


def _nested(size: int) -> str:
    lengths = range(5, 5 + math.isqrt(size))
    return "\n".join(
        [PATH, *(f"{'<' * n} SEARCH\n=====" for n in lengths)]
        + [f"{'>' * n} REPLACE" for n in reversed(lengths)]
    )


def _numbered(template: str) -> Make:
    return lambda size: "".join(template.format(n) for n in range(size // len(template)))


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
        "x = 1\n", "package/same.py\n<<<<<<< SEARCH\n", "y\n=======\nz\n>>>>>>> REPLACE\n"
    ),
    "a search of one long line": _many(
        "ab ", f"{PATH}\n<<<<<<< SEARCH\n", "\n=======\nz\n>>>>>>> REPLACE\n"
    ),
    "elisions": _many(
        "x = 1\n...\n", "package/same.py\n<<<<<<< SEARCH\n", "=======\n...\n>>>>>>> REPLACE\n"
    ),
    "an empty search": _many(
        "x = 1\n", "new.py\n```\n<<<<<<< SEARCH\n=======\n", ">>>>>>> REPLACE\n```\n"
    ),
    "new files": _numbered("new{0}.py\n```\n<<<<<<< SEARCH\n=======\nx\n>>>>>>> REPLACE\n```\n"),
    "a whole file": _many("x = 1\n", PATH + "\n```python\n", "```\n"),
    "a whole file of brackets": _many("(((((\n", PATH + "\n```python\n", "```\n"),
    "diff headers": _many("--- a/a.py\n+++ b/a.py\n"),
    "hunks": _many(
        "@@ -1,2 +1,2 @@\n-    value_1 = call(1)\n+x\n", "--- a/package/a.py\n+++ b/package/a.py\n"
    ),
    "hunks with wrong counts": _many(
        "@@ -1,99999 +1,99999 @@\n-x\n", "--- a/package/a.py\n+++ b/package/a.py\n"
    ),
    "digits in a hunk": _many("9", "--- a/package/a.py\n+++ b/package/a.py\n@@ -"),
    "renames": _many("rename from a.py\nrename to b.py\n"),
    "patch actions": _many("*** Update File: package/a.py\n@@\n-x = 1\n+y\n"),
    "patch headers": _many("@@ x = 1\n", "*** Update File: package/same.py\n", "+y\n"),
    "patch blank ends": _many("\n", "*** Begin Patch\n*** Add File: x.py\n+x\n", "*** End Patch\n"),
    "headings": _many("### 1. Update `package/a.py`\n"),
    "headings and fences": _many("### 1. Update `package/a.py`\n```python\nx\n```\n"),
    "fences in broken code": _many("(((\n```\n", PATH + "\n```python\n"),
    "fences of two lengths": _many("````\n```\n`````\n", PATH + "\n```python\n"),
    "markers of conflicts": _many("<<<<<<< HEAD\nx\n=======\ny\n>>>>>>> b\n", PATH + "\n"),
    "markers behind code": _many("x>>>>>>> REPLACE\n", PATH + "\n<<<<<<< SEARCH\n"),
    "bare last markers": _many(">>>>>>>\n", PATH + "\n<<<<<<< SEARCH\n=======\n"),
    "a marker and spaces": _many(" ", PATH + "\n<<<<<<< SEARCH", "x"),
    "hunks in fences": _many(PATH + "\n```diff\n@@ @@\n-x\n+y\n```\n"),
    "hunks of new lines": _many("@@ @@ x = 1\n+x\n", "--- a/package/same.py\n+++ b/x.py\n"),
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
    "content": lambda size: json.dumps({"path": "x.py", "content": "x = 1\n" * (size // 6)}),
    "unclosed": _many("x = 1\\n", '{"path": "x.py", "content": "'),
    "single quotes": _many("x ", "{'path': 'x.py', 'content': '", "'}"),
    "broken quotes": _many('"x" ', '{"path": "x.py", "content": "', '"}'),
    "deep lists": _many("["),
    "deep objects": _many('{"a":'),
    "deep Python": _many("-", tail="1"),
    "unclosed objects": _many('{"a": 1, ', tail="}"),
    "keys": lambda size: json.dumps({"path": "x.py", **{f"k{n}": [] for n in range(size // 12)}}),
    "edits": lambda size: json.dumps(
        {"path": PATH, "edits": [{"original_lines": "x", "updated_lines": "y"}] * (size // 45)}
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
