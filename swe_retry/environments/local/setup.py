"""Run the set-up of a project: in a sandbox with a network, and without the user's keys."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from swe_retry.core.address import without_logins
from swe_retry.core.processes import run_limited, without_secrets
from swe_retry.core.shutdown import Check
from swe_retry.environments.local.bubblewrap import bubblewrap_works, sandbox_argv_with
from swe_retry.environments.local.launcher import keyring_argv

# How to reach an index of packages: proxies, certificates, addresses.
_NETWORK = re.compile(
    r"(https?|all|no)_proxy|\w*(cert|ca_bundle|index|registry|proxy|find_links|"
    r"trusted_host)\w*",
    re.IGNORECASE,
)
_PIP_SECONDS = 60.0
# They limit uv, pip from 26.0 on, and npm to packages that were uploaded before a date.
_DATES = ("UV_EXCLUDE_NEWER", "PIP_UPLOADED_PRIOR_TO", "npm_config_before")
# pip, which is of today, installs in place by a hook that setuptools has since August 2022, and
# takes what lies in a folder whatever its date is.
_FIRST_HOOK = "2022-10-01T00:00:00Z"
_SETUPTOOLS = "setuptools<69"


@dataclass(frozen=True)
class SetupSandbox:
    """The surroundings of a project's set-up commands.

    Attributes:
        tree: where they run.
        venv: where they install.
        home: a folder of their own, which is removed after them.
        readable: folders of the machine that they see besides.
        variables: all of their environment variables.
    """

    tree: Path
    venv: Path
    home: Path
    readable: tuple[Path, ...]
    variables: Mapping[str, str]

    @classmethod
    def make(
        cls,
        tree: Path,
        venv: Path,
        readable: Iterable[Path],
        variables: Mapping[str, str],
        check: Check,
        era: str = "",
    ) -> SetupSandbox:
        """Make the home of a set-up, and let its commands reach the user's package index.

        They install what was uploaded before ``era``; empty for no limit.
        """
        home = venv.parent / "home"
        temporary = home / "tmp"
        temporary.mkdir(parents=True)
        network = _pip_settings(venv, check)
        network |= _network_variables(os.environ)
        limits = {}
        if era:
            wheels = home / "wheels"
            wheels.mkdir()
            limits = dict.fromkeys(_DATES, era)
            limits |= {"PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": str(wheels)}
            # An index of files gives no times of upload, so pip would take all that it has.
            for name, value in list(network.items()):
                if "file:" in value:
                    del network[name]
            if era < _FIRST_HOOK:
                get = ("download", "-q", "--no-deps", "-d", str(wheels), _SETUPTOOLS)
                _run_pip(venv, get, check)
        return cls(
            tree=tree,
            venv=venv,
            home=home,
            readable=(*readable, *_named_paths(network.values())),
            variables={
                **network,
                **limits,
                **variables,
                "HOME": str(home),
                "TMPDIR": str(temporary),
            },
        )

    def command_line(self, argv: Sequence[str]) -> list[str]:
        """Return what runs ``argv`` in the sandbox; without bubblewrap it is ``argv``."""
        if not bubblewrap_works():
            return list(argv)
        writable = {path: path for path in (self.tree, self.venv, self.home)}
        return keyring_argv(
            sandbox_argv_with(argv, writable, self.readable, network=True)
        )


def _network_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return how to reach a package index, but for what has a login in it."""
    public = {}
    for name, value in without_secrets(variables).items():
        if _NETWORK.fullmatch(name) and without_logins(value) == value:
            public[name] = value
    return public


def _pip_settings(venv: Path, check: Check) -> dict[str, str]:
    """Return the settings of the user's files of pip that reach an index, as variables."""
    listed = _run_pip(venv, ("config", "list"), check)
    settings = {}
    for line in listed.splitlines():
        match = re.fullmatch(r"(?:global|install|:env:)\.([\w-]+)=(['\"].*['\"])", line)
        if match:
            key = match[1]
            name = key.replace("-", "_").upper()
            value = str(ast.literal_eval(match[2]))
            settings[f"PIP_{name}"] = " ".join(value.split())
    return _network_variables(settings)


def _run_pip(venv: Path, arguments: Sequence[str], check: Check) -> str:
    """Run the pip of a new environment with the user's rights, and return its output."""
    command = [str(venv / "bin" / "python"), "-m", "pip", *arguments]
    environment = without_secrets(os.environ)
    # In a folder of the project, a pip of its own could take the place of pip.
    result = run_limited(command, Path("/"), environment, _PIP_SECONDS, check=check)
    return result.output


def _named_paths(values: Iterable[str]) -> Iterator[Path]:
    """Yield the files and folders that settings name, but for those with the user's home."""
    private = {Path.home(), *Path.home().parents}
    for word in " ".join(values).split():
        path = Path(word.removeprefix("file://"))
        paths = [path]
        if word.startswith("file://"):
            # The pages of an index name files beside it.
            paths.append(path.parent)
        for readable in paths:
            if readable.is_absolute() and readable.exists() and readable not in private:
                yield readable
