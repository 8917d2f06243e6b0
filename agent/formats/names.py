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


def resolve_existing(name: str, known: Collection[str]) -> str:
    """Return the one known path that ``name`` can mean, for an edit of a file that is there.

    In this order: the path itself; the one that ends in it; what is left of it without its first
    folders, again exactly or as an ending; the one with its base name. Else ``name`` as it is.
    """
    found = resolve_likely(name, known)
    if found in known:
        return found
    return _only_ending(name.rsplit("/", 1)[-1], known) or name


def resolve_likely(name: str, known: Collection[str]) -> str:
    """Return the known path that ``name`` gives with folders missing or too many in front.

    For files written as a whole, which may be new: a base name alone decides nothing.
    """
    if name in known:
        return name
    parts = name.split("/")
    # The base name of a path with folders decides nothing: the file may be new.
    last = len(parts) if name.startswith("/") or len(parts) == 1 else len(parts) - 1
    tails = ["/".join(parts[first:]) for first in range(last)]
    for tail in (tail for tail in tails if tail):
        if found := tail if tail in known else _only_ending(tail, known):
            return found
    return name


def _only_ending(tail: str, known: Collection[str]) -> str | None:
    found = [path for path in known if path == tail or path.endswith("/" + tail)]
    return found[0] if len(found) == 1 else None
