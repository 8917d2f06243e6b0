"""Tree-sitter grammars by file name; each lies inside an installed package."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from posixpath import splitext
from typing import TYPE_CHECKING

from swe_retry.core.data import read_yaml

if TYPE_CHECKING:
    from tree_sitter import Language, Parser

# A tree takes about 150 bytes for each character.
_MAX_CHARACTERS = 2_000_000
_PARSER_PACKAGE = "tree_sitter"
# Packages and functions of languages whose package has several grammars.
_SHARED_PACKAGES = {
    "php": ("tree_sitter_php", "language_php"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
}
_BY_SUFFIX: dict[str, str] = read_yaml(__file__, "grammars.yaml")


SUFFIXES = tuple(_BY_SUFFIX)
"""The suffixes of files in a known language."""


def language_of(path: str) -> str | None:
    """Return the name of the grammar for ``path``, None when there is none."""
    return _BY_SUFFIX.get(splitext(path.rstrip("/"))[1].lower())


def language_named(word: str) -> str | None:
    """Return the grammar that ``word`` means by its name or by a suffix, None for none."""
    if word in _BY_SUFFIX.values():
        return word
    return language_of(f"x.{word}")


def parser(language: str) -> Parser:
    """Return a new parser: threads may share grammars but not parsers."""
    from tree_sitter import Parser

    return Parser(grammar(language))


@cache
def grammar(language: str) -> Language:
    """Return the grammar called ``language``."""
    from tree_sitter import Language

    default = (f"tree_sitter_{language}", "language")
    package, function = _SHARED_PACKAGES.get(language, default)
    return Language(getattr(import_module(package), function)())


@cache
def grammars_version() -> str:
    """Return a digest of the versions on which the result of parsing depends.

    Read from the names of the packages' metadata folders: importing ``importlib.metadata`` takes
    a twentieth of a whole map whose tags are cached.
    """
    spec = find_spec(_PARSER_PACKAGE)
    if not spec or not spec.origin:
        raise ModuleNotFoundError(name=_PARSER_PACKAGE)
    folder = Path(spec.origin).parent.parent
    names = sorted(path.name for path in folder.glob(f"{_PARSER_PACKAGE}*-info"))
    return hashlib.sha256(" ".join(names).encode()).hexdigest()[:16]


def has_errors(path: str, text: str) -> bool:
    """Return whether ``text`` breaks the grammar for ``path``.

    Returns False without a grammar, and for a text whose tree would fill the memory.
    """
    language = language_of(path)
    if not language or len(text) > _MAX_CHARACTERS:
        return False
    tree = parser(language).parse(text.encode("utf-8", "surrogatepass"))
    return bool(tree.root_node.has_error)
