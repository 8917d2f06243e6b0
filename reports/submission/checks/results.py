"""Check the layout of ``results/`` and its agreement with predictions and reports."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reports.submission.checks.findings import Kind, PackageFinding, UnusableError
from reports.submission.checks.predictions import PatchLine
from reports.submission.reading import Folder
from reports.submission.summary import (
    BY_REPO_FILE,
    BY_TIME_FILE,
    Lists,
    Row,
    Share,
    by_repo,
    by_time,
    lists_of,
    resolved_line,
)
from runs.storage.layouts import RESULTS_FILE

_FOLDER = "results"
_README = "README.md"
_RESOLVED = re.compile(r"\bResolved \d+ instances \([\d.]+%\)")
_NAMES = ("no_generation", "no_logs", "resolved")


def check_results(
    entry: Folder, lines: Sequence[PatchLine], verdicts: Mapping[str, bool], rows: Sequence[Row]
) -> Iterator[PackageFinding]:
    """Yield the faults of the entry's ``results/`` and of the results in its README.

    Args:
        entry: the entry.
        lines: the package's predictions.
        verdicts: whether an instance is resolved, for instances with a report.
        rows: all instances of the split.
    """
    folder = entry.below(_FOLDER)
    ids = [str(row["instance_id"]) for row in rows]
    wanted = lists_of(ids, {line.instance_id for line in lines if line.generated}, verdicts)
    try:
        given = _lists(folder)
    except UnusableError as error:
        yield error.finding
    else:
        yield from _compare(folder, given, wanted)
    yield from _readme(entry, resolved_line(len(wanted.resolved), len(rows)))
    yield from _shares(folder, BY_REPO_FILE, by_repo(rows, wanted.resolved))
    if all(row.get("created_at") for row in rows):
        yield from _shares(folder, BY_TIME_FILE, by_time(rows, wanted.resolved))
    else:
        yield from _shares(folder, BY_TIME_FILE, None)


def _lists(folder: Folder) -> dict[str, list[str]]:
    data = folder.json(RESULTS_FILE)
    if not isinstance(data, dict) or sorted(data) != sorted(_NAMES):
        problem, fix = f"does not contain exactly {', '.join(_NAMES)}", "write these three lists"
        raise folder.unusable(Kind.RESULTS, RESULTS_FILE, problem, fix)
    for name, value in data.items():
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            problem = f"{name} is not a list of ids"
            fix = "write a list of texts"
            raise folder.unusable(Kind.RESULTS, RESULTS_FILE, problem, fix, name)
    return data


def _readme(entry: Folder, right: str) -> Iterator[PackageFinding]:
    try:
        text = entry.text(_README)
    except UnusableError:
        return  # reported by ``check_entry``
    for wrong in sorted(set(_RESOLVED.findall(text)) - {right}):
        problem = f"says {wrong!r}, but predictions and reports give {right!r}"
        yield PackageFinding(Kind.README, entry.place(_README), problem, "count again")


def _compare(
    folder: Folder, given: Mapping[str, list[str]], wanted: Lists
) -> Iterator[PackageFinding]:
    for name, right in wanted.as_json().items():
        ids, place = given[name], folder.spot(RESULTS_FILE, name)
        if ids != sorted(set(ids)):
            problem = f"{name} is not sorted, or contains an id twice"
            yield PackageFinding(Kind.RESULTS, place, problem, "sort it")
        # Instances without a patch may be listed as without logs, too.
        allowed = {*right, *wanted.no_generation} if name == "no_logs" else set(right)
        for wrong in sorted(set(ids) - allowed):
            problem = f"{name} names {wrong}, but predictions and reports do not agree"
            yield PackageFinding(Kind.RESULTS, place, problem, "count again")
        for missing in sorted(set(right) - set(ids)):
            problem = f"{name} does not name {missing}, but predictions and reports do"
            yield PackageFinding(Kind.RESULTS, place, problem, "count again")


def _shares(
    folder: Folder, name: str, wanted: Mapping[str, Share] | None
) -> Iterator[PackageFinding]:
    try:
        data = folder.json(name)
    except UnusableError as error:
        yield error.finding
        return
    wrong = _no_shares(data)
    if wrong is not None:
        problem = "does not contain `resolved` and `total` by name"
        fix = 'write {"name": {"resolved": 1, "total": 2}}'
        yield PackageFinding(Kind.RESULTS, folder.spot(name, *wrong), problem, fix)
        return
    for key in sorted({*wanted, *data}) if wanted is not None else ():
        if data.get(key) != wanted.get(key):  # type: ignore[union-attr]
            problem = f"{key}: {_words(data.get(key))}, but predictions, reports and dataset give "
            problem += _words(wanted.get(key))  # type: ignore[union-attr]
            fix = "count all instances of the split again"
            yield PackageFinding(Kind.RESULTS, folder.spot(name, key), problem, fix)


def _no_shares(data: object) -> tuple[str, ...] | None:
    """Return the first place in ``data`` that is not valid, None if there is none."""
    if not isinstance(data, dict):
        return ()
    return next(((str(key),) for key, value in data.items() if not _is_share(value)), None)


def _is_share(value: Any) -> bool:  # noqa: ANN401 - any JSON value
    if not isinstance(value, dict) or sorted(value) != ["resolved", "total"]:
        return False
    return all(type(number) is int for number in value.values())


def _words(share: Mapping[str, int] | None) -> str:
    return f"{share['resolved']} of {share['total']}" if share else "nothing"
