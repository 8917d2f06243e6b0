"""Errors that end a command, as one line and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable

from typer.exceptions import TyperException

from swe_retry.core.address import without_logins
from swe_retry.core.errors import InfrastructureError, UserError, describe_os_error
from swe_retry.core.plaintext import one_line
from swe_retry.core.redaction import Redactor
from swe_retry.core.wording import NoSuchSettingError, plain_wording


def explain(error: Exception, replacement: Callable[[str], str | None]) -> int:
    """Print an error, and return the exit code.

    What the user can fix, and infrastructure that failed, is one line and no traceback. No secret
    of the environment is shown, also not in tracebacks of our own mistakes.

    Args:
        error: ended the command.
        replacement: tells what replaces an option of older versions.
    """
    text = str(error)
    code = 2
    match error:
        case TyperException():
            text = _problem(error, replacement)
        case NoSuchSettingError():
            # A key of an older file had the name of an option.
            new = replacement(f"--{error.name.replace('_', '-')}")
            if new:
                text = f"{error.source}: {new}"
        case UserError() | InfrastructureError():
            pass
        case OSError():
            text = describe_os_error(error)
        case _:
            text = traceback.format_exc()
            code = 1
    say(f"error: {text}")
    return code


def _problem(error: TyperException, replacement: Callable[[str], str | None]) -> str:
    """Return what is wrong with a command line, in the wording of settings."""
    # Of typer's errors, the one of an unknown option alone has possibilities.
    if hasattr(error, "possibilities"):
        new = replacement(str(getattr(error, "option_name", "")))
        if new:
            return new
    text = str(error)
    format_message = getattr(error, "format_message", None)
    if format_message:
        text = str(format_message())
    return f"{one_line(plain_wording(text))} (see --help)"


def say(line: str) -> None:
    """Print a line about the command to standard error, without secrets."""
    redact = Redactor.of_environment(os.environ)
    print(redact(without_logins(line)), file=sys.stderr)
