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
from dataclasses import dataclass

_TOKEN = re.compile(r"[\w.@+~/\\:#?&%-]+")
_LIKE_A_FILE = re.compile(r"[._-]")
# The host of an address or the letter of a Windows drive.
_ORIGIN = re.compile(r"^(?:\w+://[^/]*/|[A-Za-z]:/)")
_TRAIL, _LEAD = ",.!;:)]}>'\"`*", "([{<'\"`*"
_ROOTED = re.compile(r"(?:^[ab]|/(?:blob|raw|tree)/[^/]+)/([^:#?]+)")
_BEHIND = re.compile(r"[:#?]")
_DOTTED = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)+")
_MODULE_ENDINGS = (".py", "/__init__.py", ".java")
_NAMES_IN_A_MODULE = 2
# Longer than any path with an address before it.
_LONGEST_TOKEN = 1_500


@dataclass(frozen=True)
class FileIndex:
    """The tracked files, ready for look-ups.

    Attributes:
        by_end: ends of paths, from the base name up to all but the first folder; None for an end
            that several files share.
    """

    paths: frozenset[str]
    by_end: dict[str, str | None]

    @classmethod
    def of(cls, paths: Iterable[str]) -> FileIndex:
        paths = frozenset(paths)
        by_end: dict[str, str | None] = {}
        for path in paths:
            for end in _ends(path):
                by_end[end] = None if end in by_end else path
        return cls(paths, by_end)

    def mentioned(self, text: str) -> tuple[str, ...]:
        """Return the tracked files that ``text`` names, in the order of their first mention."""
        found: dict[str, None] = {}
        for token in dict.fromkeys(_TOKEN.findall(text)):
            path = self._named(token) if len(token) <= _LONGEST_TOKEN else None
            if path is not None:
                found[path] = None
        return tuple(found)

    def plainly_mentioned(self, text: str) -> tuple[str, ...]:
        """Return the files that single words of ``text`` name, as the recorded runs saw them.

        Only paths and unique base names count, with marks around them and a line number behind.
        """
        found: dict[str, None] = {}
        for word in text.split():
            bare = word.rstrip(_TRAIL).lstrip(_LEAD)
            number_off = bare.split(":", 1)[0].rstrip(_TRAIL)
            for form in (bare, number_off, number_off.removeprefix("./")):
                known = form in self.paths or "/" not in form
                path = self._by_path(form) if known else None
                if path is not None:
                    found[path] = None
                    break
        return tuple(found)

    def _named(self, token: str) -> str | None:
        for form in _forms(token):
            path = self._by_path(form)
            if path is not None:
                return path
            if _DOTTED.fullmatch(form):
                return self._by_module(form)
        # A file in the root folder has no folder name; only these marks show that it is meant.
        rooted = _ROOTED.search(token)
        return rooted[1] if rooted and rooted[1] in self.paths else None

    def _by_path(self, form: str) -> str | None:
        if form in self.paths:
            return form
        if "/" not in form:
            return self.by_end.get(form) if _LIKE_A_FILE.search(form) else None
        # A base name alone does not count where the text gives other folders.
        for end in (form, *_ends(form)):
            if "/" in end and (end in self.paths or end in self.by_end):
                return end if end in self.paths else self.by_end[end]
        return None

    def _by_module(self, dotted: str) -> str | None:
        names = dotted.split(".")
        for length in range(
            len(names), max(1, len(names) - _NAMES_IN_A_MODULE - 1), -1
        ):
            stem = "/".join(names[:length])
            for ending in _MODULE_ENDINGS:
                path = self._by_path(stem + ending)
                if path is not None:
                    return path
        return None


def _ends(path: str) -> Iterator[str]:
    at = path.find("/")
    while at >= 0:
        yield path[at + 1 :]
        at = path.find("/", at + 1)


def _forms(token: str) -> Iterator[str]:
    bare = (
        token.strip(".:?&%~").rstrip("-+/\\")
        if token[:1] != "."
        else token.rstrip(".:?&%-+/")
    )
    yield bare
    path = _ORIGIN.sub("", bare.replace("\\", "/"))
    path = _BEHIND.split(path, maxsplit=1)[0].rstrip(".")
    while path.startswith(("./", "../", "/")):
        path = path.partition("/")[2]
    yield path
    yield bare.partition("\\")[0]
