"""The shell scripts that set up a tree in an image and run commands in it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from shlex import quote

from swe_retry.environments.base import FailedCommand, Setup, SetupWay

FOLDER = "/testbed"
HARNESS = "/harness"
HOME = f"{HARNESS}/home"
SETUP_SCRIPT = f"{HARNESS}/setup.sh"
ENVIRONMENT = f"{HARNESS}/environment.sh"
_FAILED = f"{HARNESS}/failed"
SETUP_VARIABLES = {
    "PIP_RETRIES": "0",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
}
"""Containers have no network, so pip's retries would only take time."""

_PIP = re.compile(r"\bpip3?\s+install\b")
_PROJECT = re.compile(
    r"(?:^|\s)(?:-e\s*|--editable[ =])?['\"]?\./?(?:\[[^\]]*\])?['\"]?(?=\s|;|&|$)"
)
_SETUP_PY = re.compile(r"\bsetup\.py\s+(?:install|develop|build|build_ext)\b")
_SHOWN = 4000
WHOLE_SETUP = "the set-up of the tests"
"""Stands for a failed command where the set-up ended before its last line."""


def installs_project(line: str) -> bool:
    """Return whether a set-up line installs or builds the project in the work tree."""
    pip = _PIP.search(line)
    return bool(pip and _PROJECT.search(line[pip.end() :])) or bool(
        _SETUP_PY.search(line)
    )


def setup_lines(
    lines: Iterable[str], setup: Setup, folder: str = FOLDER
) -> Iterator[str]:
    """Yield the image's set-up ``lines``, changed as the way of ``setup`` says.

    INSTALLED and ON_PATH leave the installation out.
    """
    for line in lines:
        if not installs_project(line) or setup.way is SetupWay.AS_GIVEN:
            yield line
        elif setup.way is SetupWay.NO_ISOLATION:
            yield _PIP.sub(
                lambda m: f"{m[0]} --no-build-isolation --no-deps", line, count=1
            )
    if setup.way is SetupWay.ON_PATH:
        folders = ":".join(
            f"{folder}/{root}".rstrip("/") for root in setup.roots or ("",)
        )
        yield f"export PYTHONPATH={folders}${{PYTHONPATH:+:$PYTHONPATH}}"


def setup_script(lines: Sequence[str], token: str, folder: str = FOLDER) -> str:
    """Return the script that runs set-up ``lines``, then prints ``token`` and the failed commands.

    The lines share one shell, whose exported variables ``command_script`` restores. The trap
    catches the same failures as ``set -e`` would.
    """
    head = ["exec 2>&1", f"mkdir -p {HOME}", f": >{_FAILED}", f"cd {quote(folder)}"]
    trap = f"""trap 'printf "%s\\0" "$BASH_COMMAND" >>{_FAILED}' ERR"""
    tail = ["trap - ERR", f"export -p >{ENVIRONMENT}", f"printf '\\n%s\\n' {token}"]
    return "\n".join([*head, trap, *lines, *tail, f"cat {_FAILED}", "exit 0", ""])


def failed_commands(output: str, token: str) -> tuple[FailedCommand, ...]:
    """Read the failed commands from the output of ``setup_script``; an unfinished one failed."""
    log, separator, after = output.rpartition(f"\n{token}\n")
    if not separator:
        return (FailedCommand(WHOLE_SETUP, output[-_SHOWN:]),)
    names = dict.fromkeys(name for name in after.split("\0") if name)
    return tuple(FailedCommand(name, log[-_SHOWN:]) for name in names)


def command_script(command: str, folder: str = FOLDER) -> str:
    """Return the script that runs ``command`` with the variables that set-up exported."""
    return "\n".join(["exec 2>&1", f". {ENVIRONMENT}", f"cd {quote(folder)}", command])
