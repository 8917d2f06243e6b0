"""File names as models write them: decorated, prefixed, or hidden in prose."""

from __future__ import annotations

import re
from collections.abc import Collection

_LABEL = re.compile(r"^(?:file(?:name| path)?|path)\s*:\s*", re.IGNORECASE)
_REMARK = re.compile(r"\s*\((?:new|new file|modified|updated|created)\)$", re.IGNORECASE)
_LIST_MARK = re.compile(r"^(?:[-+]|\d+[.)])\s+")
_PATH = re.compile(r"^[^\s:*?\"<>|`]*[^\s:*?\"<>|`./\\][^\s:*?\"<>|`]*$")
# What tells the new file `util.py` from the expression `numpy.array`.
_EXTENSION = re.compile(
    r"\w\.(?:pyi?|py[xd]|ipynb|[ch](?:pp|xx|c)?|cc|java|kt|go|rs|rb|php|[jt]sx?|[cm]js|vue|sh|bat|sql|"
    r"html?|css|s[ac]ss|xml|svg|md|rst|txt|csv|json|ya?ml|toml|cfg|conf|ini|in|lock|pot?|tex|j2)$"
)
_DOTFILE = re.compile(r"^\.[A-Za-z][\w.-]*$")
# Files without an extension that a model may well create or edit.
_BARE = frozenset(
    {"Makefile", "Dockerfile", "Pipfile", "Gemfile", "Rakefile", "LICENSE", "COPYING", "NOTICE"}
    | {"README", "CHANGES", "CHANGELOG", "HISTORY", "NEWS", "AUTHORS", "MANIFEST", "VERSION"}
)


def clean_name(line: str) -> str:
    """Strip what models put around a file name: Markdown marks, labels, remarks, quotes.

    Example: ``### File: `src\\_a.py` (new file):`` becomes ``src_a.py``.
    """
    name = line.strip().rstrip(":").strip()
    name = _LIST_MARK.sub("", name.lstrip("#").strip())
    name = name.strip("*").strip().rstrip(":")
    name = _REMARK.sub("", _LABEL.sub("", name))
    name = name.strip("*`'\" ").rstrip(":").replace("\\_", "_").replace("\\", "/")
    return name.removeprefix("./")


def path_in_line(line: str, known: Collection[str]) -> str | None:
    """Return the path that ``line`` gives as the name of a file, or None when it is prose.

    A line is a name when it is a tracked path, or when it is one word that looks like a path:
    with an extension or a folder, or one of the usual bare names.
    """
    name = clean_name(line)
    if name in known:
        return name
    if not name or not _PATH.match(name) or line.strip().startswith(("<<<<", "====", ">>>>")):
        return None
    last = name.rsplit("/", 1)[-1]
    known_kind = _EXTENSION.search(last) or _DOTFILE.match(last) or last in _BARE
    looks_like_path = "/" in name or known_kind
    return name if looks_like_path else None
