"""The commands of a benchmark: ``python -m exercises.NAME COMMAND …``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from bench.cli.launch import launch


@dataclass(frozen=True)
class BenchmarkCommand:
    module: str
    help: str
    function: str = "main"


def dispatch(package: str, commands: Mapping[str, BenchmarkCommand]) -> int:
    """Run the command that the command line names; return the exit code.

    Only the module of that command is imported.
    """
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name in ("-h", "--help"):
        width = max(map(len, commands))
        lines = [
            f"  {name:{width}}  {command.help}" for name, command in commands.items()
        ]
        lines += [
            "",
            f"python -m {package} COMMAND --help lists the options of a command.",
        ]
        print("\n".join([f"Usage: python -m {package} COMMAND [OPTIONS]", "", *lines]))
        return 0
    if name not in commands:
        given = f"there is no command {name!r}" if name else "no command given"
        print(
            f"error: {given}; choose {', '.join(commands)} (see --help)",
            file=sys.stderr,
        )
        return 2
    del sys.argv[1]
    chosen = commands[name]
    return launch(chosen.module, f"python -m {package} {name}", chosen.function)
