"""What a program of this machine needs in order to start where little of the machine is seen."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

SYSTEM = tuple(map(Path, ("/usr", "/bin", "/sbin", "/lib", "/lib64")))
"""The folders of the system's own programs."""
_SHEBANG_BYTES = 256
# Linux has the same limits: links on one path, and scripts that are interpreters of scripts.
_MAX_LINKS = 40
_MAX_INTERPRETERS = 5


def is_below(path: Path, folders: Iterable[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


class VisiblePaths:
    """Paths as the machine has them: files and folders at their real places, and links to them.

    Attributes:
        real: files and folders, none of which lies in another.
        links: the targets of links, by the places of the links.
    """

    def __init__(self, paths: Iterable[Path], visible: Sequence[Path] = ()) -> None:
        """Keep what shows ``paths`` besides what is ``visible`` already."""
        links: dict[Path, Path] = {}
        ends = {_follow(path, links) for path in paths}
        real: list[Path] = []
        for path in sorted(ends):
            if not is_below(path, (*visible, *real)):
                real.append(path)
        self.real = tuple(real)
        self.links = {}
        for link, target in links.items():
            if not is_below(link, (*visible, *real)):
                self.links[link] = target


def _follow(path: Path, links: dict[Path, Path]) -> Path:
    """Return where ``path`` leads, and add the links on the way to ``links``."""
    current = Path("/")
    names = list(path.parts)
    for _ in range(_MAX_LINKS):
        while names and not current.is_symlink():
            # An absolute target starts at the root again.
            current = current / names.pop(0)
            if current.name == "..":
                current = current.parent.parent
        if not current.is_symlink():
            break
        target = current.readlink()
        links[current] = target
        names = [*target.parts, *names]
        current = current.parent
    return current


@dataclass(frozen=True)
class HostProgram:
    """A program of this machine, by its absolute path with its links.

    Attributes:
        is_agent: whether it is an agent that the harness knows by name.
    """

    path: Path
    is_agent: bool = False

    @property
    def required_paths(self) -> list[Path]:
        """What it must see to start: itself, its interpreters, and where their links lead."""
        paths = []
        argv = [str(self.path)]
        for _ in range(_MAX_INTERPRETERS):
            if not argv:
                break
            program = Path(argv[0])
            paths += [program, program.resolve()]
            argv = interpreter_argv(program)
        return paths

    @property
    def folders(self) -> list[Path]:
        """What to show for it, without anything beside it that is not part of it."""
        paths = self.required_paths
        folders = map(folder_to_show, paths)
        # The path itself too: its links may lead through other links.
        return list(dict.fromkeys((*paths, *folders)))

    @property
    def environment(self) -> list[Path]:
        """The folders with packages of its own; an interpreter alone has none."""
        folders = [folder.resolve() for folder in self.folders]
        venvs = [folder for folder in folders if (folder / "pyvenv.cfg").exists()]
        if venvs or len(self.argv) == 1:
            return venvs
        return folders

    @property
    def argv(self) -> list[str]:
        """The command line that starts it as it starts here, whatever PATH is there."""
        return [*interpreter_argv(self.path), str(self.path)]

    def write_start(self, folder: Path, argv: Sequence[str]) -> None:
        """Write a script with the program's name into ``folder``, which runs ``argv``."""
        folder.mkdir(exist_ok=True)
        script = folder / self.path.name
        script.write_text(f'#!/bin/sh\nexec {shlex.join(argv)} "$@"\n')
        script.chmod(0o755)


def interpreter_argv(program: Path) -> list[str]:
    """Return the command line of a script's interpreter; empty for other programs.

    ``env`` looks a name up in PATH, and finds another program where PATH or the programs in it
    are others; so the name is looked up here. With variables or options, env is left to do it.
    """
    try:
        with program.open("rb") as stream:
            start = stream.read(_SHEBANG_BYTES)
    except OSError:
        return []
    line = start.split(b"\n", 1)[0]
    if not line.startswith(b"#!"):
        return []
    text = line[2:].decode("utf-8", "replace")
    # Linux passes the rest of the line on as one argument.
    argv = text.split(maxsplit=1)
    if not argv or Path(argv[0]).name != "env":
        return argv
    names = " ".join(argv[1:])
    argv = names.removeprefix("-S").split()
    if not argv:
        return []
    interpreter = shutil.which(argv[0])
    if not interpreter:
        return []
    return [interpreter, *argv[1:]]


def folder_to_show(path: Path) -> Path:
    """Return what is shown for ``path``.

    Packages of npm, virtual environments and interpreters are folders; else it is the file alone.
    """
    for parent in reversed(path.parents):
        if parent.name == "node_modules":
            return parent
    prefix = path.parent.parent
    if (prefix / "pyvenv.cfg").is_file():
        return prefix
    is_python = path.name.startswith(("python", "pypy"))
    has_library = (prefix / "lib").is_dir()
    home = Path.home().resolve()
    if is_python and has_library and not home.is_relative_to(prefix.resolve()):
        return prefix
    return path
