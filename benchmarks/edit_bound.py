"""CPU of the longest replies on the largest files, against a limit and half the reply.

``python -m benchmarks.edit_bound``.

Each reply has at most 1 MB, each file 1 MB. Prints the CPU seconds of reading, placing and
explaining the edits, their ratio to the limit and to the seconds of half the reply; exits with 1
above the limit. Ten replies are generated: pieces of the formats' own examples, repeated.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated

import typer

from swe_retry.agent.formats import format_names, get_format
from swe_retry.agent.formats.protocol import ReplyScope
from swe_retry.agent.formats.report import feedback
from swe_retry.llm.chat import Reply, ToolCall

PATH = "a.py"
LIMIT = 2.0
_SIZE = 1_000_000
_FENCE = "```"
_FORMATS = format_names()
_TAGS = ("<think>", "</think>", "[THINK]", "<reasoning>")
_GENERATED = 10


def _repeat(text: str, size: int = _SIZE) -> str:
    return text * (size // len(text))


def _block(search: str, replace: str = "y\n") -> str:
    sections = f"<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE"
    return f"{PATH}\n{_FENCE}\n{sections}\n{_FENCE}\n"


def _patch(body: str) -> str:
    return f"*** Begin Patch\n*** Update File: {PATH}\n{body}*** End Patch\n"


def _listing(text: str) -> str:
    return f"{PATH}\n{_FENCE}python\n{text}{_FENCE}\n"


_CALL = "    value_{0} = call({0})  # the number {0}\n"
_MISSPELT = "    value_{0} = call({0})  # teh number {0}\n"
_FILES: Mapping[str, str] = {
    "equal lines": _repeat("    x = 1\n"),
    "two characters": _repeat("a\n"),
    "brackets": _repeat(")\n"),
    "long lines": _repeat("x" * 998 + "\n"),
    "calls": "".join(map(_CALL.format, range(22_000))),
}


def _replies() -> Sequence[tuple[str, str, str, str]]:
    """Return name, format, file and reply of each case."""
    equal = partial(_block, _repeat("x = 1\n", 900))
    pairs = f"{PATH}\nBefore:\n{_FENCE}\nx\n{_FENCE}\nAfter:\n{_FENCE}\ny z\n{_FENCE}\n"
    moves = f"*** Update File: {PATH}\n@@\n-a\n+b\n*** Delete File: z\n"
    missing = ""
    exact = ""
    alike = ""
    for number in range(500):
        missing += _block(f"a\nb{number}\n")
        exact += _block(_CALL.format(number))
        alike += _block(_MISSPELT.format(number) * 2)
    nested = ""
    for number in range(3000):
        indent = "  " * (number % 300)
        nested += f"{indent}*** Begin Patch\n"
    elisions = _block("x = 1\n...\n" * 40)
    blank_lines = _block("x = 1\n\n\n" * 40)
    dividers = _block("a\n=======\n" * 200)
    headers = "@@ )\n" * 20 + "-) z\n+y\n"
    long_line = _block("x" * 999 + "\n")

    return (
        ("150 equal lines", "diff", "equal lines", equal()),
        ("the same, 500 times", "diff", "equal lines", equal() * 500),
        ("elisions", "diff", "equal lines", elisions * 500),
        ("blank lines", "diff", "equal lines", blank_lines * 500),
        ("missing lines", "diff", "two characters", missing),
        ("blocks", "diff", "two characters", _repeat(_block("a\n"))),
        ("dividers", "diff", "two characters", dividers * 400),
        ("moves between blocks", "patch", "two characters", moves * 250),
        ("headers", "patch", "brackets", _patch("@@ )\n+y\n" * 5000)),
        ("nested headers", "patch", "brackets", _patch(headers)),
        ("long lines", "diff", "long lines", long_line * 500),
        ("exact lines", "diff", "calls", exact),
        ("lines alike", "diff", "calls", alike),
        ("files in full", "diff", "calls", _repeat(_listing("x = 1 + y\n"))),
        ("a whole file", "whole", "calls", _listing(_FILES["calls"] + "# ...\n")),
        ("pairs of fences", "diff", "two characters", _repeat(pairs)),
        ("tags", "diff", "calls", _repeat("</think>\n<think>\n")),
        *[("opening tags", form, "calls", _repeat("<think>")) for form in _FORMATS],
        ("fences in items", "diff", "calls", _repeat("    ```\n    a\n")),
        ("nested items", "diff", "calls", nested),
        ("texts of JSON", "diff", "calls", _repeat('"*** Begin Patch \\')),
        (
            "context diffs",
            "diff",
            "calls",
            _repeat("*** a b\n--- a\n***************\n"),
        ),
    )


def _generate(seed: int) -> Iterator[tuple[str, str, str, str]]:
    """Yield a repeated combination of pieces for each format in turn."""
    source = random.Random(seed)
    for number in range(_GENERATED):
        form = _FORMATS[number % len(_FORMATS)]
        example = get_format(form).instructions(_FENCE).splitlines()
        pieces = [*example, *_TAGS, *source.sample(example, 3)]
        unit = ""
        for piece in source.sample(pieces, source.randint(1, 4)):
            unit += piece + source.choice(("", "\n"))
        yield f"{unit!r}", form, "calls", _repeat(unit or "\n")


def _measure(form: str, text: str, reply: str) -> tuple[float, int, int]:
    """Return the CPU seconds of a reply, its edits, and how many failed."""
    files = {PATH: text}
    edit_format = get_format(form)
    scope = ReplyScope(frozenset(files), (PATH,), files.get)
    calls = [ToolCall(tool["name"], reply) for tool in edit_format.tools]
    start = time.process_time()
    edits = edit_format.parse(Reply(reply, tool_calls=tuple(calls)), scope)
    report = edit_format.apply(edits, files.get, ())
    feedback(report)
    return time.process_time() - start, len(edits), len(report.failures)


def main(
    only: Annotated[str, typer.Option(help="Run only cases with this name.")] = "",
    seed: Annotated[int, typer.Option(help="Of the replies that are generated.")] = 1,
) -> None:
    """Print the time of each case, and its ratio to the limit."""
    print(f"seed {seed}")
    bad = 0
    for name, form, file, reply in (*_replies(), *_generate(seed)):
        if only not in name:
            continue
        half = _measure(form, _FILES[file], reply[: len(reply) // 2])[0]
        seconds, edits, failed = _measure(form, _FILES[file], reply)
        bad += seconds > LIMIT
        counts = f"{edits:>7} edits {failed:>7} failed"
        share = f"{seconds / LIMIT:5.2f} of the limit, {seconds / half:4.1f} of half"
        print(f"{name:22.22} {form:11} {counts} {seconds:6.2f} s  {share}")
    print(f"{bad} above {LIMIT} s")
    raise typer.Exit(bool(bad))


if __name__ == "__main__":
    typer.run(main)
