"""A program with subcommands, and how the function of a command is started by typer."""

import inspect
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import update_wrapper, wraps
from pathlib import Path
from typing import Annotated, Any, Concatenate, TypeVar

import typer
from typer.core import TyperCommand

from swe_retry.core.errors import UserError
from swe_retry.core.plaintext import did_you_mean
from swe_retry.core.settings import Root, settings_of
from swe_retry.core.sources import of_file, of_texts
from swe_retry.launch.errors import explain, say
from swe_retry.launch.flags import CommandLine, SettingFlag, of_flags
from swe_retry.launch.options import SETTINGS
from swe_retry.launch.packages import restart
from swe_retry.launch.renamed import describe_replacement
from swe_retry.launch.streams import survive_readers
from swe_retry.record.versions import HARNESS_VERSION, TOP
from swe_retry.runner.envfile import load_env_file
from swe_retry.runner.signals import (
    INTERRUPTED,
    keep_ignoring_interrupts,
    sigterm_as_interrupt,
)

# As they are installed: a shell completes commands by their names.
_COMPLETED = ("retry-harness", "retry-report")
R = TypeVar("R")


@dataclass(frozen=True)
class Command:
    """A subcommand: the function that runs it, and what the help of all commands says of it."""

    run: Callable[..., object]
    usage: str = ""
    help: str = ""


@dataclass(frozen=True)
class Program:
    """A default command, if there is one, and subcommands by name.

    Attributes:
        key: names the program in ``renamed.tsv``.
        module: as it is typed; empty for a script.
        set_up: what is done before any command.
    """

    key: str = ""
    module: str = ""
    subcommands: Mapping[str, Command] = field(default_factory=dict)
    default: Callable[..., object] | None = None
    set_up: Callable[[], None] | None = None

    @property
    def name(self) -> str:
        """The program as it is typed."""
        return self.module or Path(sys.argv[0]).name

    def main(self) -> int:
        """Run the subcommand that is named, else the default, and return the exit code."""
        _, *arguments = sys.argv
        word = (*arguments, "")[0]
        name = self.name
        run = self.default
        if word in self.subcommands:
            name = f"{name} {word}"
            run = self.subcommands[word].run
            arguments = arguments[1:]
        elif run is None or self._is_mistyped(word):
            return self._refuse(word)
        keep_ignoring_interrupts()
        survive_readers()
        quiet_packages()
        app = make_app(run, name)
        try:
            if self.set_up:
                self.set_up()
            with sigterm_as_interrupt():
                code = app(arguments, standalone_mode=False, prog_name=name, obj=self)
        except (KeyboardInterrupt, typer.Abort):
            return INTERRUPTED
        except ImportError as error:  # of a module that a command imports late
            return restart(error)
        except Exception as error:
            return explain(error, self.replacement_of)
        return int(code or 0)

    def _is_mistyped(self, word: str) -> bool:
        places = (Path(word), TOP / "predictions" / word)
        is_word = "/" not in word and bool(did_you_mean(word, self.subcommands))
        return is_word and not any(path.exists() for path in places)

    def _refuse(self, word: str) -> int:
        """Say that there is no such command, or list all; return the exit code."""
        if word in ("-h", "--help"):
            print(f"Usage: {self.name} COMMAND [OPTIONS], with --help for its options")
            for usage, help in self.usages().items():
                print(f"  {usage:13}  {help}")
            return 0
        names = ", ".join(self.subcommands)
        hint = did_you_mean(word, self.subcommands)
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

    def replacement_of(self, old: str) -> str | None:
        """Return what replaces an option or a subcommand of older versions, in a sentence."""
        return describe_replacement(self.key, self.name, old)


def quiet_packages() -> None:
    """Keep packages from what they do at their import, before they are imported."""
    # Packages such as swebench would load a file .env of the folders above their own.
    os.environ["PYTHON_DOTENV_DISABLED"] = "1"
    # GitPython would end its import with a page of text where there is no git.
    os.environ["GIT_PYTHON_REFRESH"] = "quiet"


def make_app(run: Callable[..., object], name: str) -> typer.Typer:
    """Return typer's application of one command; ``name`` is the program as it is typed."""
    app = typer.Typer(
        add_completion=name in _COMPLETED,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.command(cls=SectionedCommand)(run)
    return app


class SectionedCommand(TyperCommand):
    """Help in plain sections that never cut a name, and keys from a file of variables."""

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - typer's own click
        sections = defaultdict(list)
        program = ctx.obj
        if isinstance(program, Program) and program.name == ctx.info_name:
            for usage in program.usages().items():
                sections["Commands, each with its own --help"].append(usage)
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            panel = getattr(parameter, "rich_help_panel", None)
            default = f"{parameter.param_type_name.capitalize()}s"
            sections[panel or default].append(record)
        for name, records in sections.items():
            with formatter.section(name):
                formatter.write_dl(records)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401
        if not ctx.resilient_parsing:  # as where a line is completed
            values, _, _ = self.make_parser(ctx).parse_args(args=list(args))
            path = values.get("env_file")
            if path is not None:
                path = Path(path)
            load_env_file(path, say)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401
        if ctx.params.get("version"):
            print(f"swe-retry-harness {HARNESS_VERSION}")
            return 0
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # typer would make it an exit without a word
            print("interrupted", file=sys.stderr)
            return INTERRUPTED


def command(
    root: type[Root], flags: Sequence[SettingFlag] = ()
) -> Callable[[Callable[Concatenate[CommandLine[Root], ...], R]], Callable[..., R]]:
    """Decorate a function such that typer gives it settings beside the options of its own.

    Its first parameter receives what the command line says of settings, by the flags and by
    ``--config`` and ``--set``.
    """

    def names_from(start: str) -> list[str]:
        return [name for name in settings_of(root) if name.startswith(start)]

    def decorate(
        run: Callable[Concatenate[CommandLine[Root], ...], R],
    ) -> Callable[..., R]:
        # Typer reads the annotations here, so they must not be texts: this module has no
        # `from __future__ import annotations`.
        def start(
            config: Annotated[
                list[Path] | None,
                typer.Option(
                    metavar="FILE",
                    help="Read settings from this YAML file; repeatable.",
                    show_default=False,
                    rich_help_panel=SETTINGS,
                ),
            ] = None,
            set_: Annotated[
                list[str] | None,
                typer.Option(
                    "--set",
                    metavar="NAME=VALUE",
                    help="Change a setting; repeatable.",
                    show_default=False,
                    rich_help_panel=SETTINGS,
                    autocompletion=names_from,
                ),
            ] = None,
            settings: Annotated[
                bool,
                typer.Option(
                    "--settings",
                    help="List the settings and their values, those with a WORD that "
                    "follows alone.",
                    show_default=False,
                    rich_help_panel=SETTINGS,
                ),
            ] = False,
            **values: Any,  # noqa: ANN401 - of the flags and of the function's own options
        ) -> R:
            texts = of_texts(root, set_ or ())
            line = CommandLine(
                root=root,
                options=of_flags(flags, values, texts),
                files=[of_file(root, path) for path in config or ()],
                flags=flags,
                asks_for_list=settings,
            )
            for flag in flags:
                del values[flag.name]
            return run(line, **values)

        *sources, _ = inspect.signature(start).parameters.values()
        _, *own = inspect.signature(run, eval_str=True).parameters.values()
        parameters = [flag.parameter(root) for flag in flags]
        for parameter in (*own, *sources):
            parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY))
        decorated: Any = update_wrapper(start, run)
        decorated.__signature__ = inspect.Signature(parameters)
        decorated.__annotations__ = {item.name: item.annotation for item in parameters}
        return start

    return decorate


def settings_command(
    root: type[Root], argument: str, flags: Sequence[SettingFlag] = ()
) -> Callable[[Callable[Concatenate[Root, ...], R]], Callable[..., R]]:
    """Decorate a function such that typer gives it the settings, and options of its own.

    Args:
        root: of the settings.
        argument: the parameter that has the word behind ``--settings`` then; ``word`` in a command
            without arguments.
        flags: of the command.
    """

    def decorate(
        run: Callable[Concatenate[Root, ...], R],
    ) -> Callable[..., R]:
        @command(root, flags)
        @wraps(run)
        def start(line: CommandLine[Root], **values: Any) -> R:  # noqa: ANN401
            word = values[argument] or ""
            if isinstance(word, list):
                word = " ".join(map(str, word))
            settings = line.load(word=word)
            if argument == "word" and word:
                raise UserError(f"unexpected {word!r}; a word follows --settings alone")
            return run(settings, **values)

        return start

    return decorate
