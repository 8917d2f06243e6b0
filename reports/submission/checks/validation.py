"""Check a package of any harness before it is submitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from bench.instances.instance import Evaluation, Instance, split_row
from bench.repos.mirrors import Mirrors
from core.redaction import Redactor
from reports.submission.checks.entry import attempts_tag, check_entry
from reports.submission.checks.files import check_files, check_todo
from reports.submission.checks.findings import PackageFinding
from reports.submission.checks.logs import read_verdicts
from reports.submission.checks.predictions import PatchLine, check_predictions, read_lines
from reports.submission.checks.results import check_results
from reports.submission.checks.trajectories import Expected, check_trajectories
from reports.submission.locate import locate
from reports.submission.reading import Folder, SizeLimits
from reports.submission.summary import Row


@dataclass(frozen=True)
class Against:
    """The data that a package is compared with.

    Attributes:
        rows: all instances of the split.
        today: the latest valid date of an entry.
        mirrors: contain the base commits; checks that need them are skipped without.
        redact: contains the values of this environment's secrets.
    """

    rows: Sequence[Row]
    today: date
    mirrors: Mirrors | None = None
    redact: Redactor = field(default_factory=Redactor)
    limits: SizeLimits = field(default_factory=SizeLimits)

    def halves(self) -> Mapping[str, tuple[Instance, Evaluation]]:
        """Return both halves of every instance, by id."""
        return {str(row["instance_id"]): split_row(row) for row in self.rows}


def validate(folder: Path, against: Against) -> list[PackageFinding]:
    """Return the faults of the package in ``folder``, each once, in the order of the package.

    The package is not trusted: no link is followed, every read has a limit, and a broken file does
    not end the validation.

    Raises:
        UserError: a row of the dataset is broken.
    """
    root = Folder.of(folder, against.limits)
    places, halves = locate(root), against.halves()
    found = [*places.faults, *check_files(root, against.redact)]
    verdicts: Mapping[str, bool] = {}
    lines: Sequence[PatchLine] = ()
    tag = ""
    if places.entry:
        tag = attempts_tag(places.entry)
        found += [*check_todo(places.entry, deep=True), *check_entry(places.entry, against.today)]
    if places.artifacts:
        lines, faults = read_lines(places.artifacts)
        instances = {name: instance for name, (instance, _) in halves.items()}
        found += [*faults, *check_todo(places.artifacts, deep=False)]
        found += check_predictions(lines, instances, against.mirrors)
        verdicts, faults = read_verdicts(places.artifacts, lines, halves.keys())
        found += faults
        expected = Expected(halves, against.mirrors, tag)
        found += check_trajectories(places.artifacts, lines, expected)
    if places.artifacts and places.entry:
        found += check_results(places.entry, lines, verdicts, against.rows)
    return list(dict.fromkeys(found))
