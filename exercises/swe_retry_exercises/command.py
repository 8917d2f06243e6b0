"""The command ``retry-exercises``: a word names the system, its own command line follows."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib import import_module

from swe_retry.kit import Command, Program

SYSTEMS = {
    "exercism": Command("", help="The Exercism benchmark: run, report."),
    "canitedit": Command("", help="The CanItEdit benchmark: run, report, stats."),
    "editpack": Command("", help="Training data of edits: mine, filter, dedup, …"),
}
_PROGRAM = Program("exercises", "retry-exercises", SYSTEMS)


def main() -> int:
    script, *arguments = sys.argv
    word = (*arguments, "")[0]
    if word not in SYSTEMS:
        return _PROGRAM.dispatch()
    sys.argv = [script, *arguments[1:]]
    module = import_module(f"swe_retry_exercises.{word}.__main__")
    program: Program = module.PROGRAM
    return replace(program, module=f"{_PROGRAM.name} {word}").dispatch()
