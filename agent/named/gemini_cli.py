"""Gemini CLI. Its exit code is the HTTP status modulo 256."""

from __future__ import annotations

from agent.named.base import NamedAgent, no_telemetry, shell

AGENT = NamedAgent(
    name="gemini-cli",
    program="gemini",
    words=shell('gemini --yolo --output-format json -m "$1" -p "$(cat "$0")"'),
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
)
