"""Write the results of formats, which are pure, to files: safe paths only, all or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agent.formats.base import ApplyReport, Edit, EditResult, Fault, MoveFile, Unreadable
from agent.workspace import ForeignPathError, UnsafePathError, Workspace


def safe_edits(edits: Sequence[Edit], space: Workspace) -> list[Edit]:
    """Return ``edits`` with those of unsafe paths as ``Unreadable``."""
    return [_safe(edit, space) for edit in edits]


def _safe(edit: Edit, space: Workspace) -> Edit:
    if isinstance(edit, Unreadable):
        return edit
    try:
        for path in (edit.path, *([edit.to] if isinstance(edit, MoveFile) else [])):
            space.check(path)
    except ForeignPathError as error:
        return Unreadable(edit.path, str(error), Fault.FOREIGN)
    except UnsafePathError as error:
        return Unreadable(edit.path, str(error), Fault.UNSAFE)
    return edit


def write_report(report: ApplyReport, space: Workspace) -> ApplyReport:
    """Write the new contents; edits of a file that cannot be written fail."""
    written: dict[str, str | None] = {}
    refused: dict[str, str] = {}
    # A move writes the new file and removes the old one in one step.
    groups = [(to, old) for to, old in report.moved.items()]
    single = [(path,) for path in report.contents if not any(path in group for group in groups)]
    for paths in (*groups, *single):
        part = {path: report.contents[path] for path in paths if path in report.contents}
        try:
            space.write(part, report.moved)
            written.update(part)
        except UnsafePathError as error:
            refused.update(dict.fromkeys(paths, str(error)))
    results = tuple(_after_writing(result, refused) for result in report.results)
    return replace(report, contents=written, results=results)


def _after_writing(result: EditResult, refused: dict[str, str]) -> EditResult:
    if result.landed_in not in refused:
        return result
    return EditResult(result.path, applied=False, problem=refused[result.landed_in])
