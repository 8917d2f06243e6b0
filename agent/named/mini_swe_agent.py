"""mini-swe-agent. It does not stream; litellm needs the package ``mcp`` beside it."""

from __future__ import annotations

from agent.named.base import NamedAgent, shell

AGENT = NamedAgent(
    name="mini-swe-agent",
    program="mini",
    words=shell(
        'mini -m "openai/$1" -t "$(cat "$0")" -y -l 0 --exit-immediately -o /dev/null'
    ),
    dialect="chat",
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
)
