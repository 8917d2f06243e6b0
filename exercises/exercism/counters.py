"""Pure: what replies and outputs of tests show besides the verdict (docs/exercism.md)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from agent.formats.base import Edit, EditResult, MoveFile, SearchReplace
from agent.formats.matching.explain import AMBIGUOUS

# The pattern of the published records, with its last blank.
_LAZY = re.compile(r"^[+]? *[#].* [.][.][.] ", re.MULTILINE)
_SYNTAX, _INDENTATION = "SyntaxError", "IndentationError"


def lazy_comments(reply: str) -> int:
    """Return the number of lines such as ``# ... rest of the code``, an ellipsis for code."""
    return len(_LAZY.findall(reply))


def syntax_errors(output: str) -> int:
    """Return the number of lines of the tests' output that begin ``SyntaxError``."""
    return _beginning(output, _SYNTAX)


def indentation_errors(output: str) -> int:
    """Return the number of lines of the tests' output that begin ``IndentationError``."""
    return _beginning(output, _INDENTATION)


def _beginning(output: str, word: str) -> int:
    return sum(line.startswith(word) for line in output.splitlines())


def whole_file_blocks(edits: Iterable[Edit], sources: Mapping[str, str]) -> int:
    """Return the number of edits that search for the whole source of a file.

    Blank lines around it make no difference. A source of one line is too short to tell.

    Args:
        edits: of a reply.
        sources: the texts of files by path, before the reply.
    """
    searches = (edit for edit in edits if isinstance(edit, SearchReplace))
    return sum(_is_whole(edit.search, sources.get(edit.path, "")) for edit in searches)


def _is_whole(search: str, source: str) -> bool:
    whole = source.strip()
    return "\n" in whole and search.strip() == whole


def foreign_edits(edits: Iterable[Edit], allowed: Collection[str]) -> int:
    """Return the number of edits of files that are no solution files."""
    return sum(not {*_paths(edit)} <= {*allowed} for edit in edits)


def _paths(edit: Edit) -> Sequence[str]:
    return (edit.path, edit.to) if isinstance(edit, MoveFile) else (edit.path,)


def ambiguous_edits(results: Iterable[EditResult]) -> int:
    """Return the number of edits whose lines stand in several places, so that none was changed."""
    return sum(result.problem.startswith(AMBIGUOUS) for result in results)


def hallucinated_functions(called: Iterable[str], offered: Collection[str]) -> int:
    """Return the number of calls of functions that were not offered.

    One counts also where the format understood it, such as ``python`` with bare code.
    """
    return sum(name not in offered for name in called)
