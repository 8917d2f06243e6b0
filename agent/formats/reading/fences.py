"""Read fences of Markdown with the file names at them, and the markers of SEARCH/REPLACE blocks."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import lru_cache

from swe_retry.agent.formats.matching.lines import Lines, full_lines, numbers_where
from swe_retry.agent.formats.reading.names import clean_name, path_in_line

_FENCE = re.compile(r"^\s{0,3}(`{3,}|~{3,})(.*)$")
# Backticks at the start of any line, also in the middle of a longer text.
_BACKTICKS = re.compile(r"^[^\S\n]*(`{3,})", re.MULTILINE)
_TITLE = re.compile(
    r"(?:title|file|filename|path)\s*=\s*[\"']?([^\"'\s}]+)", re.IGNORECASE
)
_PREAMBLE = re.compile(
    r"\s*(?:continu|here(?:'s| is| are)|sure\b|sorry|apolog|certainly|of course|i |i'(?:ll|m)\b"
    r"|let me)",
    re.IGNORECASE,
)
_INFO_MARKS = re.compile(r"[:{}]")
_COMMENT_SIGN = re.compile(r"^(#|//|--|/\*|<!--)\s*")
# A word between backquotes or stars.
_QUOTED = re.compile(r"[`*]([^`*\s]{1,300})[`*]")
# What stands between the words of a sentence.
_SEPARATOR = re.compile(r"[\s()\[\]<>{}`*\"',;]+|[.:!?](?=\s|$)")


def fence_of(line: str) -> tuple[str, str] | None:
    """Return the run of marks and the info string of a fence line, None for any other line."""
    # Up to three spaces may stand before the marks.
    start = line[:6]
    if "```" in start or "~~~" in start:
        return _fence_of(line)
    return None


@lru_cache(maxsize=1024)
def _fence_of(line: str) -> tuple[str, str] | None:
    match = _FENCE.match(line)
    if not match:
        return None
    marks, info = match.groups()
    # Backticks behind backticks are code inside a line.
    if "`" in marks and "`" in info:
        return None
    return marks, info.strip()


def has_open_fence(lines: Lines) -> bool:
    fences = numbers_where(lines, fence_of)
    return len(fences) % 2 == 1


def shortest_fence(texts: Iterable[str]) -> str:
    """Return the shortest fence, three backticks or more, that no line of ``texts`` begins with."""
    longest = 2
    for text in texts:
        for run in _BACKTICKS.findall(text):
            longest = max(longest, len(run))
    return "`" * (longest + 1)


def path_in_info(info: str, files: Collection[str]) -> str | None:
    """Return the file that an info string names: ``python a.py``, ``python:a.py``, ``a.py``."""
    if not info:
        return None
    title = _TITLE.search(info)
    if title:
        return path_in_line(title[1], files)
    parts = _INFO_MARKS.sub(" ", info).split()
    for part in reversed(parts):
        # `{.python file=a.py}`: a word with a dot in braces is a language.
        if "{" in info and part.startswith("."):
            continue
        path = path_in_line(part, files)
        is_path = "." in part or "/" in part or path in files
        if path and is_path:
            return path
    return None


def path_above(lines: Lines, files: Collection[str]) -> str | None:
    """Return the file that the last line with text names; a fence follows it."""
    # A drawn line may stand between a name and its fence.
    for line in reversed(lines[-3:]):
        if line.strip(" -=_*"):
            return None if fence_of(line) else path_in_line(line, files)
    return None


def name_before(before: Lines, files: Collection[str]) -> str | None:
    """Return the file that the lines before an edit name alone: inside or above its fence."""
    full = full_lines(before)
    if not full:
        return None
    last = full.pop()
    fence = fence_of(last)
    if fence:
        return path_in_info(fence[1], files) or path_above(full, files)
    if full and fence_of(full[-1]):
        # Inside the fence a comment sign may stand before the name.
        name = _COMMENT_SIGN.sub("", last.strip())
        return path_in_line(name, files)
    return path_above([*full, last], files)


def file_for(
    before: Lines, files: Collection[str], previous: str | None, *, new: bool = False
) -> str | None:
    """Return the file of an edit: named before it, else ``previous``, that of the edit before.

    Words between two edits that name another file decide, or leave the file unknown. With ``new``
    they may name a file that is not known.
    """
    name = name_before(before, files)
    if name:
        return name
    paths = paths_in_prose(before, files)
    if new and not paths:
        for line in before:
            paths += quoted_paths(line)
    if not paths:
        return previous
    if len(paths) == 1:
        return paths[0]
    return None


def paths_in_prose(lines: Lines, files: Collection[str]) -> list[str]:
    """Return the known files that the words of ``lines`` name, in order."""
    paths: dict[str, None] = {}
    for line in lines:
        if fence_of(line):
            continue
        for word in _SEPARATOR.split(line):
            name = word if word.isalnum() else clean_name(word)
            if name in files:
                paths[name] = None
    return list(paths)


def quoted_paths(line: str) -> list[str]:
    """Return what ``line`` has in backquotes or in bold that looks like the path of a file."""
    if fence_of(line):
        return []
    paths: dict[str, None] = {}
    for name in _QUOTED.findall(line):
        path = path_in_line(name, ())
        if path:
            paths[path] = None
    return list(paths)


def is_prose(reply: str) -> bool:
    """Return whether ``reply`` begins with words about itself instead of continuing the text."""
    return bool(_PREAMBLE.match(reply))


DIFF_WORDS = ("diff", "udiff", "patch")
"""Words at fences around diffs."""
# UPDATED and ORIGINAL are the words of 2023; other tools draw the lines of - and +.
OPEN = re.compile(r"^\s{0,3}(<{3,}|-{5,}) ?(?:SEARCH|ORIGINAL)\b", re.IGNORECASE)
DIVIDER = re.compile(r"^\s{0,3}(={3,})\s*$")
CLOSE = re.compile(
    r"^\s{0,3}(>{3,}|\+{5,}|={5,}) ?(?:REPLACE|UPDATED|(?<==)END|(?<== )END)\b",
    re.IGNORECASE,
)
# Markers with other words or none, as git writes them into conflicts.
OTHER_OPEN = re.compile(r"^\s{0,3}(<{7,}) ?(?:[\w./:-]+(?: [\w./:-]+){0,3})?\s*$")
OTHER_CLOSE = re.compile(r"^\s{0,3}(>{5,}) ?(?:[\w./:()-]+(?: [\w./:()-]+){0,8})?\s*$")
GLUED_CLOSE = re.compile(
    r"^(.*[^\s>`'\"])\s*>{5,} ?(?:REPLACE|UPDATED)\s*$", re.IGNORECASE
)
GLUED_DIVIDER = re.compile(r"^(?:(.*[^\s=#])\s*={7}|={7}(?! )([^=\s].*))$")
USUAL_SIZE = 7
"""The length of a marker."""
MARKUP_SUFFIXES = (".md", ".rst", ".txt", ".markdown")
"""Ends of the names of texts, which may hold fences and rules."""
# Parts of all markers: most lines have none of them.
_MARKS = ("===", ">>>", "<<<", "-----", "+++++")
_HEADING = re.compile(r"^\s*\w[\w ,.'\"&/-]*$")
STRAY_MARKER = (
    "the edit of {} would write a marker of SEARCH/REPLACE blocks into the file. Write each "
    "marker once, alone on its line; around lines that are such markers use longer ones."
)


def marker_size(line: str) -> int:
    """Return the length of the marker that ``line`` is or ends in, 0 for any other line."""
    for marks in _MARKS:
        if marks in line:
            return _size_of_marker(line)
    return 0


@lru_cache(maxsize=1024)
def _size_of_marker(line: str) -> int:
    for marker in (OPEN, DIVIDER, CLOSE, OTHER_OPEN, OTHER_CLOSE):
        match = marker.match(line)
        if match:
            return len(match[1])
    return USUAL_SIZE if GLUED_CLOSE.match(line) else 0


def stray_markers(
    new: Lines, old: Iterable[str] = (), size: int = USUAL_SIZE
) -> set[int]:
    """Return the lines of ``new``, not in ``old``, that are markers of ``size`` or longer.

    A line of ``=`` is one if it has this size, unless it is as long as a heading next to it, or
    under a shorter one where ``old`` has a line of ``=`` as well.
    """
    markers = numbers_where(new, lambda line: marker_size(line) >= size)
    if not markers:
        return set()
    old_lines = set(map(str.strip, old))
    old_has_rule = any(map(DIVIDER.match, old_lines))
    strays = set()
    for number in markers:
        is_new = new[number].strip() not in old_lines
        if is_new and not _is_rule(new, number, size, old_has_rule):
            strays.add(number)
    return strays


def writes_markers(new: Lines, old: Iterable[str]) -> bool:
    """Return whether ``new`` has a marker with words, or one of git, that ``old`` has not."""
    lines = [line for line in new if not DIVIDER.match(line)]
    return bool(stray_markers(lines, old))


def _is_rule(lines: Lines, number: int, size: int, old_has_rule: bool) -> bool:
    rule = lines[number].rstrip()
    if not DIVIDER.match(rule):
        return False
    if len(rule.strip()) != size:
        return True
    above = lines[max(0, number - 1) : number]
    below = lines[number + 1 : number + 2]
    for line in (*above, *below):
        is_as_long = len(line.rstrip()) == len(rule)
        if is_as_long and _HEADING.match(line):
            return True
    if not old_has_rule or not above:
        return False
    title = above[0].rstrip()
    return len(title) < len(rule) and bool(_HEADING.match(title))
