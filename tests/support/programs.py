"""The commands of all programs, as typer sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any

import typer.main

from swe_retry.cli import harness, report
from swe_retry.launch.program import Program, make_app

_HARNESS = replace(harness.PROGRAM, module="harness.py")
_REPORT = replace(report.PROGRAM, module="report.py")
_EXERCISES = ("exercism", "canitedit", "editpack")


def programs() -> Iterator[Program]:
    yield _HARNESS
    yield _REPORT
    for name in _EXERCISES:
        yield import_module(f"swe_retry_exercises.{name}.__main__").PROGRAM


def click_command(function: Callable[..., object], name: str = "") -> Any:
    """Return the command that typer makes of a function."""
    return typer.main.get_command(make_app(function, name))


def commands() -> Iterator[tuple[str, Any]]:
    """Yield all commands by what is typed to start them."""
    for program in programs():
        if program.default:
            yield program.name, click_command(program.default, program.name)
        for word, command in program.subcommands.items():
            name = f"{program.name} {word}"
            yield name, click_command(command.run, name)
    for module in ("swe_retry.agent.formats.__main__",):
        group = typer.main.get_group(import_module(module).app)
        for word, member in group.commands.items():
            yield f"python -m {module.removesuffix('.__main__')} {word}", member


def options_of(command: Any) -> list[str]:
    """Return the options of a command as they are typed."""
    options: list[str] = []
    for parameter in command.params:
        if parameter.param_type_name == "option":
            options.extend((*parameter.opts, *parameter.secondary_opts))
    return options
