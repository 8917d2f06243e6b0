"""Pure: the four protocols in which coding agents call models."""

from __future__ import annotations

from agent.gateway.dialects.anthropic import Messages
from agent.gateway.dialects.base import Dialect
from agent.gateway.dialects.gemini import Gemini
from agent.gateway.dialects.openai import Chat, Responses

DIALECTS: tuple[Dialect, ...] = (
    Messages(),
    Responses(),
    Gemini(),
    Chat(),
)
APIS = tuple(sorted({dialect.api for dialect in DIALECTS}))


def dialect_of(path: str) -> Dialect | None:
    """Return the dialect of a request to ``path``, None for another request."""
    for dialect in DIALECTS:
        if dialect.path_pattern.fullmatch(path):
            return dialect
    return None
