"""Write a submission: the artifact repository and the leaderboard entry, all or nothing."""

from __future__ import annotations

import gzip
import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from core.errors import UserError
from reports.data.predictions import ALL_PREDS
from reports.data.provenance import provenance
from reports.data.rundata import RunData
from reports.evaluation.evaluators.base import PATCH_FILE, REPORT_FILE
from reports.submission.evidence import COPIED
from reports.submission.order import EvaluatedPatch, Order, evaluated_patches
from reports.submission.readme import Facts, readme
from reports.submission.splits import entry_name
from reports.submission.summary import BY_REPO_FILE, BY_TIME_FILE, Lists, by_repo, by_time, lists_of
from runs.storage.layouts import RESULTS_FILE
from runs.storage.store import RunStore

ARTIFACTS = "artifacts"
ENTRY = "entry"


def build(store: RunStore, run: RunData, order: Order, folder: Path) -> Lists:
    """Write the package of an officially evaluated run into the new folder ``folder``.

    The artifact repository is ``folder/artifacts`` and the entry is below ``folder/entry``. The
    same run always gives the same bytes. An incomplete package is removed.

    Returns:
        The three lists of ``results.json``.

    Raises:
        UserError: the run cannot be packaged, or ``folder`` is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"--submission {folder} exists already: delete it or name another folder")
    found = evaluated_patches(store, run, order)
    verdicts = {
        e.instance.instance_id: bool(e.report["resolved"]) for e in found if e.report is not None
    }
    ids = [str(row["instance_id"]) for row in order.rows]
    lists = lists_of(ids, [e.instance.instance_id for e in found], verdicts)
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        package = scratch / "package"
        _Writer(store, run, order, package).write(found, lists)
        package.replace(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return lists


@dataclass(frozen=True)
class _Writer:
    """Writes a package below ``root``."""

    store: RunStore
    run: RunData
    order: Order
    root: Path

    def write(self, found: Sequence[EvaluatedPatch], lists: Lists) -> None:
        """Write all files of the package."""
        artifacts = self.root / ARTIFACTS
        self._predictions(artifacts / ALL_PREDS)
        for one in found:
            self._logs(artifacts / "logs", one)
        for instance in self.run.instances:
            self._trajectory(artifacts / "trajs", instance.instance_id)
        place = f"evaluation/{self.order.split.value}/{self._name}"
        self._entry(self.root / ENTRY / place, lists)

    @property
    def _name(self) -> str:
        return entry_name(self.order.meta.date, self.order.meta.folder)

    def _predictions(self, path: Path) -> None:
        lines = [
            json.dumps(
                {
                    "instance_id": instance.instance_id,
                    "model_name_or_path": self.run.model_name_or_path,
                    "model_patch": instance.patch,
                }
            )
            for instance in sorted(self.run.instances, key=lambda i: i.instance_id)
        ]
        _write(path, ("\n".join(lines) + "\n").encode())

    def _logs(self, logs: Path, one: EvaluatedPatch) -> None:
        folder = logs / one.instance.instance_id
        _write(folder / PATCH_FILE, one.instance.patch.encode("utf-8", "surrogateescape"))
        if one.evidence.report:
            _write(folder / REPORT_FILE, self._clean(one.evidence.report))
        if one.evidence.test_output:
            output = self._clean(one.evidence.test_output)
            _write(folder / "test_output.txt.gz", gzip.compress(output, mtime=0))
        for name, path in zip(COPIED, (one.evidence.script, one.evidence.run_log), strict=True):
            if path:
                _write(folder / name, self._clean(path))

    def _trajectory(self, trajs: Path, name: str) -> None:
        for path in (self.store.folder / f"{name}.md", self.store.trajectory(name)):
            if not path.is_file():
                raise UserError(
                    f"{path} is missing: a package needs the trajectory of every instance"
                )
            _write(trajs / f"{name}{path.suffix}", self._clean(path))

    def _clean(self, path: Path) -> bytes:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        return self.order.redact(text).encode("utf-8", "surrogateescape")

    def _entry(self, folder: Path, lists: Lists) -> None:
        facts = self._facts(lists)
        meta = self.order.meta
        metadata = meta.metadata(several_attempts=facts.several).model_dump()
        text = yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True, width=10_000)
        _write(folder / "metadata.yaml", text.encode())
        _write(folder / "README.md", self.order.redact(readme(meta, facts)).encode())
        _write(folder / meta.logo_name, self.order.logo.read_bytes())
        results = folder / "results"
        _write_json(results / RESULTS_FILE, lists.as_json())
        _write_json(results / BY_REPO_FILE, facts.repos)
        _write_json(results / BY_TIME_FILE, facts.years)

    def _facts(self, lists: Lists) -> Facts:
        rows = self.order.rows
        origins = {instance.origin for instance in self.run.instances}
        return Facts(
            name=self._name,
            split=self.order.split.value,
            total=len(rows),
            attempts=max((len(i.attempts) for i in self.run.instances), default=0),
            several_runs=len(origins) > 1,
            lists=lists,
            repos=by_repo(rows, lists.resolved),
            years=by_time(rows, lists.resolved),
            described=self.run.described,
            others_evaluated=any(a.verdict for i in self.run.instances for a in i.attempts),
            provenance=provenance(self.run),
            marked=tuple(i.instance_id for i in self.run.instances if i.edits_test_configuration),
        )


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _write_json(path: Path, value: object) -> None:
    _write(path, (json.dumps(value, indent=1) + "\n").encode())
