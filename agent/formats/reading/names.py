"""Read file names as models write them: decorated, prefixed, or in prose."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache

from agent.formats.base import ReplyScope

_LABEL = re.compile(
    r"^(?:[a-z]+ )?(?:file(?:name| path)?|path)(?:\s*\d+)?\s*:\s*", re.IGNORECASE
)
_LINK = re.compile(r"^\[([^\]]+)\]\([^)]*\)$")
_COMMENT = re.compile(r"^(?://|--|;|/\*|<!--)\s*")
_REMARK = re.compile(
    r"\s\([^()]{0,100}\)$|(?<=\w)(?::\d{1,9}(?:[-:,]\d{1,9})*|#L\d{1,9}(?:-L?\d{1,9})?)$"
    r"|,? lines? \d{1,9}(?: ?(?:-|–|to) ?\d{1,9})?$",
    re.IGNORECASE,
)
_LIST_MARK = re.compile(r"^(?:[-+]|\d+[.)])\s+")
_PATH = re.compile(r"(?=[./\\]*[^./\\])[^\s:*?\"<>|`]+")
# First "folders" of paths as examples, diffs and containers write them; "" is an absolute path's.
_NO_FOLDERS = frozenset(
    {"", "path", "repo", "repository", "testbed", "workspace", "a", "b"}
)
# Distinguishes the new file `util.py` from the expression `numpy.array`.
_EXTENSION = re.compile(
    r"\w\.(?:pyi?|py[xd]|ipynb|[ch](?:pp|xx|c)?|cc|java|kt|go|rs|rb|php|[jt]sx?|[cm]js|vue|sh|bat|sql|"
    r"html?|css|s[ac]ss|xml|svg|md|rst|txt|csv|json|ya?ml|toml|cfg|conf|ini|in|lock|pot?|tex|j2)$"
)
_DOTFILE = re.compile(r"^\.[A-Za-z][\w.-]*$")
# Longer than any path of a system, with the marks that models put around it.
_LONGEST = 1_500
# No repository nests deeper.
_MOST_FOLDERS = 40
# Files without an extension that a model may well create or edit.
_BARE = frozenset(
    {
        "Makefile",
        "Dockerfile",
        "Pipfile",
        "Gemfile",
        "Rakefile",
        "LICENSE",
        "COPYING",
        "NOTICE",
    }
    | {
        "README",
        "CHANGES",
        "CHANGELOG",
        "HISTORY",
        "NEWS",
        "AUTHORS",
        "MANIFEST",
        "VERSION",
    }
)


@lru_cache(maxsize=1024)
def clean_name(line: str) -> str:
    """Remove the marks around a file name: Markdown, labels, remarks, quotes.

    Example: ``### File: `src\\_a.py` (new file):`` becomes ``src_a.py``. A name that is too long
    for a path stays as it is.
    """
    if len(line) > _LONGEST:
        return line
    name = line.strip().rstrip(":").strip()
    name = _COMMENT.sub("", _LIST_MARK.sub("", name.lstrip("#").strip()))
    name = name.strip("*").strip().rstrip(":")
    name = _REMARK.sub("", _LABEL.sub("", name)).rstrip()
    name = _LINK.sub(r"\1", name.strip(",*`'\" ").rstrip(":"))
    name = _REMARK.sub("", name)
    # In Markdown `\_` is an underscore; `\__init__` is a folder and a file.
    name = re.sub(r"\\_(?!_)", "_", name).replace("\\", "/")
    return name.removeprefix("./")


def path_in_line(line: str, known: Collection[str]) -> str | None:
    """Return the path that ``line`` gives as the name of a file, or None when it is prose.

    A line is a name when it is a tracked path, or when it is one word that looks like a path:
    with an extension or a folder, or one of the usual bare names.
    """
    if len(line) > _LONGEST:
        return None
    name = clean_name(line)
    if name in known:
        return name
    if "\\" in line and (reading := clean_name(line.replace("\\", "/"))) in known:
        return reading
    return (
        name
        if not line.lstrip().startswith("====") and _looks_like_path(name)
        else None
    )


@lru_cache(maxsize=1024)
def _looks_like_path(name: str) -> bool:
    last = name.rsplit("/", 1)[-1]
    usual = (
        last != name or _EXTENSION.search(last) or _DOTFILE.match(last) or last in _BARE
    )
    return bool(usual and _PATH.fullmatch(name))


def resolve_existing(name: str, scope: ReplyScope) -> str:
    """Return the only known path that ``name`` can mean, for an edit of an existing file.

    In this order: the equal path; the path that ends in ``name``; both for ``name`` without its
    first folders; the path with the same base name. Without any, returns ``name``.
    """
    parts = name.split("/")
    if len(parts) > _MOST_FOLDERS:
        return name
    for tail in ("/".join(parts[first:]) for first in range(len(parts))):
        if tail and tail in scope.known:
            return tail
        same = scope.by_name.get(tail.rsplit("/", 1)[-1], ()) if tail else ()
        found = [path for path in same if path == tail or path.endswith("/" + tail)]
        if len(found) == 1:
            return found[0]
    return name


def resolve_likely(name: str, scope: ReplyScope) -> str:
    """Return the path that ``name`` means for a whole file, which may be new.

    The end of a path means a file that the model was shown; else see ``without_bogus_folders``.
    """
    if name in scope.known:
        return name
    shown = [path for path in scope.chat if path.endswith("/" + name)]
    return shown[0] if len(shown) == 1 else without_bogus_folders(name, scope)


def without_bogus_folders(name: str, scope: ReplyScope) -> str:
    """Return ``name`` without first folders that are not the repository's, if the rest is known.

    Those are the folders of an absolute path, and names for the repository in examples and diffs.
    Any other folder may be new: ``tests/utils/a.py`` is not ``utils/a.py``.
    """
    parts = name.split("/")
    if name in scope.known or parts[0] not in _NO_FOLDERS or len(parts) > _MOST_FOLDERS:
        return name
    tails = ("/".join(parts[first:]) for first in range(1, len(parts)))
    return next((tail for tail in tails if tail in scope.known), name)
