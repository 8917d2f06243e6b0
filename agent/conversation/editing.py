"""Apply the edits of one reply, and count what it did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from functools import cache

from swe_retry.agent.conversation.context import ShownFiles
from swe_retry.agent.conversation.result import ReplyCounts
from swe_retry.agent.formats.apply import MAX_EDITS, safe_edits, write_report
from swe_retry.agent.formats.edits import Edit, Fault, SearchReplace, quoted_texts
from swe_retry.agent.formats.protocol import EditFormat
from swe_retry.agent.formats.report import ApplyReport, OnFailure, after_failures


def apply_reply(
    edits: Sequence[Edit],
    edit_format: EditFormat,
    shown_files: ShownFiles,
    existing: Collection[str],
    on_failure: OnFailure,
) -> tuple[ApplyReport, ReplyCounts]:
    """Apply ``edits``, write the files, and count.

    The edited files are added to ``shown_files``, and those of ``existing`` whose edits failed.
    """
    workspace = shown_files.workspace
    whole_file_blocks = 0

    @cache
    def bare_text(path: str) -> str:
        return (workspace.read(path) or "").strip()

    for edit in edits[:MAX_EDITS]:
        if isinstance(edit, SearchReplace) and bare_text(edit.path):
            searches = map(str.strip, quoted_texts(edit))
            whole_file_blocks += bare_text(edit.path) in searches
    safe = safe_edits(edits, workspace)
    applied = edit_format.apply(safe, workspace.read, tuple(shown_files.paths))
    checked = shown_files.refuse_unseen(applied, safe[:MAX_EDITS])
    report = write_report(after_failures(checked, on_failure), workspace)
    paths = []
    for result in report.results:
        for path in (result.path, result.landed_in):
            if path in existing or path in report.contents:
                paths.append(path)
    shown_files.add(paths)
    faults = Counter(result.fault for result in report.results)
    counts = ReplyCounts(
        edits=len(report.results),
        failed=len(report.failures),
        unreadable=faults[Fault.UNREADABLE],
        unsafe=faults[Fault.UNSAFE],
        foreign=faults[Fault.FOREIGN],
        ambiguous=faults[Fault.AMBIGUOUS],
        whole_file_blocks=whole_file_blocks,
    )
    return report, counts
