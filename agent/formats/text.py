"""Formats in the text of a reply: read the notation that was asked for, and the others."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from swe_retry.agent.formats.apply import EngineFormat
from swe_retry.agent.formats.edits import (
    Edit,
    Part,
    SearchReplace,
    Unreadable,
    WholeFile,
)
from swe_retry.agent.formats.matching.lines import (
    Lines,
    full_lines,
    numbers_where,
    with_ends,
)
from swe_retry.agent.formats.protocol import EditFormat, ReplyScope, Sample
from swe_retry.agent.formats.reading.answer import (
    answer_lines,
    answer_of,
    patches_in_json,
)
from swe_retry.agent.formats.reading.blocks import read_blocks
from swe_retry.agent.formats.reading.calls import calls_of
from swe_retry.agent.formats.reading.definitions import is_complete
from swe_retry.agent.formats.reading.fences import fence_of, shortest_fence
from swe_retry.agent.formats.reading.listings import (
    MAX_PARSED,
    read_listings,
    read_pairs,
)
from swe_retry.agent.formats.reading.unified import context_diff_paths, read_diffs
from swe_retry.agent.formats.reading.v4a import read_patches
from swe_retry.agent.grammars import has_errors, language_of
from swe_retry.llm.chat import Reply

# A key or tag such as `"file_path": "…"`, `<file name="…">`, and the path behind it.
_PATH_KEY = re.compile(
    r"[\"'<](?:\w{1,20}\s{1,3})?(?:path|file|file_?name|file_?path)[\"']?\s{0,3}[:=>]\s{0,3}"
    r"[\"']?([^\s\"'<>]{1,1500})",
    re.IGNORECASE,
)
_MARKS = "#*`: "
# The code after each of them is parsed.
_MAX_UNFENCED = 20
PartReader = Callable[[list[str], ReplyScope], Iterator[Part]]
# The other notations, with the signs that a reply in them has.
_READERS: tuple[tuple[PartReader, tuple[str, ...]], ...] = (
    (read_blocks, ("<<<", "-----")),
    (read_patches, ("***",)),
    (read_diffs, ("+++ ", "@@", "diff", "rename ")),
    (read_pairs, ("```", "~~~")),
)


class TextFormat(EngineFormat):
    """A format whose edits are in the text of the reply."""

    read: PartReader
    """Yields the edits in lines, and the lines before, between and after them as lists."""

    def parse(self, reply: Reply, scope: ReplyScope) -> Sequence[Edit]:
        lines = answer_lines(reply.content)
        parts = self.read(lines, scope)
        edits = edits_of(self, parts, scope)
        if edits:
            return edits
        lines = patches_in_json(answer_of(reply.content))
        patches = _split_parts(read_patches(lines, scope))[0]
        if patches:
            return patches
        calls = calls_of(reply)
        if not calls:
            return ()
        rules = format_rules(self, scope)
        problem = f"there is no function {calls[0].name}. {rules}"
        return (Unreadable("", problem),)


class PatchFormat(TextFormat):
    """Parse and apply V4A patches, with prose or a fence around them, or none."""

    name = "patch"
    read = staticmethod(read_patches)


class UnifiedDiffFormat(TextFormat):
    """Parse and apply unified diffs; places are found by lines, not by line numbers."""

    name = "udiff"
    read = staticmethod(read_diffs)


def edits_of(
    form: EditFormat, parts: Iterable[Part], scope: ReplyScope
) -> Sequence[Edit]:
    """Return the edits of ``parts``, and of their lists those in another notation.

    Those of a file that ``parts`` edit come last: they may be the same change, shown twice. A file
    in full is an edit where it is complete; else it is reported, unless it is a quotation.
    """
    own_parts = list(_without_fences_of_edits(parts))
    named = {edit.path for edit in _split_parts(own_parts)[0]}
    all_parts: list[Part] = []
    again: list[Edit] = []
    has_signs = False
    for part in own_parts:
        if not isinstance(part, list):
            all_parts.append(part)
            continue
        readers = _readers_for(part)
        has_signs = has_signs or readers not in ([], [read_pairs])
        for other in _read_others(part, scope, readers):
            if isinstance(other, list) or other.path not in named:
                all_parts.append(other)
                continue
            if isinstance(other, SearchReplace):
                other = replace(other, again=True)
            again.append(other)
    edits, rest = _split_parts(_without_fences_of_edits(all_parts))
    edits += again
    # Without signs of another notation, a format of whole files has read all fences.
    fences = [] if form.whole_files and not has_signs else rest
    problems = _files_in_full(form, fences, edits, scope)
    problems += _context_diff_problems(form, rest, scope)
    if not edits and not problems:
        for path in dict.fromkeys(_unfenced_paths(rest, scope)):
            problem = f"the change of {path} is not an edit in this format."
            rules = format_rules(form, scope, path)
            problems.append(Unreadable(path, f"{problem} {rules}"))
    return (*edits, *problems)


def _split_parts(parts: Iterable[Part]) -> tuple[list[Edit], list[list[str]]]:
    """Return the edits among ``parts``, and the lists of lines."""
    edits = []
    lists = []
    for part in parts:
        if isinstance(part, list):
            lists.append(part)
        else:
            edits.append(part)
    return edits, lists


def _readers_for(lines: Lines) -> list[PartReader]:
    text = "\n".join(lines)
    readers = []
    for reader, signs in _READERS:
        if any(sign in text for sign in signs):
            readers.append(reader)
    return readers


def _without_fences_of_edits(parts: Iterable[Part]) -> Iterator[Part]:
    """Yield ``parts`` without the fences that have edits inside, so that the others are pairs."""
    around = ""
    following = list(parts)
    for number, part in enumerate(following):
        if not isinstance(part, list):
            yield part
            continue
        lines = list(part)
        closing = _closing_line(lines, around) if around else None
        if closing is not None:
            del lines[closing]
            around = ""
        is_last = number + 1 == len(following)
        opening = None if is_last else _open_fence(lines)
        if opening:
            line, around = opening
            del lines[line]
        if lines:
            yield lines


def _closing_line(lines: Lines, marks: str) -> int | None:
    """Return the first fence, if it may close one of ``marks``."""
    for number, line in enumerate(lines):
        fence = fence_of(line)
        if fence:
            closes = fence[0].startswith(marks) and not fence[1]
            return number if closes else None
    return None


def _open_fence(lines: Lines) -> tuple[int, str] | None:
    """Return the line and the marks of the fence that is open at the end of ``lines``."""
    opening: tuple[int, str] | None = None
    for number, line in enumerate(lines):
        fence = fence_of(line)
        if not fence:
            continue
        if not opening:
            opening = (number, fence[0])
        elif not fence[1] and fence[0].startswith(opening[1]):
            opening = None
    return opening


def _files_in_full(
    form: EditFormat, parts: Sequence[list[str]], edits: list[Edit], scope: ReplyScope
) -> list[Edit]:
    """Return the shown files that stand complete in fences, and a problem for each other file.

    Beside edits a known file may be quoted.
    """
    contents: dict[str, list[str]] = {}
    results: list[Edit] = []
    for part in parts:
        for edit in read_listings(part, scope):
            # A list of names in a fence is not a file.
            if isinstance(edit, WholeFile) and " " in edit.content:
                contents.setdefault(edit.path, []).append(edit.content)
            elif isinstance(edit, Unreadable) and edit.path in scope.chat and not edits:
                results.append(edit)
    edited = {edit.path for edit in edits}
    quotable = edited.union(scope.files) if edits else edited
    rules = ""
    for path, texts in contents.items():
        before = scope.read(path) if path in scope.chat else None
        complete = [text for text in texts if is_complete(path, before, text)]
        if complete and path not in edited:
            results.append(WholeFile(path, complete[-1], likely=True))
            continue
        content = max(texts, key=len)
        rules = rules or format_rules(form, scope, path, content)
        problem = f"the file {path} in a fence is not an edit in this format. {rules}"
        quoted = content if path in quotable else ""
        results.append(Unreadable(path, problem, content=quoted))
    return results


def _context_diff_problems(
    form: EditFormat, parts: Sequence[Lines], scope: ReplyScope
) -> list[Edit]:
    paths = {}
    for lines in parts:
        paths.update(dict.fromkeys(context_diff_paths(lines)))
    rules = format_rules(form, scope, *list(paths)[:1]) if paths else ""
    problems: list[Edit] = []
    for path in paths:
        problem = f"the change of {path} is a context diff, which is not read. {rules}"
        problems.append(Unreadable(path, problem))
    return problems


def _unfenced_paths(parts: Sequence[Lines], scope: ReplyScope) -> Iterator[str]:
    """Yield known files that JSON or tags name, and those whose code follows without a fence."""
    parsed = 0
    for lines in parts:
        for line in lines:
            for path in _PATH_KEY.findall(line):
                if path in scope.files:
                    yield path
        numbers = numbers_where(lines, lambda line: line.strip(_MARKS) in scope.files)
        if len(numbers) > _MAX_UNFENCED:
            continue
        for number, end in pairwise([*numbers, len(lines)]):
            path = lines[number].strip(_MARKS)
            code = lines[number + 1 : end]
            if len(full_lines(code)) < 2 or not language_of(path):
                continue
            text = with_ends(code)
            parsed += len(text)
            if parsed <= MAX_PARSED and not has_errors(path, text):
                yield path


def _read_others(
    lines: list[str], scope: ReplyScope, readers: Sequence[PartReader]
) -> Iterator[Part]:
    if not readers:
        yield lines
        return
    for part in readers[0](lines, scope):
        if not isinstance(part, list):
            yield part
        elif part:
            yield from _read_others(part, scope, readers[1:])


def format_rules(
    form: EditFormat, scope: ReplyScope, path: str = "", failed: str = ""
) -> str:
    """Return the rules of ``form``, with an example of ``path`` or of the first shown file.

    ``failed`` are lines for it.
    """
    sample = Sample()
    for name in (path, *scope.chat):
        own_sample = Sample(name, scope.read(name) or "", failed)
        if own_sample.line:
            sample = own_sample
            break
    rules = form.instructions(shortest_fence([sample.text]), sample)
    return f"Write it in the format that was asked for:\n\n{rules}"
