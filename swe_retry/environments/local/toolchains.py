"""Find the programs of this machine that environments need: interpreters and toolchains."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from swe_retry.core.processes import run_limited, without_secrets
from swe_retry.environments.base import ANY_PYTHON
from swe_retry.environments.local.packages import uv_path


def no_python(version: str) -> str:
    return f"no Python {version} is installed (looked with uv and pyenv)"


def python_version(version: str) -> tuple[int, int]:
    """Return the numbers of what ``find_python`` finds."""
    match = re.match(r"(\d+)\.(\d+)", version)
    if match:
        return int(match[1]), int(match[2])
    return sys.version_info.major, sys.version_info.minor


def find_python(version: str) -> Path | None:
    """Return an interpreter of ``version`` (``3``, ``3.9``) from pyenv, uv or PATH."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    if version in ("", ANY_PYTHON, own):
        base = Path(sys.base_prefix) / "bin" / f"python{own}"
        return Path(
            os.path.realpath(sys.executable if sys.prefix == sys.base_prefix else base)
        )
    root = Path(os.environ.get("PYENV_ROOT") or "~/.pyenv").expanduser() / "versions"
    numbers = sorted(
        root.glob(f"{version}.*"),
        key=lambda p: [int(n) for n in re.findall(r"\d+", p.name)],
    )
    for folder in reversed(numbers):
        python = folder / "bin" / "python"
        if python.exists():
            return python
    result = subprocess.run(
        [
            uv_path(),
            "python",
            "find",
            "--no-python-downloads",
            "--no-project",
            "--system",
            version,
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    path = Path(result.stdout.strip())
    if result.returncode == 0 and path.is_file():
        return path
    return None


_SYSTEM = ("/usr/", "/bin/", "/lib/")
# What rustup puts into PATH only starts programs that lie elsewhere.
_SYSROOT = dict.fromkeys(("cargo", "rustc"), ("rustc", "--print", "sysroot"))


def toolchains(commands: Iterable[str]) -> tuple[Path, ...]:
    """Return the folders of the programs that shell ``commands`` name and no sandbox shows.

    Those of Python environments are left out, because commands have one of their own. Of a folder
    in the user's home, such as ~/.cargo, only ``bin`` counts: it holds more than programs.
    """
    roots: dict[Path, None] = {}
    for word in dict.fromkeys(re.findall(r"[\w.+-]+", " ".join(commands))):
        named = Path(shutil.which(word) or "/usr/none")
        if str(named).startswith(_SYSTEM) or (named.parent / "python").exists():
            continue
        folders = [path.parent for path in (named, named.resolve())]
        if word in _SYSROOT:
            sysroot = run_limited(
                _SYSROOT[word], Path("/"), without_secrets(os.environ), 60.0
            )
            folders = [Path(sysroot.output.strip()) / "bin"]
        for folder in folders:
            if folder.name == "bin" and folder.parent.parent != Path.home():
                folder = folder.parent
            roots[folder] = None
    private = {Path.home(), *Path.home().parents}
    return tuple(root for root in roots if root not in private and root.is_dir())
