"""OpenHands. It does not stream, exits with 0 after errors, and leaves a tmux server."""

from __future__ import annotations

from agent.named.base import NamedAgent, shell

AGENT = NamedAgent(
    name="openhands",
    program="openhands",
    words=shell('openhands --headless --json --override-with-envs -f "$0"'),
    dialect="chat",
    tested="1.16.0",
    install="pipx install --python 3.12 openhands==1.16.0",
    licence="MIT",
    environment={
        "LLM_API_KEY": "{token}",
        "LLM_BASE_URL": "{address}/v1",
        "LLM_MODEL": "openai/{model}",
        "OPENHANDS_SUPPRESS_BANNER": "1",
    },
)
