"""The commands of a benchmark: ``python -m exercises.NAME COMMAND …``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bench.cli.launch import launch


@dataclass(frozen=True)
class BenchmarkCommand:
    """A command of a benchmark: a function of a module, and what it does."""

    module: str
    help: str
    function: str = "main"


def dispatch(package: str, commands: Mapping[str, BenchmarkCommand]) -> int:
    """Run the command that the command line names; return the exit code.

    Only the module of that command is imported.
    """
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name in ("-h", "--help"):
        print("\n".join(_usage(package, commands)))
        return 0
    if name not in commands:
        given = f"there is no command {name!r}" if name else "no command given"
        print(f"error: {given}; choose {', '.join(commands)} (see --help)", file=sys.stderr)
        return 2
    del sys.argv[1]
    chosen = commands[name]
    return launch(chosen.module, f"python -m {package} {name}", chosen.function)


def _usage(package: str, commands: Mapping[str, BenchmarkCommand]) -> Iterator[str]:
    yield f"Usage: python -m {package} COMMAND [OPTIONS]"
    yield ""
    width = max(map(len, commands))
    for name, command in commands.items():
        yield f"  {name:{width}}  {command.help}"
    yield ""
    yield f"python -m {package} COMMAND --help lists the options of a command."
