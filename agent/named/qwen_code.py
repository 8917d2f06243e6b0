"""Qwen Code. It exits with 0 when its model cannot be reached."""

from __future__ import annotations

from agent.named.base import NamedAgent, no_telemetry, shell

AGENT = NamedAgent(
    name="qwen-code",
    program="qwen",
    words=shell('qwen --yolo --output-format json --auth-type openai -p "$(cat "$0")"'),
    dialect="chat",
    tested="0.15.10",
    install="npm install -g @qwen-code/qwen-code@0.15.10",
    licence="Apache-2.0",
    environment={"OPENAI_MODEL": "{model}"},
    # It makes the second file while it starts, so that it stands in some prompts only.
    files={
        ".qwen/settings.json": no_telemetry("openai"),
        ".qwen/output-language.md": "Answer in English.\n",
    },
)
