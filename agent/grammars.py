"""Tree-sitter grammars by file name; the grammars lie inside the installed package."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from pathlib import PurePosixPath

from tree_sitter import Language, Parser

_BY_SUFFIX = {
    ".py": "python",
    ".pyi": "python",
    ".c": "c",
    # Headers are read as C++, whose grammar takes nearly all of C.
    ".h": "cpp",
    ".cc": "cpp",
    ".cpp": "cpp",
    ".cxx": "cpp",
    ".hh": "cpp",
    ".hpp": "cpp",
    ".java": "java",
    ".js": "javascript",
    ".jsx": "javascript",
    ".cjs": "javascript",
    ".mjs": "javascript",
    ".ts": "typescript",
    ".cts": "typescript",
    ".mts": "typescript",
    ".tsx": "tsx",
    ".go": "go",
    ".rs": "rust",
    ".rb": "ruby",
    ".php": "php",
}


def language_of(path: str) -> str | None:
    """Return the name of the grammar for ``path``, None when there is none."""
    return _BY_SUFFIX.get(PurePosixPath(path).suffix.lower())


def parser(language: str) -> Parser:
    """Return a new parser: parsers are not to be shared between threads, grammars are."""
    return Parser(grammar(language))


@cache
def grammar(language: str) -> Language:
    """Return the grammar called ``language``."""
    from tree_sitter_language_pack import get_language

    return get_language(language)  # type: ignore[arg-type]


@cache
def grammars_version() -> str:
    """Return the version of the grammars: what is parsed with another one may differ."""
    return version("tree-sitter-language-pack")
