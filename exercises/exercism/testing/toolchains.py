"""The tools of a language on this machine, as commands in a sandbox can see them."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from core.errors import UserError
from core.processes import run_limited, without_secrets
from exercises.exercism.languages import LANGUAGES, Language

_SYSTEM = ("/usr", "/bin", "/lib")
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
_SECONDS = 60.0


@dataclass(frozen=True)
class Toolchain:
    """The folders that commands must see, and PATH; empty where the system's folders are enough."""

    readable: tuple[Path, ...] = ()
    path: str = ""


@cache
def find_toolchain(name: str) -> Toolchain:
    """Return the tools of the language ``name`` on this machine.

    Raises:
        UserError: some are missing, or lie where they cannot be shown.
    """
    language = LANGUAGES[name]
    found = {tool: shutil.which(tool) for tool in language.tools}
    if missing := [tool for tool, place in found.items() if place is None]:
        raise UserError(f"{', '.join(missing)} not found; install it")
    places = [Path(place) for place in found.values() if place and not _of_system(Path(place))]
    if not places:
        return Toolchain()
    roots = tuple(dict.fromkeys(_root(language, place) for place in places))
    for root in roots:
        if Path.home().is_relative_to(root) or Path.cwd().is_relative_to(root):
            raise UserError(f"the tools lie in {root}, which cannot be shown; install them apart")
    path = ":".join([*(str(root / "bin") for root in roots), _SYSTEM_PATH])
    return Toolchain(tuple(root for root in roots if not _of_system(root)), path)


def _of_system(place: Path) -> bool:
    return str(place.resolve()).startswith(_SYSTEM)


def _root(language: Language, tool: Path) -> Path:
    """Return the folder of a tool: what is found in PATH may be a starter that lies elsewhere."""
    if not language.root_command:
        return tool.resolve().parent.parent
    result = run_limited(language.root_command, Path("/"), without_secrets(os.environ), _SECONDS)
    root = Path(result.output.strip())
    if result.exit_code or not root.is_absolute() or not root.is_dir():
        raise UserError(f"{' '.join(language.root_command)} names no folder; install {tool.name}")
    return root
