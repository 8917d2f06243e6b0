"""goose. It exits with 0 when its model cannot be reached, and sends several calls at once."""

from __future__ import annotations

from agent.named.base import NamedAgent, shell

AGENT = NamedAgent(
    name="goose",
    program="goose",
    words=shell('goose run --no-session -i "$0" --with-builtin developer'),
    dialect="chat",
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
)
