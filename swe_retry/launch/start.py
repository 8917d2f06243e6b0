"""Start a command, with the packages of ``.venv`` where this interpreter lacks them.

Nothing but the standard library is needed here, so that ``./harness.py`` works before activation.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from swe_retry.core.plaintext import did_you_mean
from swe_retry.record.versions import CHECKOUT, TOP

_INTERRUPTED = 130
_RENAMED = Path(__file__).with_name("renamed.tsv")


@dataclass(frozen=True)
class Command:
    """A command: the function that runs it, and what the help of all commands says of it."""

    module: str
    function: str = "main"
    usage: str = ""
    help: str = ""


@dataclass(frozen=True)
class Program:
    """A default command, if there is one, and subcommands by name.

    Attributes:
        key: names the program in ``renamed.tsv``.
        module: as it is typed; empty for a script.
        data_sets: a package whose ``register`` makes data sets known.
    """

    key: str
    module: str
    subcommands: Mapping[str, Command]
    default: Command | None = None
    data_sets: str = ""

    @property
    def name(self) -> str:
        """The program as it is typed."""
        return self.module or Path(sys.argv[0]).name

    def dispatch(self) -> int:
        """Run the subcommand that the command line names, else the default; return the exit code.

        Only the module of that command is imported.
        """
        _, *arguments = sys.argv
        word = (*arguments, "")[0]
        if word in self.subcommands:
            name = f"{self.name} {word}"
            return self._launch(self.subcommands[word], name, arguments[1:])
        hint = did_you_mean(word, self.subcommands)
        places = (Path(word), TOP / "predictions" / word)
        is_word = bool(hint) and "/" not in word
        is_mistyped = is_word and not any(path.exists() for path in places)
        if self.default and not is_mistyped:
            return self._launch(self.default, self.name, arguments)
        if word in ("-h", "--help"):
            print(f"Usage: {self.name} COMMAND [OPTIONS], with --help for its options")
            for usage, help in self.usages().items():
                print(f"  {usage:13}  {help}")
            return 0
        names = ", ".join(self.subcommands)
        hint = hint or f"; choose {names} (see --help)"
        message = f"there is no command {word!r}{hint}"
        print(f"error: {self.replacement_of(word) or message}", file=sys.stderr)
        return 2

    def usages(self) -> dict[str, str]:
        """Return the subcommands as they are typed, with their help."""
        usages = {}
        for name, command in self.subcommands.items():
            usages[f"{name} {command.usage}".strip()] = command.help
        return usages

    def replacement(self, old: str) -> str | None:
        """Return what replaces an option or a subcommand of older versions: "" for nothing.

        It is a setting, or what follows the program's name. None: ``old`` was never one.
        """
        for line in _RENAMED.read_text(encoding="utf-8").splitlines():
            key, option, new = line.split("\t")
            if (key, option) == (self.key, old):
                return new
        return None

    def replacement_of(self, old: str) -> str | None:
        """Return what replaces an option or a subcommand of older versions, in a sentence."""
        new = self.replacement(old)
        if new is None:
            return None
        if not new:
            return f"{old} is gone (CHANGELOG.md)"
        if "." in new and " " not in new:
            return f"{old} is the setting {new} now: give --set {new}=VALUE"
        if not new.startswith("harness.py "):
            new = f"{self.name} {new}"
        return f"{old} is now: {new}"

    def _launch(self, command: Command, name: str, arguments: list[str]) -> int:
        try:
            if self.data_sets:
                import_module(self.data_sets).register()
            run = getattr(import_module(command.module), command.function)
            run_cli = import_module("swe_retry.launch.cli").run_cli
            return int(run_cli(run, name, self, arguments))
        except ImportError as error:  # also of a module that the command imports later
            fix = "install swe-retry-harness again"
            if CHECKOUT is not None:
                _run_in_own_environment(CHECKOUT / ".venv")
                fix = f"run `make setup` in {CHECKOUT}"
            print(
                f"error: the package {error.name or error} is missing or of another version; {fix}",
                file=sys.stderr,
            )
            return 2
        except KeyboardInterrupt:
            return _INTERRUPTED


def _run_in_own_environment(own: Path) -> None:
    """Replace this process by one of ``own``; return where there is none, or this is it."""
    python = own / "bin" / "python"
    if not python.exists() or Path(sys.prefix).resolve() == own.resolve():
        return
    # Without options of this interpreter: -S would hide the packages again.
    script = [sys.argv[0]]
    spec = sys.modules["__main__"].__spec__
    if spec is not None:  # started with -m
        script = ["-m", spec.name.removesuffix(".__main__")]
    os.execv(python, [str(python), *script, *sys.argv[1:]])
