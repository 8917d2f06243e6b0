"""When two candidates say the same: layout and comments in prose do not count. Pure."""

from __future__ import annotations

import ast
import hashlib
import re
import tokenize
import warnings
from collections.abc import Callable, Iterator
from io import StringIO
from typing import TYPE_CHECKING

from swe_retry.agent.grammars import language_of, parser
from swe_retry.agent.workspace import TextFile
from swe_retry.core.worktree import Changes

if TYPE_CHECKING:
    from tree_sitter import Node

_MAX_LENGTH = 2_000_000
# What a program reads is one word, or one with a value, an option or a mark: "noqa",
# "type: ignore", "go:build linux", "eslint-disable", "@ts-ignore", "+build". Prose begins with two.
_DIRECTIVE = re.compile(r"[^\w@+!]*([\w.]+\s*([:=-]|\W*$)|[@+!]\S)")


def canonical_key(changes: Changes, base: Callable[[str], str | None]) -> str:
    """Return a hash that equal changes have in common; ``base`` reads the base commit.

    Python is compared with its indentation: others remove all whitespace and make patches equal
    that are not (Trae's ``clean_patch``). Docstrings count, as programs read them (grammars of
    PLY), and so do comments that are directives. Files that say the same as before do not count.
    """
    digest = hashlib.sha256()
    for path, data in sorted(changes.items()):
        after = None
        if data is not None:
            after = canonical(path, TextFile.decode(data).text)
        before = base(path)
        if before is not None:
            before = canonical(path, before)
        if after != before:
            digest.update(repr((path, after)).encode("utf-8", "backslashreplace"))
    return digest.hexdigest()


def canonical(path: str, text: str) -> str:
    """Return what ``text`` says: the syntax tree of Python, tokens of other languages.

    A text without grammar, and one that breaks its grammar, stands for itself.
    """
    language = language_of(path)
    if language is None or len(text) > _MAX_LENGTH:
        return text
    if language == "python":
        # Blanks at the beginning of a line have a meaning here alone.
        return _syntax_tree(text) or text
    root = parser(language).parse(text.encode("utf-8", "surrogatepass")).root_node
    if root.has_error:
        return text
    return "\n".join(_tokens(root))


def _syntax_tree(text: str) -> str | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.dump(ast.parse(text))
        directives = []
        for token in tokenize.generate_tokens(StringIO(text).readline):
            if token.type == tokenize.COMMENT and is_directive(token.string):
                directives.append(token.string)
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError):
        return None
    return "\n".join([tree, *directives])


def is_directive(comment: str) -> bool:
    """Return whether a program may read ``comment``."""
    return _DIRECTIVE.match(comment) is not None


def _tokens(root: Node) -> Iterator[str]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if "comment" in node.type:
            comment = (node.text or b"").decode("utf-8", "surrogatepass")
            if is_directive(comment):
                yield comment
            continue
        if node.children and "string" not in node.type and "template" not in node.type:
            # The kinds of inner nodes tell where a statement ends at the end of its line.
            yield node.type
            waiting.extend(reversed(node.children))
        else:
            yield (node.text or b"").decode("utf-8", "surrogatepass")
