"""Find the lines of a SEARCH block and replace them, in the steps of the reference agent.

The steps are those of the May 2024 run on SWE-bench Lite (see docs/edit-formats.md): exact lines,
a uniform difference in leading white space, both again without a leading blank line, then ``...``
elisions; the first place wins where several match. Lines end at ``\\n`` only, so that form feeds
and the like inside a line survive.
"""

from __future__ import annotations

from agent.formats.matching.lines import starts_of

# The search for each piece between dots reads the whole file.
_MOST_PIECES = 100


def split_lines(text: str) -> list[str]:
    """Split into lines that all end in ``\\n``; a missing final newline is added."""
    if not text:
        return []
    if not text.endswith("\n"):
        text += "\n"
    return [line + "\n" for line in text[:-1].split("\n")]


def replace_in_text(text: str, search: str, replace: str) -> str | None:
    """Return ``text`` with the first match of ``search`` replaced, or None without a match.

    The final newline, or its absence, stays as it was.
    """
    whole, part, new = split_lines(text), split_lines(search), split_lines(replace)
    result = _by_lines(whole, part, new)
    if result is None and len(part) > 2 and not part[0].strip():
        result = _by_lines(whole, part[1:], new)
    if result is None:
        result = _by_elision("".join(whole), "".join(part), "".join(new))
    if result is None:
        return None
    return keep_final_newline(text, result)


def keep_final_newline(text: str, result: str) -> str:
    """Return ``result`` without its final newline where ``text`` has none."""
    if text and not text.endswith("\n"):
        return result.removesuffix("\n")
    return result


def _by_lines(whole: list[str], part: list[str], new: list[str]) -> str | None:
    exact = next(starts_of(whole, part), None) if part else 0
    if exact is not None:
        return "".join([*whole[:exact], *new, *whole[exact + len(part) :]])
    return _by_indentation(whole, part, new)


def _by_indentation(whole: list[str], part: list[str], new: list[str]) -> str | None:
    widths = [len(line) - len(line.lstrip()) for line in [*part, *new] if line.strip()]
    width = min(widths, default=0)

    def cut(lines: list[str]) -> list[str]:
        return [line[width:] if line.strip() else line for line in lines]

    part, new = cut(part), cut(new)
    stripped = [line.lstrip() for line in part]
    for start in starts_of([line.lstrip() for line in whole], stripped):
        pairs = zip(whole[start : start + len(part)], part, strict=True)
        indents = {have[: len(have) - len(want)] for have, want in pairs if have.strip()}
        indent = indents.pop() if len(indents) == 1 else None
        if indent is not None:
            indented = [indent + line if line.strip() else line for line in new]
            return "".join([*whole[:start], *indented, *whole[start + len(part) :]])
    return None


def _by_elision(whole: str, part: str, new: str) -> str | None:
    """Match the pieces between ``...`` lines one by one; each must occur exactly once."""
    parts, news = _split_at_dots(part), _split_at_dots(new)
    if (
        len(parts) == 1
        or len(parts) > 2 * _MOST_PIECES
        or len(parts) != len(news)
        or parts[1::2] != news[1::2]
    ):
        return None
    for old_piece, new_piece in zip(parts[::2], news[::2], strict=True):
        if not old_piece:
            whole += new_piece
        elif whole.count(old_piece) != 1:
            return None
        else:
            whole = whole.replace(old_piece, new_piece, 1)
    return whole


def _split_at_dots(text: str) -> list[str]:
    pieces: list[list[str]] = [[]]
    blanks: list[str] = []
    for line in split_lines(text):
        if not line.strip():
            blanks.append(line)
            continue
        if line.lstrip() == "...\n":
            pieces += [[*blanks, line], []]
        else:
            pieces[-1] += [*blanks, line]
        blanks = []
    return ["".join(piece) for piece in [*pieces[:-1], pieces[-1] + blanks]]
