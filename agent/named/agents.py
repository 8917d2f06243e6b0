"""The coding agents of others. The facts are those of the versions in ``tested``."""

from __future__ import annotations

from agent.named.base import NamedAgent

# Configuration is not in the files for it, which are the user's.
SETTINGS = ".gateway/settings.json"
_TELEMETRY_OFF = """{
  "privacy": {"usageStatisticsEnabled": false},
  "telemetry": {"enabled": false},
  "general": {"enableAutoUpdate": false},
  "security": {"auth": {"selectedType": "%s"}}
}
"""
_CODEX_OPTIONS = """\
-c model_provider=gateway
-c model_providers.gateway.name=gateway
-c model_providers.gateway.base_url="{address}/v1"
-c model_providers.gateway.env_key=OPENAI_API_KEY
-c model_providers.gateway.wire_api=responses
-c model_providers.gateway.request_max_retries=1
-c model_providers.gateway.stream_max_retries=1
-c model_providers.gateway.supports_websockets=false
-c check_for_update_on_startup=false
-c features.plugins=false
-c features.apps=false
-c analytics.enabled=false
-c feedback.enabled=false
""".replace("\n", " ")
_OPENCODE_CONFIG = """{
  "autoupdate": false,
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
          "limit": {"context": 200000, "output": 8192}
        }
      }
    }
  }
}
"""

AGENTS = (
    # Claude Code. Without `IS_SANDBOX` it refuses its permission mode for root.
    NamedAgent(
        name="claude-code",
        program="claude",
        line=(
            "claude -p --output-format json --verbose "
            '--permission-mode bypassPermissions --model "$model" "$@" <"$message_file"'
        ),
        dialect="messages",
        tested="2.1.332",
        package="@anthropic-ai/claude-code",
        licence="proprietary (Anthropic)",
        environment={
            # Sub-agents and small tasks use other models by default, which this attempt may not.
            "ANTHROPIC_DEFAULT_HAIKU_MODEL": "{model}",
            "ANTHROPIC_DEFAULT_OPUS_MODEL": "{model}",
            "ANTHROPIC_DEFAULT_SONNET_MODEL": "{model}",
            "ANTHROPIC_SMALL_FAST_MODEL": "{model}",
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
        line=(
            "codex exec --json --dangerously-bypass-approvals-and-sandbox "
            f'--skip-git-repo-check -m "$model" {_CODEX_OPTIONS}"$@" - <"$message_file"'
        ),
        dialect="responses",
        tested="0.169.0",
        package="@openai/codex",
        licence="Apache-2.0",
    ),
    # Gemini CLI. Its exit code is the HTTP status modulo 256.
    NamedAgent(
        name="gemini-cli",
        program="gemini",
        line=(
            'gemini --yolo --output-format json -m "$model" '
            '-p "$(cat "$message_file")" "$@"'
        ),
        dialect="generateContent",
        tested="0.61.0",
        package="@google/gemini-cli",
        licence="Apache-2.0",
        environment={
            "GEMINI_CLI_SYSTEM_SETTINGS_PATH": f"{{home}}/{SETTINGS}",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "GEMINI_TELEMETRY_ENABLED": "false",
            "GEMINI_CLI_NO_RELAUNCH": "true",
        },
        files={SETTINGS: _TELEMETRY_OFF % "gemini-api-key"},
    ),
    # opencode. It names its session in a call of its own, and loops on answers it cannot read.
    NamedAgent(
        name="opencode",
        program="opencode",
        line=(
            'opencode run --format json --model "gateway/$model" "$@" '
            '"$(cat "$message_file")"'
        ),
        tested="1.18.33",
        package="opencode-ai",
        licence="MIT",
        environment={
            "OPENCODE_CONFIG_CONTENT": _OPENCODE_CONFIG,
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
        },
    ),
    # Qwen Code. It exits with 0 when its model cannot be reached.
    NamedAgent(
        name="qwen-code",
        program="qwen",
        line=(
            "qwen --yolo --output-format json --auth-type openai "
            '-p "$(cat "$message_file")" "$@"'
        ),
        tested="0.24.4",
        package="@qwen-code/qwen-code",
        licence="Apache-2.0",
        environment={
            "OPENAI_MODEL": "{model}",
            "QWEN_CODE_SYSTEM_SETTINGS_PATH": f"{{home}}/{SETTINGS}",
        },
        # It makes the second file while it starts, so that it stands in some prompts only.
        files={
            SETTINGS: _TELEMETRY_OFF % "openai",
            ".qwen/output-language.md": "Answer in English.\n",
        },
    ),
    # goose. It exits with 0 when its model cannot be reached, and sends several calls at once.
    NamedAgent(
        name="goose",
        program="goose",
        line=(
            'goose run --no-session -i "$message_file" --with-builtin developer "$@"'
        ),
        tested="1.52.0",
        package="@aaif/goose-binary-linux-x64",
        npm_program="goose-binary-linux-x64",
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
        line=(
            'openhands --headless --json --override-with-envs -f "$message_file" "$@"'
        ),
        tested="1.16.0",
        package="openhands",
        from_npm=False,
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
        line=(
            'mini -m "openai/$model" -t "$(cat "$message_file")" -y -l 0 '
            '--exit-immediately -o /dev/null "$@"'
        ),
        tested="2.4.6",
        package="mini-swe-agent",
        from_npm=False,
        packages_beside=("mcp",),
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
        line=(
            # Its own files in the checkout are not part of its edits.
            "echo '.aider*' >>.git/info/exclude; "
            'aider --model "openai/$model" --weak-model "openai/$model" '
            '--message-file "$message_file" '
            "--yes-always --no-check-update "
            "--analytics-disable --no-auto-commits --no-dirty-commits --no-gitignore "
            "--no-show-model-warnings --no-show-release-notes --no-pretty --no-detect-urls "
            "--no-suggest-shell-commands --edit-format diff "
            '--chat-history-file /dev/null --input-history-file /dev/null "$@"'
        ),
        tested="0.86.2",
        package="aider-chat",
        from_npm=False,
        licence="Apache-2.0",
    ),
)
