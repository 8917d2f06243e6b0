"""Findings as a message for the model: each in its lines, under the definitions around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from agent.lint.findings import Finding
from agent.lint.source import Source

_AROUND = 3
_HEADER_LINES = 4
_MOST_FINDINGS = 20
_MOST_CHARACTERS = 8_000
_LONGEST_LINE = 200


def describe(found: Sequence[Finding], texts: Mapping[str, str]) -> str:
    """Return ``found`` as a message: what is wrong, then the lines where it is.

    ``texts`` holds the text of each path. Shown are the lines around each finding, marked with
    ``>``, and the signatures of the definitions that it lies in; ``…`` stands for lines between.
    At most 20 findings and about 8,000 characters; how many are left out is said.
    """
    parts: list[str] = []
    told = 0
    for path, group in groupby(found[:_MOST_FINDINGS], key=lambda finding: finding.path):
        findings = list(group)
        part = _describe_file(findings, Source(path, texts[path]))
        room = _MOST_CHARACTERS - sum(map(len, parts))
        if len(part) > room:
            part = "\n".join(_headlines(findings))
        if parts and len(part) > room:
            break
        parts.append(part)
        told += len(findings)
    if told < len(found):
        parts.append(f"… and {len(found) - told} more.")
    return "\n\n".join(parts)


def _headlines(findings: Sequence[Finding]) -> list[str]:
    return [
        f"{finding.path}:{finding.line}: {finding.problem}"[:_LONGEST_LINE] for finding in findings
    ]


def _describe_file(findings: Sequence[Finding], source: Source) -> str:
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


def _shown(line: int, source: Source) -> set[int]:
    """Return the numbers of the lines to show for a finding in ``line``."""
    first, last = max(1, line - _AROUND), min(_last_line(source), line + _AROUND)
    headers = {number for header in source.headers(line) for number in header[:_HEADER_LINES]}
    return headers | set(range(first, last + 1))


def _last_line(source: Source) -> int:
    """Return the last line's number; what follows the final line end is no line."""
    return len(source.lines) - (source.lines[-1] == "")
