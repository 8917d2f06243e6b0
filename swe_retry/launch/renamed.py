"""What became of the options and subcommands of older versions."""

from __future__ import annotations

from pathlib import Path

_RENAMED = Path(__file__).with_name("renamed.tsv")


def replacement(key: str, old: str) -> str | None:
    """Return what replaces an option or a subcommand of a program: "" for nothing.

    It is a setting, or what follows the program's name. None: ``old`` was never one.

    Args:
        key: names the program in the table.
        old: as it was typed.
    """
    for line in _RENAMED.read_text(encoding="utf-8").splitlines():
        program, option, new = line.split("\t")
        if (program, option) == (key, old):
            return new
    return None


def describe_replacement(key: str, program: str, old: str) -> str | None:
    """Return what replaces an option or a subcommand of ``program``, in a sentence."""
    new = replacement(key, old)
    if new is None:
        return None
    if not new:
        return f"{old} is gone (CHANGELOG.md)"
    if "." in new and " " not in new:
        return f"{old} is the setting {new} now: give --set {new}=VALUE"
    if not new.startswith("harness.py "):
        new = f"{program} {new}"
    return f"{old} is now: {new}"
