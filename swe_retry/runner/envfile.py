"""A file of variables: keys, regions and addresses of providers for the environment.

It is the user's own, or named on the command line. A file ``.env`` in the current folder is not
read: the folder may be a stranger's repository.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from dotenv import dotenv_values

from swe_retry.core.errors import UserError
from swe_retry.core.plaintext import Say, one_line, some
from swe_retry.core.redaction import DOTENV_VARIABLE
from swe_retry.runner.settings import user_folder

ENV_FILE = "--env-file"
_NAME = ".env"
_SHOWN = 20

# The last words of a name say what it is: a key, whose key it is, a region, or an address.
_OF_PROVIDERS = re.compile(
    r"""(?!GIT_|SWE_RETRY_HARNESS_)[A-Z][A-Z0-9_]*_(?:
    KEY|KEY_ID|\w*APIKEY|TOKEN|TOKEN_ID|TOKEN_BEDROCK|SECRET|PASSWORD|CREDENTIALS?|JWT
    |OTLP_HEADERS|OTLP_TRACES_HEADERS
    |(?:ACCOUNT|CLIENT|TENANT|PROJECT|SPACE|WORKSPACE)_ID|ORGANIZATION|ROLE_ARN
    |REGION|REGION_NAME|LOCATION
    |API_BASE|API_URL|BASE_URL|ENDPOINT|ENDPOINT_URL|API_TYPE|API_VERSION
    )|AWS_PROFILE|(?:OPENAI|VERTEX|VERTEXAI)_PROJECT|(?:WATSONX|WX)_URL|LANGFUSE_HOST""",
    re.VERBOSE,
)
_files_read: set[Path] = set()


def default_env_file() -> Path:
    """Return the place of the user's own file."""
    return user_folder("XDG_CONFIG_HOME", "~/.config") / _NAME


def load_env_file(requested: Path | None, say: Say) -> None:
    """Set the variables of a file that the environment lacks; all of them are redacted.

    ``requested`` is the file of the command line; without one it is the user's own, which need not
    exist.

    Raises:
        UserError: the file that was given cannot be read.
    """
    try:
        path = requested.expanduser() if requested else default_env_file()
    except RuntimeError as error:  # no home folder is known
        if requested:
            raise UserError(f"{ENV_FILE} {requested}: {error}") from error
        return
    if not requested and not path.is_file():
        return
    try:
        with path.open(encoding="utf-8-sig") as file:
            values = dotenv_values(stream=file)
    except (OSError, ValueError) as error:
        problem = "it is not text in UTF-8"
        if isinstance(error, OSError):
            problem = str(error.strerror)
        if requested:
            raise UserError(
                f"{ENV_FILE} {requested}: cannot be read ({problem})"
            ) from error
        say(f"note: {path} cannot be read ({problem}); none of its variables is set")
        return
    _files_read.add(path.resolve())
    ignored = [name for name in values if not _OF_PROVIDERS.fullmatch(name)]
    if ignored:
        names = one_line(some(ignored, _SHOWN))
        say(
            f"note: {path}: not set, because only keys, regions and addresses are read: {names}"
        )
    for name, value in values.items():
        if value and name not in ignored and name not in os.environ:
            os.environ[name] = value
            redacted = {name, *os.environ.get(DOTENV_VARIABLE, "").split(",")}
            os.environ[DOTENV_VARIABLE] = ",".join(sorted(filter(None, redacted)))


def where_keys_go() -> str:
    """Return in words where a missing key is put."""
    return f"set them or put them in {default_env_file()}{unread_file()}"


def unread_file() -> str:
    """Return in words that a file in the current folder was not read; empty where there is none."""
    here = Path(_NAME)
    if not here.is_file() or here.resolve() in _files_read:
        return ""
    return f"; {_NAME} in this folder is not read unless you give {ENV_FILE} {_NAME}"
