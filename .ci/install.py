"""Install locked packages into a virtual environment: ``python3 install.py VENV LOCK…``."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
BUILD_LOCK = TOP / "requirements-build.lock"
# What tells of the machine and of the package index. A shell may hold keys in any other variable.
SEEN = re.compile(
    r"PATH|LD_LIBRARY_PATH|HOME|TMPDIR|LANG|LC_\w+|NETRC|(PIP|UV|XDG|SSL_CERT)_\w+"
    r"|\w+_CA_BUNDLE|(?i:\w+_proxy)"
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("venv", type=Path)
    parser.add_argument("files", nargs="+", type=Path, metavar="LOCK")
    parser.add_argument(
        "--latest",
        action="store_true",
        help="LOCK is a list of bounds; install the newest releases within them",
    )
    parser.add_argument(
        "--project", type=Path, help="install the project in this folder, too"
    )
    parser.add_argument(
        "--in-place",
        type=Path,
        action="append",
        default=[],
        help="install a project as a link to its folder",
    )
    arguments = parser.parse_args()
    python = arguments.venv.absolute() / "bin/python"
    pip = [str(python), "-I", "-m", "pip", "install", "--quiet"]
    pip.append("--disable-pip-version-check")
    # No code of a package runs, and nothing that would build one is installed.
    wheels = ["--only-binary", ":all:"]
    hashes = ["--require-hashes"]
    code = _run([*pip, *wheels, *hashes, "--requirement", str(BUILD_LOCK)])
    if code:
        return code
    if arguments.latest:
        hashes = ["--upgrade"]
    options = [*wheels, *hashes]
    for file in arguments.files:
        options += ["--requirement", str(file.absolute())]
    uv = [str(python.with_name("uv")), "pip", "install", "--quiet"]
    uv += ["--python", str(python)]
    # uv installs several times faster; pip knows indexes that uv is not configured for.
    code = _run([*uv, *options]) and _run([*pip, *options])
    projects = []
    if arguments.project:
        projects.append(str(arguments.project.absolute()))
    for folder in arguments.in_place:
        projects += ["--editable", str(folder.absolute())]
    if code or not projects:
        return code
    ready = ["--no-index", "--no-deps", "--no-build-isolation"]
    return _run([*pip, *ready, *projects])


def _run(command: list[str]) -> int:
    environment = {}
    for name, value in os.environ.items():
        if SEEN.fullmatch(name):
            environment[name] = value
    # uv would read a pyproject.toml of the current folder.
    return subprocess.run(command, env=environment, cwd="/", check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
