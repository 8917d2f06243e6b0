"""The coding agents of others. The facts are those of the versions in ``tested``."""

from __future__ import annotations

import json

from agent.named.base import NamedAgent, no_telemetry, shell_command

_CODEX_CONFIG = """model = "{model}"
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

_OPENCODE_CONFIG = json.dumps(
    {
        "autoupdate": False,
        "share": "disabled",
        "permission": "allow",
        "enabled_providers": ["gateway"],
        "model": "gateway/{model}",
        "small_model": "gateway/{model}",
        "provider": {
            "gateway": {
                "npm": "@ai-sdk/openai-compatible",
                "name": "gateway",
                "options": {"baseURL": "{address}/v1", "apiKey": "{token}"},
                "models": {
                    "{model}": {
                        "name": "{model}",
                        "limit": {"context": 200000, "output": 8192},
                    }
                },
            }
        },
    }
)

AGENTS = (
    # Claude Code. Without `IS_SANDBOX` it refuses its permission mode for root.
    NamedAgent(
        name="claude-code",
        program="claude",
        argv=shell_command(
            "claude -p --output-format json --verbose --permission-mode bypassPermissions "
            '--model "$1" <"$0"'
        ),
        dialect="messages",
        tested="2.1.197",
        install="npm install -g @anthropic-ai/claude-code@2.1.197",
        licence="proprietary (Anthropic)",
        environment={
            # Sub-agents and small tasks use other models by default, which this attempt may not.
            **{
                f"ANTHROPIC_{name}_MODEL": "{model}"
                for name in (
                    "DEFAULT_HAIKU",
                    "DEFAULT_SONNET",
                    "DEFAULT_OPUS",
                    "SMALL_FAST",
                )
            },
            "CLAUDE_CODE_SUBAGENT_MODEL": "{model}",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "IS_SANDBOX": "1",  # it refuses this permission mode for root without
        },
    ),
    # Codex. It speaks OpenAI's responses alone, and looks up hosts while plugins and apps are on.
    NamedAgent(
        name="codex",
        program="codex",
        argv=shell_command(
            "codex exec --json --dangerously-bypass-approvals-and-sandbox "
            '--skip-git-repo-check - <"$0"'
        ),
        dialect="responses",
        tested="0.169.0",
        install="npm install -g @openai/codex@0.169.0",
        licence="Apache-2.0",
        files={".codex/config.toml": _CODEX_CONFIG},
    ),
    # Gemini CLI. Its exit code is the HTTP status modulo 256.
    NamedAgent(
        name="gemini-cli",
        program="gemini",
        argv=shell_command(
            'gemini --yolo --output-format json -m "$1" -p "$(cat "$0")"'
        ),
        dialect="generateContent",
        tested="0.61.0",
        install="npm install -g @google/gemini-cli@0.61.0",
        licence="Apache-2.0",
        environment={
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "GEMINI_TELEMETRY_ENABLED": "false",
            "GEMINI_CLI_NO_RELAUNCH": "true",
        },
        files={".gemini/settings.json": no_telemetry("gemini-api-key")},
    ),
    # opencode. It names its session in a call of its own, and loops on answers it cannot read.
    NamedAgent(
        name="opencode",
        program="opencode",
        argv=shell_command(
            'opencode run --format json --model "gateway/$1" "$(cat "$0")"'
        ),
        tested="1.18.33",
        install="npm install -g opencode-ai@1.18.33",
        licence="MIT",
        environment={
            f"OPENCODE_DISABLE_{name}": "1"
            for name in (
                "AUTOUPDATE",
                "MODELS_FETCH",
                "LSP_DOWNLOAD",
                "DEFAULT_PLUGINS",
            )
        },
        files={".config/opencode/opencode.json": _OPENCODE_CONFIG},
    ),
    # Qwen Code. It exits with 0 when its model cannot be reached.
    NamedAgent(
        name="qwen-code",
        program="qwen",
        argv=shell_command(
            'qwen --yolo --output-format json --auth-type openai -p "$(cat "$0")"'
        ),
        tested="0.15.10",
        install="npm install -g @qwen-code/qwen-code@0.15.10",
        licence="Apache-2.0",
        environment={"OPENAI_MODEL": "{model}"},
        # It makes the second file while it starts, so that it stands in some prompts only.
        files={
            ".qwen/settings.json": no_telemetry("openai"),
            ".qwen/output-language.md": "Answer in English.\n",
        },
    ),
    # goose. It exits with 0 when its model cannot be reached, and sends several calls at once.
    NamedAgent(
        name="goose",
        program="goose",
        argv=shell_command('goose run --no-session -i "$0" --with-builtin developer'),
        tested="1.34.0",
        install="npm install -g @aaif/goose-binary-linux-x64@0.20.1",
        licence="Apache-2.0",
        environment={
            "OPENAI_HOST": "{address}",
            "GOOSE_PROVIDER": "openai",
            "GOOSE_MODEL": "{model}",
            "GOOSE_MODE": "auto",
            "GOOSE_DISABLE_KEYRING": "1",
            "GOOSE_TELEMETRY_ENABLED": "false",
            "GOOSE_DISABLE_SESSION_NAMING": "true",
        },
    ),
    # OpenHands. It does not stream, exits with 0 after errors, and leaves a tmux server.
    NamedAgent(
        name="openhands",
        program="openhands",
        argv=shell_command('openhands --headless --json --override-with-envs -f "$0"'),
        tested="1.16.0",
        install="pipx install --python 3.12 openhands==1.16.0",
        licence="MIT",
        environment={
            "LLM_API_KEY": "{token}",
            "LLM_BASE_URL": "{address}/v1",
            "LLM_MODEL": "openai/{model}",
            "OPENHANDS_SUPPRESS_BANNER": "1",
        },
    ),
    # mini-swe-agent. It does not stream; litellm needs the package `mcp` beside it.
    NamedAgent(
        name="mini-swe-agent",
        program="mini",
        argv=shell_command(
            'mini -m "openai/$1" -t "$(cat "$0")" -y -l 0 --exit-immediately -o /dev/null'
        ),
        tested="2.4.6",
        install="pipx install mini-swe-agent==2.4.6; pipx inject mini-swe-agent mcp",
        licence="MIT",
        environment={
            "MSWEA_CONFIGURED": "true",
            "MSWEA_SILENT_STARTUP": "1",
            "MSWEA_COST_TRACKING": "ignore_errors",
            # It would try again for minutes what the gateway refuses for good.
            "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "1",
        },
    ),
    # aider. It exits with 0 after errors, and would call a second model for messages of commits.
    NamedAgent(
        name="aider",
        program="aider",
        argv=shell_command(
            # Its own files in the checkout are not part of its edits.
            "echo '.aider*' >>.git/info/exclude; "
            'aider --model "openai/$1" --weak-model "openai/$1" --message-file "$0" '
            "--yes-always --no-check-update "
            "--analytics-disable --no-auto-commits --no-dirty-commits --no-gitignore "
            "--no-show-model-warnings --no-show-release-notes --no-pretty --no-detect-urls "
            "--no-suggest-shell-commands --edit-format diff "
            "--chat-history-file /dev/null --input-history-file /dev/null"
        ),
        tested="0.86.2",
        install="pipx install aider-chat==0.86.2",
        licence="Apache-2.0",
    ),
)
