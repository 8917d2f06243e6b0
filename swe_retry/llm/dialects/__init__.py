"""Pure: the four protocols in which coding agents call models, and that of Ollama."""

from __future__ import annotations

from swe_retry.llm.dialects.anthropic import Messages
from swe_retry.llm.dialects.dialect import Dialect
from swe_retry.llm.dialects.gemini import Gemini
from swe_retry.llm.dialects.openai import Chat, Ollama, Responses

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


def dialect_at(url: str) -> Dialect | None:
    """Return the dialect of a request to ``url`` at any provider, None for another request."""
    path = url.partition("?")[0]
    for dialect in (*DIALECTS, Ollama()):
        if path.endswith(dialect.path_ends):
            return dialect
    return None
