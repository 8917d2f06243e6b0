"""Files that no linter can judge: templates, notebooks, generated and minified code."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from agent.lint.findings import Change

_HEAD_LINES = 15
_LONG_LINE = 5_000
_TOO_BIG = 2_000_000
_GENERATED_NAMES = re.compile(
    r"(_pb2(_grpc)?\.pyi?|\.pb\.(go|cc|h)|(^|/)(parsetab|lextab|yacctab)\.py|[.-]min\.[cm]?js"
    r"|\.bundle\.js)$"
)
# Only in comments: a docstring that speaks of generated files is no mark.
_GENERATED_MARK = re.compile(
    r"^\s*(#|//|/?\*|<!--|;).*(@generated|\bdo not (edit|modify)\b"
    r"|\bauto(matically)?[- ]?generated\b|\bgenerated (by|from|with|file|code)\b"
    r"|(?<=[#/])\s*generated\s*$)",
    re.IGNORECASE,
)
# A tag alone on its line (a comment sign may hide it), or a value of a project template.
_TEMPLATE_MARK = re.compile(
    r"^\s*(#|//)?\s*\{%-?\s*(if|for|block|extends|include|import|from|set|macro|raw|end\w+|else"
    r"|elif)\b[^\n]*%\}\s*$|\{\{-?\s*cookiecutter\.",
    re.MULTILINE,
)
_NOTEBOOK_MARK = re.compile(r"^(# In\s?\[|# %%|%\w+ |!\w+ )", re.MULTILINE)


def is_exempt(change: Change) -> bool:
    """Tell whether ``change`` is to a file that is not held to its language's grammar.

    An existing file is judged by what it was before the edit: an edit cannot excuse itself by
    adding a mark. Template and notebook marks count only in new files, because they are common
    inside strings; an existing template could not be parsed before the edit and is let off so.
    """
    text = change.after if change.before is None else change.before
    if max(len(text), len(change.after)) > _TOO_BIG:
        return True
    if _is_template_path(change.path) or _is_generated(change.path, text):
        return True
    return change.before is None and bool(
        _TEMPLATE_MARK.search(text) or _NOTEBOOK_MARK.search(text) or _is_other_format(text)
    )


def _is_template_path(path: str) -> bool:
    return "{{" in path or "{%" in path


def _is_generated(path: str, text: str) -> bool:
    if _GENERATED_NAMES.search(path):
        return True
    lines = text.split("\n")
    if any(_GENERATED_MARK.search(line) for line in lines[:_HEAD_LINES]):
        return True
    is_script = PurePosixPath(path).suffix in (".js", ".mjs", ".cjs")
    return is_script and any(len(line) > _LONG_LINE for line in lines)


def _is_other_format(text: str) -> bool:
    """Qt's translations are XML files called ``.ts``."""
    return text.lstrip().startswith(("<?xml", "<!DOCTYPE TS"))
