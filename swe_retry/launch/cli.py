"""Run a command of typer: help, files of options, and exceptions as exit codes."""

from __future__ import annotations

import os
import sys
import traceback
from collections import defaultdict
from collections.abc import Callable
from io import BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand
from typer.exceptions import TyperException

from swe_retry.core.address import without_logins
from swe_retry.core.errors import InfrastructureError, UserError, describe_os_error
from swe_retry.core.plaintext import one_line
from swe_retry.core.redaction import Redactor
from swe_retry.core.settings import SETTINGS, NoSuchSettingError, plain_wording
from swe_retry.launch.start import Program
from swe_retry.record.versions import HARNESS_VERSION
from swe_retry.runner.envfile import load_env_file
from swe_retry.runner.options import OUT
from swe_retry.runner.signals import (
    INTERRUPTED,
    keep_ignoring_interrupts,
    sigterm_as_interrupt,
)

# As they are installed: a shell completes commands by their names.
_COMPLETED = ("retry-harness", "retry-report")


RUN = "The run"
"""The heading of a help for what belongs to a run."""
JsonFormat = Annotated[
    Literal["text", "json"],
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="Print the result as text or json. [text]",
        show_default=False,
        rich_help_panel=RUN,
    ),
]
OutOption = Annotated[
    Path,
    typer.Option(*OUT, help="The folder that predictions/ and logs/ lie in."),
]
EnvFileOption = Annotated[
    Path | None,
    typer.Option(
        "--env-file",
        metavar="FILE",
        help="Read keys and addresses of providers from this file; by default "
        "~/.config/swe-retry-harness/.env.",
        rich_help_panel=SETTINGS,
    ),
]
Version = Annotated[
    bool,
    typer.Option("--version", help="Print the version.", rich_help_panel=SETTINGS),
]


class SectionedCommand(TyperCommand):
    """Help in plain sections that never cut a name, and keys from a file of variables."""

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - typer's own click
        sections = defaultdict(list)
        program = ctx.obj
        if isinstance(program, Program) and program.name == ctx.info_name:
            usages = program.usages().items()
            sections["Commands, each with its own --help"] = list(usages)
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
            load_env_file(path, _note)
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


class _Output(FileIO):
    """Standard output whose reader may leave, as of ``| head``: the work goes on without it."""

    def write(self, data: Any) -> int:  # noqa: ANN401 - any buffer
        try:
            return super().write(data)
        except BrokenPipeError:
            return len(data)


def _survive_readers() -> None:
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = getattr(sys, name)
        if stream is None or stream is not getattr(sys, f"__{name}__"):
            continue
        buffer: Any = _Output(number, "wb", closefd=False)
        if not stream.write_through:  # as with `python -u`
            buffer = BufferedWriter(buffer)
        text = TextIOWrapper(
            buffer,
            encoding=stream.encoding,
            errors=stream.errors,
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )
        setattr(sys, name, text)


def make_app(command: Callable[..., object], name: str) -> typer.Typer:
    """Return typer's application of one command; ``name`` is the program as it is typed."""
    app = typer.Typer(
        add_completion=name in _COMPLETED,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.command(cls=SectionedCommand)(command)
    return app


def quiet_packages() -> None:
    """Keep packages from what they do at their import, before they are imported."""
    # Packages such as swebench would load a file .env of the folders above their own.
    os.environ["PYTHON_DOTENV_DISABLED"] = "1"
    # GitPython would end its import with a page of text where there is no git.
    os.environ["GIT_PYTHON_REFRESH"] = "quiet"


def run_cli(
    command: Callable[..., object],
    name: str,
    program: Program | None = None,
    arguments: list[str] | None = None,
) -> int:
    """Run ``command`` with the options of the command line and return the exit code.

    Args:
        program: the one that the command belongs to; the help of its default command lists its
            subcommands.
        arguments: None for those of the process.

    What the user can fix, and infrastructure that failed, is one line and no traceback. No secret
    of the environment is shown, also not in tracebacks of our own mistakes.
    """
    keep_ignoring_interrupts()
    _survive_readers()
    quiet_packages()
    app = make_app(command, name)
    try:
        with sigterm_as_interrupt():
            code = app(arguments, standalone_mode=False, prog_name=name, obj=program)
    except TyperException as error:
        return _say(
            _replacement(error, program) or f"{_problem(error)} (see --help)", 2
        )
    except NoSuchSettingError as error:
        return _say(_renamed_setting(error, program) or error, 2)
    except (UserError, InfrastructureError) as error:
        return _say(error, 2)
    except OSError as error:
        return _say(describe_os_error(error), 2)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except ImportError:
        raise  # a package is missing: `Program` says what to do
    except Exception:
        return _say(traceback.format_exc(), 1)
    return int(code or 0)


def _replacement(error: TyperException, program: Program | None) -> str | None:
    # Of typer's errors, the one of an unknown option alone has possibilities.
    if program and hasattr(error, "possibilities"):
        return program.replacement_of(str(getattr(error, "option_name", "")))
    return None


def _renamed_setting(error: NoSuchSettingError, program: Program | None) -> str | None:
    """Return what replaces a key of an older file: it had the names of options."""
    option = f"--{error.name.replace('_', '-')}"
    replacement = program.replacement_of(option) if program else None
    return replacement and f"{error.source}: {replacement}"


def _problem(error: TyperException) -> str:
    """Return what is wrong with a command line, in the wording of settings."""
    text = str(error)
    format_message = getattr(error, "format_message", None)
    if format_message:
        text = str(format_message())
    return one_line(plain_wording(text))


def _note(text: str) -> None:
    _say(text, 0)


def _say(error: object, code: int) -> int:
    redact = Redactor.of_environment(os.environ)
    text = without_logins(str(error))
    if not text.startswith("note: "):
        text = f"error: {text}"
    print(redact(text), file=sys.stderr)
    return code
