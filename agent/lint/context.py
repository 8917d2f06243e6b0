"""Describe findings to the model: each in its lines, below the definitions around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from agent.lint.findings import Finding
from agent.lint.source import SourceText

_AROUND = 3
_HEADER_LINES = 4
_MOST_FINDINGS = 20
_MOST_CHARACTERS = 8_000
_LONGEST_LINE = 200


def describe(found: Sequence[Finding], texts: Mapping[str, str]) -> str:
    """Return ``found`` as a message: what is wrong, then the lines where it is.

    ``texts`` holds the text of each path. The message shows the lines around each finding, marked
    with ``>``, and the signatures of the definitions around it; ``…`` stands for other lines. It
    holds at most 20 findings and about 8,000 characters, and the number of findings left out.
    """
    parts: list[str] = []
    shown = 0
    for path, group in groupby(found[:_MOST_FINDINGS], key=lambda finding: finding.path):
        findings = list(group)
        part = _describe_file(findings, SourceText(path, texts[path]))
        room = _MOST_CHARACTERS - sum(map(len, parts))
        if len(part) > room:
            part = "\n".join(_headlines(findings))
        if parts and len(part) > room:
            break
        parts.append(part)
        shown += len(findings)
    if shown < len(found):
        parts.append(f"… and {len(found) - shown} more.")
    return "\n\n".join(parts)


def _headlines(findings: Sequence[Finding]) -> list[str]:
    return [
        f"{finding.path}:{finding.line}: {finding.problem}"[:_LONGEST_LINE] for finding in findings
    ]


def _describe_file(findings: Sequence[Finding], source: SourceText) -> str:
    marked = {finding.line for finding in findings}
    shown = sorted({number for line in marked for number in _shown(line, source)})
    rows = []
    last = 0
    for number in shown:
        if number > last + 1:
            rows.append("…")
        mark = ">" if number in marked else " "
        rows.append(f"{mark}{number:5d}  {source.lines[number - 1][:_LONGEST_LINE]}".rstrip())
        last = number
    if last < _last_line(source):
        rows.append("…")
    return "\n".join([*_headlines(findings), *rows])


def _shown(line: int, source: SourceText) -> set[int]:
    first, last = max(1, line - _AROUND), min(_last_line(source), line + _AROUND)
    headers = {number for header in source.headers(line) for number in header[:_HEADER_LINES]}
    return headers | set(range(first, last + 1))


def _last_line(source: SourceText) -> int:
    """Return the number of the last line; the empty text after the final line end is none."""
    return len(source.lines) - (source.lines[-1] == "")
