"""Run git the same way everywhere: no user configuration, no inherited ``GIT_*``.

A ``GIT_DIR`` or ``GIT_INDEX_FILE`` in the environment, as hooks set them, makes git act on another
repository (as pre-commit found), and a user's ``core.autocrlf`` changes the files of a checkout.
For a repository of the user's, ``as_user``, the user's own configuration counts.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from swe_retry.core.errors import InfrastructureError

# Called directly, not through GitPython: that passes inherited GIT_* variables on, leaves processes
# and file handles to the garbage collector (its README advises against it in long-running
# processes), and has no API for most commands here (pack-objects, read-tree, apply --cached).
# ``git status`` would write the index.
_ALWAYS_FIXED = {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
_FIXED = {
    **_ALWAYS_FIXED,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ATTR_NOSYSTEM": "1",
}
_SAFE = "safe.directory"
# Hooks and file system monitors never run.
_NO_PROGRAMS = {"core.hooksPath": os.devnull, "core.fsmonitor": "false", "gc.auto": "0"}
# Set for one process instead of in a global file: mirrors often belong to another user.
_CONFIG = {
    _SAFE: "*",
    "core.quotePath": "true",
    **_NO_PROGRAMS,
    # Their defaults lie in the home folder, also with GIT_CONFIG_GLOBAL.
    "core.attributesFile": os.devnull,
    "core.excludesFile": os.devnull,
    "user.name": "harness",
    "user.email": "harness@localhost",
    "advice.detachedHead": "false",
}
# What commands of the user take over: who the user is, where the user's configuration lies, and how
# the user logs in.
_OF_THE_USER = re.compile(
    r"GIT_(?:(?:AUTHOR|COMMITTER)_(?:NAME|EMAIL|DATE)|CONFIG_(?:GLOBAL|SYSTEM|NOSYSTEM)"
    r"|SSH|SSH_COMMAND|SSH_VARIANT|ASKPASS|TERMINAL_PROMPT|SSL_CAINFO|SSL_CAPATH)"
)
_CONFIG_PATHS = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "XDG_CONFIG_HOME")


class GitError(InfrastructureError):
    """A git command failed; the message holds the command and the end of its error output.

    Attributes:
        output: the end of its error output.
    """

    def __init__(self, command: str, cwd: Path, output: str) -> None:
        super().__init__(f"git {command} in {cwd}: {output}")
        self.output = output


def git_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment without ``GIT_*``, plus fixed settings and ``extra``."""
    environment = {}
    for key, value in os.environ.items():
        if not key.startswith("GIT_"):
            environment[key] = value
    return environment | _FIXED | _config_variables(_CONFIG.items()) | dict(extra or {})


def user_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of the user's own git, plus ``extra``.

    Hooks and file system monitors never run: the repository may be a stranger's.
    """
    environment = {}
    for key, value in os.environ.items():
        # A relative path of the configuration would lie in the repository.
        is_relative = key in _CONFIG_PATHS and not Path(value).is_absolute()
        is_users = not key.startswith("GIT_") or _OF_THE_USER.fullmatch(key)
        if is_users and not is_relative:
            environment[key] = value
    config = list(_NO_PROGRAMS.items())
    for folder in _safe_folders():
        config.append((_SAFE, folder))
    return environment | _ALWAYS_FIXED | _config_variables(config) | dict(extra or {})


def _config_variables(config: Collection[tuple[str, str]]) -> dict[str, str]:
    variables = {"GIT_CONFIG_COUNT": str(len(config))}
    for number, (key, value) in enumerate(config):
        variables[f"GIT_CONFIG_KEY_{number}"] = key
        variables[f"GIT_CONFIG_VALUE_{number}"] = value
    return variables


def _safe_folders() -> Iterator[str]:
    """Yield the folders of other users that the environment says are safe, as in containers."""
    count = os.environ.get("GIT_CONFIG_COUNT", "")
    if not count.isdecimal():
        return
    for number in range(int(count)):
        if os.environ.get(f"GIT_CONFIG_KEY_{number}", "").lower() == _SAFE:
            yield os.environ.get(f"GIT_CONFIG_VALUE_{number}", "")


def git_result(
    *args: str | Path,
    cwd: Path,
    stdin: bytes | None = None,
    env: Mapping[str, str] | None = None,
    as_user: bool = False,
) -> subprocess.CompletedProcess[bytes]:
    """Run ``git args`` in ``cwd`` and return the result, with any exit code."""
    environment = user_environment(env) if as_user else git_environment(env)
    return subprocess.run(
        ["git", *map(str, args)],
        cwd=cwd,
        input=stdin or b"",
        env=environment,
        capture_output=True,
        # Ctrl-C in the terminal is for the harness, which lets git finish. The user may have to
        # type a password there.
        start_new_session=not as_user,
        check=False,
    )


def git(
    *args: str | Path,
    cwd: Path,
    stdin: bytes | None = None,
    env: Mapping[str, str] | None = None,
    as_user: bool = False,
) -> bytes:
    """Run ``git args`` in ``cwd`` and return its standard output.

    Raises:
        GitError: the exit code is not 0.
    """
    result = git_result(*args, cwd=cwd, stdin=stdin, env=env, as_user=as_user)
    if result.returncode:
        output = result.stderr.decode("utf-8", "replace").strip()[-500:]
        raise GitError(" ".join(map(str, args)), cwd, output)
    return result.stdout


def join_paths(paths: Iterable[str]) -> bytes:
    """Return paths in the format that git's ``-z`` and ``xargs -0`` read."""
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


def split_paths(output: bytes) -> list[str]:
    """Return the paths in what a command of git with ``-z`` wrote."""
    paths = []
    for name in output.split(b"\0"):
        if name:
            paths.append(os.fsdecode(name))
    return paths


def blob_contents(
    blobs: Collection[str],
    cwd: Path,
    env: Mapping[str, str] | None = None,
) -> list[bytes]:
    """Return the contents of blobs, which are given by hash, in their order."""
    if not blobs:
        return []
    names = "".join(f"{blob}\n" for blob in blobs)
    stdin = names.encode()
    output = git("cat-file", "--batch", cwd=cwd, stdin=stdin, env=env)
    contents = []
    end = 0
    for _ in blobs:
        # The line of hash, type and size is before each.
        start = output.index(b"\n", end) + 1
        size = int(output[end:start].split()[2])
        contents.append(output[start : start + size])
        end = start + size + 1
    return contents
