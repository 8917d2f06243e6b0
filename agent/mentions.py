"""Find the tracked files that a text names, by looking each of its words up in hash tables.

A file is named by its path, by a unique end of its path, by its base name where that is unique,
and as a dotted module with at most two names behind it. The name may stand within quotes,
brackets, ``./``, line numbers, ``::test_name``, the folders of another machine, or the address of
a web page. A name that fits several files names none, nor does a plain word without a dot, a dash
or an underscore.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_TOKEN = re.compile(r"[\w.@+~/\\:#?&%-]+")
_LIKE_A_FILE = re.compile(r"[._-]")
# The host of an address or the letter of a Windows drive.
_ORIGIN = re.compile(r"^(?:\w+://[^/]*/|[A-Za-z]:/)")
# Marks behind and before a word.
_TRAIL = ",.!;:)]}>'\"`*"
_LEAD = "([{<'\"`*"
# A path from the root: in a diff (a/…, b/…), or behind the revision in an address of a forge.
_ROOTED = re.compile(r"(?:^[ab]|/(?:blob|raw|tree)/[^/]+)/([^:#?]+)")
_BEHIND = re.compile(r"[:#?]")
_DOTTED = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)+")
_MODULE_ENDINGS = (".py", "/__init__.py", ".java")
_NAMES_IN_A_MODULE = 2
# Longer than any path with an address before it.
_MAX_TOKEN = 1_500


class FileIndex:
    """The tracked files, ready for look-ups.

    Attributes:
        by_end: ends of paths, from the base name up to all but the first folder; None for an end
            that several files share.
        submodules: folders of other repositories; the checkout holds none of their files.
    """

    def __init__(self, paths: Iterable[str], submodules: Iterable[str] = ()) -> None:
        self.paths = frozenset(paths)
        self.submodules = frozenset(submodules)
        self.by_end: dict[str, str | None] = {}
        for path in self.paths:
            for end in _ends(path):
                self.by_end[end] = None if end in self.by_end else path

    def mentioned_files(self, text: str) -> tuple[str, ...]:
        """Return the tracked files that ``text`` names, in the order of their first mention."""
        paths = map(self._path_in_token, dict.fromkeys(_TOKEN.findall(text)))
        return tuple(dict.fromkeys(filter(None, paths)))

    def plainly_mentioned_files(self, text: str) -> tuple[str, ...]:
        """Return the files that single words of ``text`` name, as the recorded runs saw them.

        Only paths and unique base names count, with marks around them and a line number behind.
        """
        mentions: dict[str, None] = {}
        for word in text.split():
            bare = word.rstrip(_TRAIL).lstrip(_LEAD)
            number_off = bare.split(":", 1)[0].rstrip(_TRAIL)
            for form in (bare, number_off, number_off.removeprefix("./")):
                if form not in self.paths and "/" in form:
                    continue
                path = self._by_path(form)
                if path:
                    mentions[path] = None
                    break
        return tuple(mentions)

    def _path_in_token(self, token: str) -> str | None:
        if len(token) > _MAX_TOKEN:
            return None
        for form in _forms(token):
            path = self._by_path(form)
            if path:
                return path
            if _DOTTED.fullmatch(form):
                return self._by_module(form)
        # A file in the root folder has no folder name; only these marks show that it is meant.
        rooted = _ROOTED.search(token)
        if rooted and rooted[1] in self.paths:
            return rooted[1]
        return None

    def _by_path(self, form: str) -> str | None:
        if form in self.paths:
            return form
        if "/" not in form:
            if _LIKE_A_FILE.search(form):
                return self.by_end.get(form)
            return None
        for end in (form, *_ends(form)):
            if "/" not in end:
                # A base name alone does not count where the text gives other folders.
                return None
            if end in self.paths:
                return end
            if end in self.by_end:
                return self.by_end[end]
        return None

    def _by_module(self, dotted: str) -> str | None:
        names = dotted.split(".")
        shortest = max(1, len(names) - _NAMES_IN_A_MODULE - 1)
        for length in range(len(names), shortest, -1):
            stem = "/".join(names[:length])
            for ending in _MODULE_ENDINGS:
                path = self._by_path(stem + ending)
                if path:
                    return path
        return None


def _ends(path: str) -> Iterator[str]:
    position = path.find("/")
    while position >= 0:
        yield path[position + 1 :]
        position = path.find("/", position + 1)


def _forms(token: str) -> Iterator[str]:
    bare = token.rstrip(".:?&%-+/")
    if token[:1] != ".":
        bare = token.strip(".:?&%~").rstrip("-+/\\")
    yield bare
    path = _ORIGIN.sub("", bare.replace("\\", "/"))
    path = _BEHIND.split(path, maxsplit=1)[0].rstrip(".")
    while path.startswith(("./", "../", "/")):
        path = path.partition("/")[2]
    yield path
    yield bare.partition("\\")[0]
