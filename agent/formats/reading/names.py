"""Read file names as models write them: decorated, prefixed, or in prose."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache

from swe_retry.agent.formats.protocol import ReplyScope

# `File:`, `New file path 2:`.
_LABEL = re.compile(
    r"^(?:[a-z]+ )?(?:file(?:name| path)?|path)(?:\s*\d+)?\s*:\s*", re.IGNORECASE
)
# `[name](address)`.
_LINK = re.compile(r"^\[([^\]]+)\]\([^)]*\)$")
_COMMENT = re.compile(r"^(?://|--|;|/\*|<!--)\s*")
# `(new file)`; `:12-14`, `#L12-L14`; `, lines 12 to 14`.
_REMARK = re.compile(
    r"\s\([^()]{0,100}\)$|(?<=\w)(?::\d{1,9}(?:[-:,]\d{1,9})*|#L\d{1,9}(?:-L?\d{1,9})?)$"
    r"|,? lines? \d{1,9}(?: ?(?:-|–|to) ?\d{1,9})?$",
    re.IGNORECASE,
)
_LIST_MARK = re.compile(r"^(?:[-+]|\d+[.)])\s+")
# In Markdown `\_` is an underscore; `\__init__` is a folder and a file.
_ESCAPED_UNDERSCORE = re.compile(r"\\_(?!_)")
_PATH = re.compile(r"(?=[./\\]*[^./\\])[^\s:*?\"<>|`]+")
# First "folders" of paths as examples, diffs and containers write them; "" is an absolute path's.
_BOGUS_FOLDERS = frozenset(
    {"", "path", "repo", "repository", "testbed", "workspace", "a", "b"}
)
# Distinguishes the new file `util.py` from the expression `numpy.array`.
_EXTENSION = re.compile(
    r"\w\.(?:pyi?|py[xd]|ipynb|[ch](?:pp|xx|c)?|cc|java|kt|go|rs|rb|php|[jt]sx?|[cm]js|vue|sh|bat|sql|"
    r"html?|css|s[ac]ss|xml|svg|md|rst|txt|csv|json|ya?ml|toml|cfg|conf|ini|in|lock|pot?|tex|j2)$"
)
_DOTFILE = re.compile(r"^\.[A-Za-z][\w.-]*$")
# Longer than any path of a system, with the marks that models put around it.
_MAX_LENGTH = 1_500
# No repository nests deeper.
_MAX_FOLDERS = 40
# Files without an extension that a model may well create or edit.
_BARE_NAMES = frozenset(
    {
        "Makefile",
        "Dockerfile",
        "Pipfile",
        "Gemfile",
        "Rakefile",
        "LICENSE",
        "COPYING",
        "NOTICE",
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
    if len(line) > _MAX_LENGTH:
        return line
    name = line.strip().rstrip(":").strip()
    name = name.lstrip("#").strip()
    name = _LIST_MARK.sub("", name)
    name = _COMMENT.sub("", name)
    name = name.strip("*").strip().rstrip(":")
    name = _LABEL.sub("", name)
    name = _REMARK.sub("", name).rstrip()
    name = name.strip(",*`'\" ").rstrip(":")
    name = _LINK.sub(r"\1", name)
    name = _REMARK.sub("", name)
    name = _ESCAPED_UNDERSCORE.sub("_", name)
    return name.replace("\\", "/").removeprefix("./")


def path_in_line(line: str, files: Collection[str]) -> str | None:
    """Return the path that ``line`` gives as the name of a file, or None when it is prose.

    A line is a name when it is a tracked path, or when it is one word that looks like a path:
    with an extension or a folder, or one of the usual bare names.
    """
    if len(line) > _MAX_LENGTH:
        return None
    name = clean_name(line)
    if name in files:
        return name
    if "\\" in line:
        reading = clean_name(line.replace("\\", "/"))
        if reading in files:
            return reading
    is_rule = line.lstrip().startswith("====")
    if is_rule or not _looks_like_path(name):
        return None
    return name


@lru_cache(maxsize=1024)
def _looks_like_path(name: str) -> bool:
    if not _PATH.fullmatch(name):
        return False
    if "/" in name or name in _BARE_NAMES:
        return True
    return bool(_EXTENSION.search(name) or _DOTFILE.match(name))


def resolve_existing(name: str, scope: ReplyScope) -> str:
    """Return the only known path that ``name`` can mean, for an edit of an existing file.

    In this order: the equal path; the path that ends in ``name``; both for ``name`` without its
    first folders; the path with the same base name. Without any, returns ``name``.
    """
    base = name.rsplit("/", 1)[-1]
    same_base = scope.by_name.get(base, ())
    for tail in _tails(name):
        if tail in scope.files:
            return tail
        matches = [path for path in same_base if f"/{path}".endswith(f"/{tail}")]
        if len(matches) == 1:
            return matches[0]
    return name


def _tails(name: str) -> Iterator[str]:
    """Yield ``name``, then ``name`` without its first folders, the longest first."""
    if name.count("/") < _MAX_FOLDERS:
        while name:
            yield name
            name = name.partition("/")[2]


def resolve_likely(name: str, scope: ReplyScope) -> str:
    """Return the path that ``name`` means for a whole file, which may be new.

    The end of a path means a file that the model was shown; else see ``without_bogus_folders``.
    """
    if name in scope.files:
        return name
    matches = [path for path in scope.chat if path.endswith(f"/{name}")]
    if len(matches) == 1:
        return matches[0]
    return without_bogus_folders(name, scope)


def without_bogus_folders(name: str, scope: ReplyScope) -> str:
    """Return ``name`` without first folders that are not the repository's, if the rest is known.

    Those are the folders of an absolute path, and names for the repository in examples and diffs.
    Any other folder may be new: ``tests/utils/a.py`` is not ``utils/a.py``.
    """
    first_folder = name.split("/", 1)[0]
    if first_folder in _BOGUS_FOLDERS:
        for tail in _tails(name):
            if tail in scope.files:
                return tail
    return name
