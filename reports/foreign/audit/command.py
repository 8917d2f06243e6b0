"""``report.py --audit PATH --dataset D``: search trajectories of any harness for hidden data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.instances.dataset import load_dataset
from bench.instances.instance import Instance, split_row
from bench.repos.mirrors import Mirrors, has_commit
from core.errors import UserError
from core.git import git_result
from reports.cli.options import ReportOptions
from reports.data.jsonvalues import mapping, text
from reports.foreign.audit.findings import Leak, RunAudit
from reports.foreign.audit.lookups import IsAncestor, Looked, lookup_leaks
from reports.foreign.audit.shown import shown_leaks
from reports.foreign.model import AttemptedInstance, AttemptedRun, RunLayout
from reports.foreign.recognise import read_any
from reports.submission.checks.hidden import (
    Hidden,
    StandInBase,
    base_lookup,
    hidden_of,
    mirrors_at_hand,
)
from runs.storage.store import RunStore


def audit_command(path: Path, options: ReportOptions, show: Callable[[str], None]) -> int:
    """Print every finding and a summary; return 1 if there is a finding, else 0.

    Raises:
        UserError: the run cannot be read, or no instance of it is in the dataset.
        InfrastructureError: the dataset cannot be loaded.
    """
    run = read_any(path)
    recorded = _recorded(run)
    name = options.dataset or text(recorded.get("name"))
    if not name:
        raise UserError(f"--audit {path} needs the hidden data to look for: pass --dataset")
    dataset = load_dataset(name, options.split or text(recorded.get("split")) or "test")
    mirrors = mirrors_at_hand(dataset.name, options.repos, options.cache)
    found = audit(run, dataset.name, dataset.by_any_id, mirrors)
    if not found.audited and not found.silent:
        raise UserError(f"no instance of {path} is in the dataset {dataset.name}; check --dataset")
    if options.as_json:
        show(json.dumps(found.as_json(), indent=1))
    else:
        for line in found.lines():
            show(line)
    return int(bool(found.leaks))


def _recorded(run: AttemptedRun) -> Mapping[str, Any]:
    if run.layout is not RunLayout.OURS:
        return {}
    return mapping((RunStore.of_folder(run.path).read_run() or {}).get("dataset"))


def audit(
    run: AttemptedRun, dataset: str, rows: Mapping[str, Mapping[str, Any]], mirrors: Mirrors | None
) -> RunAudit:
    """Search all attempts of a run.

    Args:
        run: of any layout.
        dataset: its name.
        rows: of the dataset by id, both halves.
        mirrors: have the base commits; None without any.

    Raises:
        UserError: a file of the run is broken.
    """
    leaks: list[Leak] = []
    audited, silent, unknown, unmirrored = [], [], [], set[str]()
    for instance in run.instances:
        name = instance.instance_id
        if name not in rows:
            unknown.append(name)
        elif not any(attempt.steps for attempt in instance.attempts):
            silent.append(name)
        else:
            audited.append(name)
            known, hidden = split_row(rows[name])
            base = base_lookup(known, mirrors)
            unmirrored |= {known.repo} if base is None else set()
            looked = Looked(known.repo, known.base_commit, _ancestors(known, mirrors))
            leaks += _leaks(instance, hidden_of(known, hidden), base, looked)
    return RunAudit(
        run=run.name,
        layout=run.layout.value,
        dataset=dataset,
        leaks=tuple(leaks),
        audited=tuple(audited),
        silent=tuple(silent),
        unknown=tuple(unknown),
        unmirrored=tuple(sorted(unmirrored)),
    )


def _leaks(
    instance: AttemptedInstance, fields: Sequence[Hidden], base: StandInBase | None, looked: Looked
) -> Iterator[Leak]:
    for attempt in instance.attempts:
        yield from shown_leaks(instance.instance_id, attempt, fields, base)
        yield from lookup_leaks(instance.instance_id, attempt, looked)


def _ancestors(instance: Instance, mirrors: Mirrors | None) -> IsAncestor:
    """Return the test of a commit against the base commit, in the mirror if there is one."""
    mirror = mirrors.find(instance.repo) if mirrors else None
    base = instance.base_commit

    def is_ancestor(commit: str) -> bool | None:
        if mirror is None or not has_commit(mirror, base) or not has_commit(mirror, commit):
            return None
        return git_result("merge-base", "--is-ancestor", commit, base, cwd=mirror).returncode == 0

    return is_ancestor
