"""Measure how parsing time grows with hostile input: ``python -m benchmarks.parser_growth``.

Each family of inputs is timed at sizes n, 2n, 4n and 8n. The exponent is the logarithm to base 2
of the time's ratio when the size doubles: 1 is linear, 2 quadratic. It is the slope over those
sizes that take long enough to be measured exactly.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
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
from bench.regression.parsers import parse_output
from bench.regression.runners import Runner
from benchmarks.hostile_inputs import ARGUMENTS, LOGS, PATH, REPLIES, SOURCES, Make
from llm.chat import Message, Reply, ToolCall
from llm.client import messages_as_sent

# Sorting and the CPU's caches make linear algorithms slightly slower than linear.
_TOLERANCE = 1.35
_TOO_SHORT = 0.02
_TOO_LONG = 60.0
_FILE = "".join(f"    value_{n % 700} = call({n})  # the number {n % 50}\n" for n in range(2_000))
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
        ("mentions", index.mentioned, {**REPLIES, **LOGS}),
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
    edits = edit_format.parse(Reply("", tool_calls=(call,)), ReplyScope(_KNOWN, (PATH,)))
    feedback(edit_format.apply(edits, {PATH: _FILE}.get, (PATH,)))
    edit_format.parse(Reply(text), ReplyScope())
    messages_as_sent([Message("assistant", "", (call,)), Message("user", "x")])


def _lint(path: str, before: str | None, after: str) -> None:
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


def _measured(family: Family, sizes: list[int], runs: int) -> list[float]:
    times: list[float] = []
    for size in sizes:
        times.append(_seconds(family, family.make(size), runs))
        if times[-1] > _TOO_LONG:
            break
    return times


def _exponent(times: list[float]) -> float:
    """Return the slope over the times that are long enough, 0 if there are fewer than two."""
    clear = [t for t in times if t > _TOO_SHORT]
    return math.log2(clear[-1] / clear[0]) / (len(clear) - 1) if len(clear) > 1 else 0.0


def main(
    size: Annotated[int, typer.Option(help="The smallest size, in characters.")] = 64 * 1024,
    runs: Annotated[int, typer.Option(help="Number of runs; the best one counts.")] = 2,
    only: Annotated[str, typer.Option(help="Only families with this in the name.")] = "",
    huge: Annotated[int, typer.Option(help="Size of the single blocks at the end.")] = 100_000_000,
) -> None:
    """Print each family's times and exponent; exit with 1 if one grows faster than allowed."""
    sizes = [size << n for n in range(4)]
    families = [family for family in _families() if only in family.name]
    print(f"{'family':50}" + "".join(f"{n // 1024:>7} KiB" for n in sizes) + "  exponent")
    bad = 0
    for family in families:
        times = _measured(family, sizes, runs)
        exponent = _exponent(times)
        fails = exponent > _TOLERANCE or times[-1] > _TOO_LONG
        bad += fails
        cells = "".join(f"{t:>9.3f} s" for t in times)
        print(
            f"{family.name:50}{cells}  {exponent:8.2f}{'  TOO FAST' if fails else ''}", flush=True
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
        print(f"{form}: {family} of {size:,} characters: {time.process_time() - started:.1f} s")


if __name__ == "__main__":
    typer.run(main)
