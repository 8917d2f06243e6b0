"""Check ``logs/<id>/``, the files of each prediction's evaluation."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import zip_longest

from reports.evaluation.evaluators.base import OUTPUT_FILE, PATCH_FILE, REPORT_FILE
from reports.submission.checks.findings import Kind, PackageFinding, UnusableError
from reports.submission.checks.predictions import PatchLine
from reports.submission.reading import Folder, Sort

_OUTPUTS = (f"{OUTPUT_FILE}.gz", OUTPUT_FILE)


def read_verdicts(
    artifacts: Folder, lines: Sequence[PatchLine], known: Collection[str]
) -> tuple[dict[str, bool], list[PackageFinding]]:
    """Return whether each instance with a report is resolved, and the faults of the logs.

    Args:
        artifacts: contains ``logs``.
        lines: the package's predictions.
        known: ids of the split; other ids are not used in paths.
    """
    logs = artifacts.below("logs")
    verdicts: dict[str, bool] = {}
    faults = list(_strangers(logs, known))
    for line in {line.instance_id: line for line in lines if line.generated}.values():
        if line.instance_id not in known:
            continue
        folder = logs.below(line.instance_id)
        faults += _patch(folder, line)
        if folder.sort(REPORT_FILE) is Sort.NOTHING:
            continue
        try:
            verdicts[line.instance_id] = _verdict(folder, line.instance_id)
        except UnusableError as error:
            faults.append(error.finding)
        faults += _output(folder)
    return verdicts, faults


def _strangers(logs: Folder, known: Collection[str]) -> Iterator[PackageFinding]:
    if logs.sort() is not Sort.FOLDER:
        fix = "add logs/<id>/ for each prediction"
        yield PackageFinding(Kind.MISSING, logs.place(), "is missing", fix)
    for name in logs.names():
        if name not in known:
            problem = f"{name} is not in the dataset"
            yield PackageFinding(Kind.UNKNOWN_ID, logs.place(name), problem, "delete it")


def _patch(folder: Folder, line: PatchLine) -> Iterator[PackageFinding]:
    try:
        evaluated = folder.text(PATCH_FILE)
    except UnusableError as error:
        yield error.finding
        return
    if evaluated.strip() != line.patch.strip():
        pairs = zip_longest(evaluated.split("\n"), line.patch.split("\n"))
        number = next((n for n, (one, other) in enumerate(pairs, 1) if one != other), 1)
        problem = f"differs from the predicted patch of {line.instance_id}"
        place = f"{folder.place(PATCH_FILE)}:{number}"
        yield PackageFinding(Kind.LOGS, place, problem, "evaluate the prediction")


def _verdict(folder: Folder, name: str) -> bool:
    """Return whether swebench's report says that instance ``name`` is resolved."""
    data = folder.json(REPORT_FILE)
    own = data.get(name) if isinstance(data, dict) else None
    resolved = own.get("resolved") if isinstance(own, dict) else None
    if not isinstance(resolved, bool):
        problem = f"does not say whether {name} is resolved, true or false"
        fix = "use swebench's own report"
        raise folder.unusable(Kind.LOGS, REPORT_FILE, problem, fix, name, "resolved")
    return resolved


def _output(folder: Folder) -> Iterator[PackageFinding]:
    present = [name for name in _OUTPUTS if folder.sort(name) is Sort.FILE]
    if not present:
        problem, fix = "is missing", "add swebench's test output, compressed"
        yield PackageFinding(Kind.MISSING, folder.place(_OUTPUTS[0]), problem, fix)
