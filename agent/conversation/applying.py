"""Apply the edits of one reply to the workspace, and count them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from agent.conversation.outcomes import ReplyCounts
from agent.conversation.showing import ShownFiles
from agent.formats.base import (
    ApplyReport,
    Edit,
    EditFormat,
    Fault,
    OnFailure,
    SearchReplace,
    after_failures,
)
from agent.formats.safe import safe_edits, write_report


def apply_reply(
    edits: Sequence[Edit],
    edit_format: EditFormat,
    shown: ShownFiles,
    existing: Collection[str],
    on_failure: OnFailure,
) -> tuple[ApplyReport, ReplyCounts]:
    """Apply ``edits``, write the files, and count.

    The edited files are added to ``shown``, and those of ``existing`` whose edits failed.
    """
    space = shown.workspace
    whole = sum(_looks_for_all(edit, space.read(edit.path)) for edit in edits)
    applied = edit_format.apply(safe_edits(edits, space), space.read, tuple(shown.paths))
    report = write_report(after_failures(applied, on_failure), space)
    named = [path for result in report.results for path in (result.path, result.landed_in)]
    shown.add(path for path in named if path in existing or path in report.contents)
    return report, _counted(report, whole)


def _looks_for_all(edit: Edit, text: str | None) -> bool:
    if not isinstance(edit, SearchReplace) or not text or not text.strip():
        return False
    searches = (edit.search, *(search for search, _ in edit.readings))
    return text.strip() in {search.strip() for search in searches}


def _counted(report: ApplyReport, whole_files: int) -> ReplyCounts:
    faults = Counter(result.fault for result in report.results)
    return ReplyCounts(
        edits=len(report.results),
        failed=len(report.failed),
        unreadable=faults[Fault.UNREADABLE],
        unsafe=faults[Fault.UNSAFE],
        foreign=faults[Fault.FOREIGN],
        ambiguous=faults[Fault.AMBIGUOUS],
        whole_file_blocks=whole_files,
    )
