"""What describes a coding agent that ``--agent`` knows by name."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from agent.gateway.dialects import DIALECTS

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
        program: the command that is looked up in ``PATH``.
        argv: its command line, with placeholders; a shell runs it where it begins with ``sh``.
        dialect: the name of the protocol in which it calls models.
        tested: the version that was run.
        install: a command that installs that version.
        environment: variables beside those of its protocol, with placeholders.
        files: texts with placeholders, by path in its home folder.
    """

    name: str
    program: str
    argv: tuple[str, ...]
    tested: str
    install: str
    licence: str
    dialect: str = "chat"
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def api(self) -> str:
        """The name of its protocol for ``agent.api``."""
        apis = {dialect.name: dialect.api for dialect in DIALECTS}
        return apis[self.dialect]

    @property
    def variables(self) -> dict[str, str]:
        return {**_QUIET, **self.environment}

    def installed_version(self) -> str:
        """Return the version that is installed; empty where the program is not, or names none."""
        program = shutil.which(self.program)
        if program is None:
            return ""
        try:
            result = subprocess.run(
                [program, "--version"],
                capture_output=True,
                text=True,
                timeout=_VERSION_SECONDS,
                stdin=subprocess.DEVNULL,
                check=False,
                cwd="/",
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        match = _VERSION.search(result.stdout + result.stderr)
        if match is None:
            return ""
        return match[0]


def shell_command(line: str) -> tuple[str, ...]:
    """Return the words of a command line of the shell; the message file is ``$0``."""
    return ("sh", "-c", line, "{message_file}", "{model}", "{address}")


def no_telemetry(kind: str) -> str:
    """Return the settings of Gemini CLI, and of what was made from it, for a ``kind`` of login."""
    settings = {
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"enableAutoUpdate": False},
        "security": {"auth": {"selectedType": kind}},
    }
    return json.dumps(settings)


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
