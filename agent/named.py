"""Coding agents that ``--agent`` knows by name: how each is started, and what it was tested with.

Facts of the versions in ``tested``, seen when they ran on loopback (docs/agents.md has the table).
Texts hold the placeholders of a command, and ``{address}`` and ``{token}`` of the gateway.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.gateway.dialects import DIALECTS

_VERSION_SECONDS = 60.0
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_QUIET = {"GIT_CONFIG_GLOBAL": "/dev/null", "TERM": "dumb", "TZ": "UTC"}


@dataclass(frozen=True)
class NamedAgent:
    """One coding agent.

    Attributes:
        program: the command that is looked up in ``PATH``.
        words: its command line, with placeholders; a shell runs it where it begins with ``sh``.
        dialect: the name of the protocol in which it calls models.
        tested: the version that was run.
        install: a command that installs that version.
        environment: variables, with placeholders.
        files: texts with placeholders, by path in its home folder.
        leaves: patterns of its own files in the checkout, which are not part of its edits.
    """

    name: str
    program: str
    words: tuple[str, ...]
    dialect: str
    tested: str
    install: str
    licence: str
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    leaves: tuple[str, ...] = ()

    @property
    def api(self) -> str:
        """The name of its protocol for ``--agent-api``."""
        return next(one.api for one in DIALECTS if one.name == self.dialect)

    def variables(self) -> dict[str, str]:
        return {**_QUIET, **self.environment}

    def installed(self) -> str:
        """Return the version that is installed; empty where the program is not, or names none."""
        program = shutil.which(self.program)
        if program is None:
            return ""
        try:
            done = subprocess.run(
                [program, "--version"], capture_output=True, text=True, timeout=_VERSION_SECONDS,
                stdin=subprocess.DEVNULL, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return ""
        found = _VERSION.search(done.stdout + done.stderr)
        return found[0] if found else ""


def _shell(line: str) -> tuple[str, ...]:
    """Return the words of a command line that reads the message file, which is ``$0``."""
    return ("sh", "-c", f"exec {line}", "{message_file}", "{model}", "{address}")


_CODEX = """model = "{model}"
model_provider = "gateway"
check_for_update_on_startup = false
[model_providers.gateway]
name = "gateway"
base_url = "{address}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1
supports_websockets = false
[features]
plugins = false
apps = false
[analytics]
enabled = false
[feedback]
enabled = false
"""
_OPENCODE = json.dumps(
    {
        "autoupdate": False, "share": "disabled", "permission": "allow",
        "enabled_providers": ["gateway"], "model": "gateway/{model}",
        "small_model": "gateway/{model}",
        "provider": {
            "gateway": {
                "npm": "@ai-sdk/openai-compatible", "name": "gateway",
                "options": {"baseURL": "{address}/v1", "apiKey": "{token}"},
                "models": {
                    "{model}": {
                        "name": "{model}", "limit": {"context": 200000, "output": 8192},
                    }
                },
            }
        },
    }
)  # fmt: skip


def _no_telemetry(kind: str) -> str:
    settings = {
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"enableAutoUpdate": False},
        "security": {"auth": {"selectedType": kind}},
    }
    return json.dumps(settings)


_OPENAI = {
    "OPENAI_API_KEY": "{token}", "OPENAI_BASE_URL": "{address}/v1",
    "OPENAI_API_BASE": "{address}/v1",
}  # fmt: skip
# litellm would fetch its price map.
_LITELLM = {**_OPENAI, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}

AGENTS: tuple[NamedAgent, ...] = (
    NamedAgent(
        "claude-code",
        "claude",
        _shell(
            "claude -p --output-format json --verbose --permission-mode bypassPermissions "
            '--model "$1" <"$0"'
        ),
        "messages",
        "2.1.197",
        "npm install -g @anthropic-ai/claude-code@2.1.197",
        "proprietary (Anthropic)",
        {
            "ANTHROPIC_BASE_URL": "{address}",
            "ANTHROPIC_API_KEY": "{token}",
            # Sub-agents and small tasks use other models by default, which this attempt may not.
            **{
                f"ANTHROPIC_{name}_MODEL": "{model}"
                for name in ("DEFAULT_HAIKU", "DEFAULT_SONNET", "DEFAULT_OPUS", "SMALL_FAST")
            },
            "CLAUDE_CODE_SUBAGENT_MODEL": "{model}",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "IS_SANDBOX": "1",  # it refuses this permission mode for root without
        },
    ),
    NamedAgent(
        "codex",
        "codex",
        _shell(
            "codex exec --json --dangerously-bypass-approvals-and-sandbox --skip-git-repo-check "
            '- <"$0"'
        ),
        "responses",
        "0.169.0",
        "npm install -g @openai/codex@0.169.0",
        "Apache-2.0",
        {"OPENAI_API_KEY": "{token}"},
        {".codex/config.toml": _CODEX},
    ),
    NamedAgent(
        "gemini-cli",
        "gemini",
        _shell('gemini --yolo --output-format json -m "$1" -p "$(cat "$0")"'),
        "generateContent",
        "0.61.0",
        "npm install -g @google/gemini-cli@0.61.0",
        "Apache-2.0",
        {
            "GEMINI_API_KEY": "{token}",
            "GOOGLE_GEMINI_BASE_URL": "{address}",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "GEMINI_TELEMETRY_ENABLED": "false",
            "GEMINI_CLI_NO_RELAUNCH": "true",
        },
        {".gemini/settings.json": _no_telemetry("gemini-api-key")},
    ),
    NamedAgent(
        "opencode",
        "opencode",
        _shell('opencode run --format json --model "gateway/$1" "$(cat "$0")"'),
        "chat",
        "1.18.33",
        "npm install -g opencode-ai@1.18.33",
        "MIT",
        {
            f"OPENCODE_DISABLE_{name}": "1"
            for name in ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
        },
        {".config/opencode/opencode.json": _OPENCODE},
    ),
    NamedAgent(
        "qwen-code",
        "qwen",
        _shell('qwen --yolo --output-format json --auth-type openai -p "$(cat "$0")"'),
        "chat",
        "0.15.10",
        "npm install -g @qwen-code/qwen-code@0.15.10",
        "Apache-2.0",
        {**_OPENAI, "OPENAI_MODEL": "{model}"},
        # It makes the second file while it starts, so that it stands in some prompts only.
        {
            ".qwen/settings.json": _no_telemetry("openai"),
            ".qwen/output-language.md": "Answer in English.\n",
        },
    ),
    NamedAgent(
        "goose",
        "goose",
        _shell('goose run --no-session -i "$0" --with-builtin developer'),
        "chat",
        "1.34.0",
        "npm install -g @aaif/goose-binary-linux-x64@0.20.1",
        "Apache-2.0",
        {
            "OPENAI_API_KEY": "{token}",
            "OPENAI_HOST": "{address}",
            "GOOSE_PROVIDER": "openai",
            "GOOSE_MODEL": "{model}",
            "GOOSE_MODE": "auto",
            "GOOSE_DISABLE_KEYRING": "1",
            "GOOSE_TELEMETRY_ENABLED": "false",
            "GOOSE_DISABLE_SESSION_NAMING": "true",
        },
    ),
    NamedAgent(
        "openhands",
        "openhands",
        _shell('openhands --headless --json --override-with-envs -f "$0"'),
        "chat",
        "1.16.0",
        "pipx install --python 3.12 openhands==1.16.0",
        "MIT",
        {
            **_LITELLM,
            "LLM_API_KEY": "{token}",
            "LLM_BASE_URL": "{address}/v1",
            "LLM_MODEL": "openai/{model}",
            "OPENHANDS_SUPPRESS_BANNER": "1",
        },
    ),
    NamedAgent(
        "mini-swe-agent",
        "mini",
        _shell('mini -m "openai/$1" -t "$(cat "$0")" -y -l 0 --exit-immediately -o /dev/null'),
        "chat",
        "2.4.6",
        "pipx install mini-swe-agent==2.4.6; pipx inject mini-swe-agent mcp",
        "MIT",
        {
            **_LITELLM,
            "MSWEA_CONFIGURED": "true",
            "MSWEA_SILENT_STARTUP": "1",
            "MSWEA_COST_TRACKING": "ignore_errors",
            # It would try again for minutes what the gateway refuses for good.
            "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "1",
        },
    ),
    NamedAgent(
        "aider",
        "aider",
        _shell(
            'aider --model "openai/$1" --weak-model "openai/$1" --message-file "$0" '
            "--yes-always --no-check-update "
            "--analytics-disable --no-auto-commits --no-dirty-commits --no-gitignore "
            "--no-show-model-warnings --no-show-release-notes --no-pretty --no-detect-urls "
            "--no-suggest-shell-commands --edit-format diff "
            "--chat-history-file /dev/null --input-history-file /dev/null"
        ),
        "chat",
        "0.86.2",
        "pipx install aider-chat==0.86.2",
        "Apache-2.0",
        _LITELLM,
        leaves=(".aider*",),
    ),
)


def named_agent(name: str) -> NamedAgent | None:
    return next((agent for agent in AGENTS if agent.name == name), None)
