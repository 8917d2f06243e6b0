"""Check whether a text is a complete program, by its grammar."""

from __future__ import annotations

from agent.grammars import language_of, parser

# A tree takes about 150 bytes for each character.
_LONGEST = 2_000_000


def has_errors(path: str, text: str) -> bool:
    """Return whether ``text`` breaks the grammar for ``path``.

    Returns False without a grammar, and for a text whose tree would fill the memory.
    """
    language = language_of(path)
    if language is None or len(text) > _LONGEST:
        return False
    return bool(parser(language).parse(text.encode("utf-8", "surrogatepass")).root_node.has_error)
