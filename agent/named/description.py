"""What describes a coding agent that ``--agent`` knows by name."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from swe_retry.core.processes import run_limited
from swe_retry.llm.dialects import DIALECTS

_VERSION_SECONDS = 60.0
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_QUIET = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "TERM": "dumb",
    "TZ": "UTC",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # litellm would fetch it
}


@dataclass(frozen=True)
class NamedAgent:
    """One coding agent.

    Attributes:
        program: the command by which it is called.
        line: its command line for the shell, with ``$message_file``, ``$model``, and ``"$@"``
            for arguments of the user.
        dialect: the name of the protocol in which it calls models.
        tested: the version that was run.
        package: its name in the registry of npm, or in that of Python.
        licence: as its package states it.
        from_npm: whether npm installs it; else pip.
        packages_beside: what it lacks; Python's only.
        npm_program: what the package of npm calls the command, where it has another name.
        environment: variables beside those of its protocol, with placeholders.
        files: texts with placeholders, by path in its home folder; those of the user precede.
        ends: why it gave up, by words of its output.
    """

    name: str
    program: str
    line: str
    tested: str
    package: str
    licence: str
    dialect: str = "chat"
    from_npm: bool = True
    packages_beside: tuple[str, ...] = ()
    npm_program: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    ends: Mapping[str, str] = field(default_factory=dict)

    @property
    def api(self) -> str:
        """The name of its protocol for ``agent.api``."""
        apis = {dialect.name: dialect.api for dialect in DIALECTS}
        return apis[self.dialect]

    @property
    def variables(self) -> dict[str, str]:
        return {**_QUIET, **self.environment}

    def own_end(self, output: str) -> str:
        """Return why it gave up with exit code 0; empty where it says nothing of that."""
        return "; ".join(self.ends[words] for words in self.ends if words in output)

    def command_line(self, arguments: Sequence[str]) -> tuple[str, ...]:
        """Return the words of its command line, with placeholders."""
        line = f"message_file=$0 model=$1; shift; {self.line}"
        return ("sh", "-c", line, "{message_file}", "{model}", *arguments)


@cache
def version_of(program: Path) -> str:
    """Return the version that a program says, ``unknown`` where it says none."""
    with tempfile.TemporaryDirectory() as home:
        variables = {"PATH": os.environ.get("PATH", os.defpath), "HOME": home}
        argv = [str(program), "--version"]
        try:
            result = run_limited(argv, Path(home), variables, _VERSION_SECONDS)
        except OSError:
            return "unknown"
    match = _VERSION.search(result.output)
    if not match or result.exit_code:
        return "unknown"
    return match[0]


def variables_of(apis: Iterable[str]) -> dict[str, str]:
    """Return the variables by which programs find a server and a key, with placeholders."""
    variables = {}
    for api in apis:
        variables.update(_VARIABLES_BY_API[api])
    return variables


_VARIABLES_BY_API = {
    "anthropic": {"ANTHROPIC_BASE_URL": "{address}", "ANTHROPIC_API_KEY": "{token}"},
    "openai": {
        "OPENAI_BASE_URL": "{address}/v1",
        "OPENAI_API_BASE": "{address}/v1",
        "OPENAI_API_KEY": "{token}",
    },
    "gemini": {"GOOGLE_GEMINI_BASE_URL": "{address}", "GEMINI_API_KEY": "{token}"},
}
