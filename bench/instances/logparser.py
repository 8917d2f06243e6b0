"""Run the parser of a row of SWE-bench Live on test output, in a sandbox.

The parser is Python that came with the dataset, so this process never executes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from itertools import islice
from typing import Any

from core.errors import InfrastructureError, UserError
from environments.base import EnvironmentKind, UnavailableError
from environments.choice import make_folders
from environments.folders import FolderCommand, Folders
from environments.limits import ResourceLimits

IMAGE = "python:3.11-slim"
"""Has the interpreter where no sandbox of this machine can be made."""

_SECONDS = 60.0
_RESULTS = "found"
_WORDS = {"pass": "PASSED", "fail": "FAILED", "skip": "SKIPPED", "error": "ERROR"}
_MOST_TESTS = 200_000
# The parser may print, so its results go into a file.
_DRIVER = f"""import json, sys
names = {{}}
exec(compile(open("parser.py", encoding="utf-8").read(), "parser.py", "exec"), names)
log = open("log.txt", encoding="utf-8", errors="replace", newline="").read()
found = names["parser"](log) or {{}}
with open("{_RESULTS}", "w", encoding="utf-8") as file:
    json.dump({{str(name): str(status) for name, status in found.items()}}, file)
"""


def parsed_log(source: str, log: str, folders: Folders) -> dict[str, str]:
    """Return swebench's status by test that the function ``parser`` of ``source`` reads from a log.

    Empty if it fails, takes too long or returns something else: then nothing is known.
    """
    files = {"parser.py": source, "log.txt": log, "driver.py": _DRIVER}
    data = {name: text.encode("utf-8", "replace") for name, text in files.items()}
    command = FolderCommand(("python3", "-I", "driver.py"), data, _SECONDS, collect=(_RESULTS,))
    result = folders.run(command)
    if result.exit_code != 0:
        return {}
    try:
        found: Any = json.loads(result.files.get(_RESULTS, b"{}"))
    except (ValueError, RecursionError):
        return {}
    results = {}
    for name, status in islice(found.items(), _MOST_TESTS) if isinstance(found, Mapping) else ():
        # The official evaluation looks for the words in a status.
        read = next((known for word, known in _WORDS.items() if word in str(status).lower()), "")
        if read:
            results[name] = read
    return results


def parser_folders(run_key: str = "") -> Folders:
    """Return a sandbox for parsers: of this machine, or else a container."""
    make = partial(make_folders, limits=ResourceLimits(), run_key=run_key)
    try:
        return make(EnvironmentKind.LOCAL)
    except UnavailableError:
        try:
            return make(EnvironmentKind.DOCKER, image=IMAGE)
        except (UserError, InfrastructureError) as error:
            raise UnavailableError(f"the row's parser needs a sandbox: {error}") from error
