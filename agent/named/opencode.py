"""opencode. It names its session in a call of its own, and loops on answers it cannot read."""

from __future__ import annotations

import json

from agent.named.base import NamedAgent, shell

_CONFIG = json.dumps(
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

AGENT = NamedAgent(
    name="opencode",
    program="opencode",
    words=shell('opencode run --format json --model "gateway/$1" "$(cat "$0")"'),
    dialect="chat",
    tested="1.18.33",
    install="npm install -g opencode-ai@1.18.33",
    licence="MIT",
    environment={
        f"OPENCODE_DISABLE_{name}": "1"
        for name in ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
    },
    files={".config/opencode/opencode.json": _CONFIG},
)
