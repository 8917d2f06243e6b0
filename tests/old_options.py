"""What became of each option of version 0.12: ``python -m tests.old_options`` prints the page."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from swe_retry.launch.renamed import replacement as new_option
from tests.support import TOP
from tests.support.programs import click_command, options_of, programs

PAGE = TOP / "docs/old-options.md"
_OPTIONS = TOP / "tests/data/options-0.12.tsv"
_HEAD = """\
# Options of version 0.12

What became of each option. A name such as `calls.timeout` is a setting: give
`--set calls.timeout=VALUE`, a line of a YAML file for `--config`, or a variable such as
`RETRY_CALLS__TIMEOUT`. This page goes with the next release.
"""


@cache
def options_now() -> dict[str, list[str]]:
    """Return the options of each program, those of its subcommands too."""
    options: dict[str, list[str]] = {}
    for program in programs():
        commands = [command.run for command in program.subcommands.values()]
        if program.default:
            commands = [program.default]
        options[program.key] = []
        for command in commands:
            options[program.key].extend(options_of(click_command(command)))
    return options


def replacements() -> Iterator[tuple[str, str, str | None]]:
    """Yield command, option, and what to type now: the option itself, "" for nothing."""
    by_key = {program.key: program for program in programs()}
    for row in _OPTIONS.read_text(encoding="utf-8").splitlines():
        key, word, option = row.split("\t")
        program = by_key[key]
        replacement: str | None = option
        if option not in options_now()[key]:
            replacement = new_option(program.key, option)
        yield f"{program.name} {word}".strip(), option, replacement


def page() -> str:
    lines = [_HEAD]
    section = ""
    for command, option, replacement in replacements():
        if command != section:
            lines += ["", f"## {command}", "", "| option | now |", "|---|---|"]
            section = command
        if replacement == option:
            now = "kept"
        elif replacement:
            now = f"`{replacement}`"
        else:
            now = "gone"
        lines.append(f"| `{option}` | {now} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
