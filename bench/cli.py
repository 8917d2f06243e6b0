"""From exceptions to exit codes, in one place for both command lines."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable

import typer
from typer.exceptions import TyperException

from agent.errors import InfrastructureError, UserError
from agent.redaction import Redactor


def run_cli(command: Callable[..., None]) -> int:
    """Run ``command`` with the options of the command line and return the exit code.

    What the user can mend, and infrastructure that failed, is one line and no traceback. No secret
    of the environment is shown, in tracebacks of mistakes of ours neither.
    """
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(command)
    try:
        code = app(standalone_mode=False)
    except TyperException as error:
        return _say(f"{getattr(error, 'message', error)} (see --help)", 2)
    except UserError as error:
        return _say(error, 2)
    except (InfrastructureError, OSError) as error:
        return _say(error, 1)
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except Exception:
        return _say(traceback.format_exc(), 1)
    return int(code or 0)


def _say(error: object, code: int) -> int:
    redact = Redactor.of_environment(os.environ)
    print(redact(f"error: {error}"), file=sys.stderr)
    return code
