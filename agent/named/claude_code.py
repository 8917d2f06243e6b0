"""Claude Code. Without ``IS_SANDBOX`` it refuses its permission mode for root."""

from __future__ import annotations

from agent.named.base import NamedAgent, shell

AGENT = NamedAgent(
    name="claude-code",
    program="claude",
    words=shell(
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
)
