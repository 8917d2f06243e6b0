"""Codex. It speaks OpenAI's responses alone, and looks up hosts while plugins and apps are on."""

from __future__ import annotations

from agent.named.base import NamedAgent, shell

_CONFIG = """model = "{model}"
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

AGENT = NamedAgent(
    name="codex",
    program="codex",
    words=shell(
        'codex exec --json --dangerously-bypass-approvals-and-sandbox --skip-git-repo-check - <"$0"'
    ),
    dialect="responses",
    tested="0.169.0",
    install="npm install -g @openai/codex@0.169.0",
    licence="Apache-2.0",
    files={".codex/config.toml": _CONFIG},
)
