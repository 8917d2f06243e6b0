"""Recognise files that no linter can check: templates, notebooks, generated and minified code."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from agent.lint.findings import Change

_HEAD_LINES = 15
_LONG_LINE = 5_000
_TOO_BIG = 2_000_000
# Marks and tags stand at the beginning of short lines.
_LOOKED_AT = 400
_GENERATED_NAMES = re.compile(
    r"(_pb2(_grpc)?\.pyi?|\.pb\.(go|cc|h)|(^|/)(parsetab|lextab|yacctab)\.py|[.-]min\.[cm]?js"
    r"|\.bundle\.js)$"
)
# Only at the start of a comment: much code mentions generated files.
_GENERATED_MARK = re.compile(
    r"^\s*(#|//|/?\*|<!--|;)[\s*#-]*(.*@generated\b|.*\bdo not (edit|modify)\b"
    r"|((this|the) [\w ]{2,30}(is|was|has been) )?(code )?(auto(matically)?[- ]?)?generated\b)",
    re.IGNORECASE,
)
_TEMPLATE_MARK = re.compile(r"\{\{-?\s*cookiecutter\.|^# In\[[\d ]*\]:$", re.MULTILINE)
# A tag alone on its line, perhaps behind a comment sign; a magic or shell command of a notebook.
_TEMPLATE_LINE = re.compile(
    r"\s*(#|//)?\s*\{%-?\s*(if|for|block|extends|include|import|from|set|macro|raw|end\w+|else"
    r"|elif)\b.*%\}\s*$|[%!]\w+ "
    # A placeholder, where no string can be open before it.
    r"|[^'\"`#]*\{\{-?\s*[A-Za-z_][\w.]*\s*(\|.*)?-?\}\}"
)


def is_exempt(change: Change) -> bool:
    """Return whether the file of ``change`` is not checked at all.

    For an existing file the text before the edit counts: an edit cannot excuse itself by adding a
    mark.
    """
    text = change.after if change.before is None else change.before
    return (
        max(len(text), len(change.after)) > _TOO_BIG
        or _is_template_path(change.path)
        or _is_generated(change.path, text)
        or bool(_TEMPLATE_MARK.search(text))
        or _is_other_format(text)
    )


def excuses_syntax(change: Change) -> bool:
    """Return whether a new file that cannot be parsed is likely a template or a notebook.

    Such lines are common inside strings, so they do not count in files that can be parsed. An
    existing template is excused because it could not be parsed before the edit either.
    """
    if change.before is not None:
        return False
    return any(_TEMPLATE_LINE.match(line[:_LOOKED_AT]) for line in change.after.split("\n"))


def _is_template_path(path: str) -> bool:
    return "{{" in path or "{%" in path


def _is_generated(path: str, text: str) -> bool:
    if _GENERATED_NAMES.search(path):
        return True
    lines = text.split("\n")
    if any(_GENERATED_MARK.search(line[:_LOOKED_AT]) for line in lines[:_HEAD_LINES]):
        return True
    is_script = PurePosixPath(path).suffix in (".js", ".mjs", ".cjs")
    return is_script and any(len(line) > _LONG_LINE for line in lines)


def _is_other_format(text: str) -> bool:
    """Return whether the file is XML: translations of Qt are called ``.ts``, too."""
    return text.lstrip().startswith(("<?xml", "<!DOCTYPE TS"))
