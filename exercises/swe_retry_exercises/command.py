"""The command ``retry-exercises``: a word names the system, its own command line follows."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib import import_module

from swe_retry.kit import packages_or_restart

with packages_or_restart():
    from swe_retry.kit import Command, Program


def main() -> int:
    script, *arguments = sys.argv
    word = (*arguments, "")[0]
    if word not in SYSTEMS:
        return _PROGRAM.main()
    sys.argv = [script, *arguments[1:]]
    # Imported late: each system needs packages of its own.
    module = import_module(f"swe_retry_exercises.{word}.__main__")
    program: Program = module.PROGRAM
    return replace(program, module=f"{_PROGRAM.name} {word}").main()


SYSTEMS = {
    "exercism": Command(main, help="The Exercism benchmark: run, report."),
    "canitedit": Command(main, help="The CanItEdit benchmark: run, report, stats."),
    "editpack": Command(main, help="Training data of edits: mine, filter, dedup, …"),
}
_PROGRAM = Program("exercises", "retry-exercises", SYSTEMS)
