"""The command ``report.py package``: build a package for the leaderboard."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

import yaml

from bench.instances.adapters.base import Row
from bench.instances.dataset import Dataset, load_dataset
from core.errors import UserError
from core.parsing.untrusted import damage_at, read_object
from core.plaintext import Say, some
from core.redaction import Redactor
from reports.data.jsonvalues import mapping
from reports.data.predictions import ALL_PREDS
from reports.data.rundata import InstanceData, RunData, read_run
from reports.data.verdicts import (
    OUTPUT_FILE,
    PATCH_FILE,
    REPORT_FILE,
    RUN_LOG,
    SwebenchLogs,
    log_name,
)
from reports.submission.entry import METADATA, Meta, read_meta, research_notes
from reports.submission.hidden import mirrors_at_hand
from reports.submission.package import RESEARCH_NOTICE, PackageFolder, Split
from reports.submission.readme import (
    BY_REPO_FILE,
    BY_TIME_FILE,
    Lists,
    Readme,
    by_repo,
    by_time,
    lists_of,
)
from reports.submission.validation import validate
from runs.keys import RESULTS_FILE
from runs.settings import FolderSettings
from runs.storage.store import RunStore


@dataclass(frozen=True)
class PackageOptions:
    """What a package for the leaderboard is made of.

    Attributes:
        split: of the leaderboard.
        folders: have the mirrors.
        dataset: that of the run or of the split where it is empty.
        allow_partial: count instances without a prediction or a verdict as unresolved.
    """

    split: str
    meta: Path
    folders: FolderSettings
    dataset: str = ""
    allow_partial: bool = False


def package_command(path: Path, folder: Path, options: PackageOptions, say: Say) -> int:
    """Build the package of a run in ``folder``, validate it, and return the exit code.

    It is 1 if the package has a fault.
    """
    split = Split.of(options.split)
    meta = read_meta(options.meta)
    logo = options.meta.parent / meta.logo
    if not logo.is_file():
        raise UserError(f"--meta {options.meta}: the logo {logo} does not exist")
    if split.research_only:
        say(RESEARCH_NOTICE.format(split=split.value))
    redact = Redactor.of_environment(os.environ)
    store = RunStore.of_folder(path)
    dataset = _dataset_of_run(store, split, options.dataset)
    run = read_run(store, dataset.rows)
    partial = options.allow_partial
    builder = PackageBuilder(
        store, run, split, meta, dataset.rows, logo, partial, redact
    )
    lists = builder.build(folder)
    most = max((len(instance.attempts) for instance in run.instances), default=0)
    tried = "one attempt each" if most < 2 else f"best of up to {most} attempts each"
    say(f"resolved       {len(lists.resolved)} of {len(dataset.rows)}, {tried}")
    package = builder.package(folder)
    say(f"artifacts      {package.artifacts}: the content of {meta.artifacts}")
    say(f"entry          {folder / ENTRY}: add it to a fork of SWE-bench/experiments")
    for note in research_notes(package, meta, split):
        say(note)
    mirrors = mirrors_at_hand(dataset.name, options.folders)
    faults = validate(package, dataset.rows, meta, date.today(), mirrors, redact)
    for fault in faults:
        say(fault)
    say(f"validated      {len(faults)} faults, against {dataset.name}")
    return int(bool(faults))


def _dataset_of_run(store: RunStore, split: Split, given: str) -> Dataset:
    run = store.read_run()
    if run is None:
        raise UserError(
            f"{store.folder} has no run.json, so the leaderboard's checklist on the prompts cannot "
            "be answered: package runs of harness.py"
        )
    name = given or run.dataset.name or split.dataset
    others = [s for s in Split if s is not split and name in (s.dataset, s.value)]
    if others:
        raise UserError(
            f"the run was made on {name}: submit it with --split {others[0].value}, not "
            f"{split.value}"
        )
    return load_dataset(name, run.dataset.split or "test")


ENTRY = "entry"
_COPIED = (REPORT_FILE, OUTPUT_FILE, "eval.sh", RUN_LOG)


def evidence_of(
    store: RunStore, logs: SwebenchLogs, instance_id: str, model: str, patch: str
) -> dict[str, Path]:
    """Return the files of an evaluation by their names in a package; swebench's own come first."""
    # An evaluation that failed for infrastructure reasons has no report.
    same = sorted(
        logs.of(instance_id, patch), key=lambda f: not (f / REPORT_FILE).is_file()
    )
    if same:
        found = {name: same[0] / name for name in _COPIED}
    else:
        report = store.logs / f"{instance_id}.{REPORT_FILE}"
        found = {
            REPORT_FILE: report,
            OUTPUT_FILE: store.logs / log_name(instance_id, model),
        }
    return {name: path for name, path in found.items() if path.is_file()}


@dataclass(frozen=True)
class PackageBuilder:
    """Builds the package of an officially evaluated run; the same run gives the same bytes."""

    store: RunStore
    run: RunData
    split: Split
    meta: Meta
    rows: Sequence[Row]  # of all instances of the split, the denominator of the score
    logo: Path
    allow_partial: (
        bool  # count instances without a prediction or a verdict as unresolved
    )
    redact: Redactor  # of everything that is copied

    def package(self, folder: Path) -> PackageFolder:
        entry = folder / ENTRY / "evaluation" / self.split.value / self.meta.entry_name
        return PackageFolder(folder, entry)

    def build(self, folder: Path) -> Lists:
        """Write the package into the new folder ``folder``; an incomplete one is removed.

        The artifact repository is ``folder/artifacts`` and the entry is below ``folder/entry``.
        """
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UserError(
                f"{folder} exists already: delete it or name another folder"
            )
        self._check_rows()
        patched = [
            instance for instance in self.run.instances if instance.patch.strip()
        ]
        self._check_verdicts(patched)
        logs = SwebenchLogs(self.store.logs / "evaluation")
        evidence = {
            instance.instance_id: self._evidence(instance, logs) for instance in patched
        }
        verdicts = {i.instance_id: i.resolved is True for i in patched}
        reported = {
            n: verdicts[n] for n, files in evidence.items() if REPORT_FILE in files
        }
        lists = lists_of(
            [str(row["instance_id"]) for row in self.rows], evidence, reported
        )
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
        try:
            package = self.package(scratch / "package")
            self._write_artifacts(package, patched, evidence)
            self._write_entry(package, lists)
            package.root.replace(folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return lists

    def _check_rows(self) -> None:
        without = [
            row for row in self.rows if not row.get("created_at") or not row.get("repo")
        ]
        if without:
            raise UserError(
                f"the dataset lacks `created_at` or `repo`, as of {without[0]['instance_id']}, "
                "which results/ needs: pass the Hugging Face id of the split as --dataset"
            )
        ids, split = {str(row["instance_id"]) for row in self.rows}, self.split.value
        if strange := [i for i in self.run.instances if i.instance_id not in ids]:
            raise UserError(f"{_some(strange)} not in the dataset of --split {split}")
        missing = sorted(ids - {i.instance_id for i in self.run.instances})
        if missing and not self.allow_partial:
            raise UserError(
                f"{len(missing)} of the {len(ids)} instances of {split} have no prediction, as "
                f"{missing[0]}: finish the run, or pass --allow-partial to count them as unresolved"
            )

    def _check_verdicts(self, patched: Sequence[InstanceData]) -> None:
        with_verdict = [i for i in patched if i.resolved is not None]
        if others := [
            i for i in with_verdict if i.verdict is not None and not i.verdict.official
        ]:
            evaluator = others[0].verdict and others[0].verdict.evaluator
            raise UserError(
                f"{_some(others)} evaluated by {evaluator}, which is not official: evaluate the "
                "run with --evaluator docker"
            )
        if not with_verdict:
            raise UserError("the run is not evaluated: use --evaluator docker first")
        waiting = [i for i in patched if i.resolved is None]
        if waiting and not self.allow_partial:
            raise UserError(
                f"{_some(waiting)} not evaluated: evaluate the run with --evaluator docker, or "
                "pass --allow-partial to count them as unresolved"
            )

    def _evidence(self, instance: InstanceData, logs: SwebenchLogs) -> dict[str, Path]:
        """Return the files of an evaluation, whose report must agree with the verdict."""
        if instance.resolved is None:
            return {}
        name, model = instance.instance_id, self.run.model_name_or_path
        resolved: object = False
        files = evidence_of(self.store, logs, name, model, instance.patch)
        if path := files.get(REPORT_FILE):
            resolved = mapping(read_object(path, "evaluate it again").get(name)).get(
                "resolved"
            )
            if not isinstance(resolved, bool):
                words = (
                    f"is not a report on {name}: `resolved` is neither true nor false"
                )
                raise damage_at(path, (name, "resolved"), words, "evaluate it again")
        if resolved is not instance.resolved:
            raise UserError(
                f"{name}: the verdict says {'' if instance.resolved else 'not '}resolved, but "
                f"{path or 'no report'} does not; evaluate it again"
            )
        return files

    def _write_artifacts(
        self,
        package: PackageFolder,
        patched: Sequence[InstanceData],
        evidence: Mapping[str, Mapping[str, Path]],
    ) -> None:
        label = self.run.model_name_or_path
        keys = ("instance_id", "model_name_or_path", "model_patch")
        parts = sorted((i.instance_id, label, i.patch) for i in self.run.instances)
        lines = (f"{json.dumps(dict(zip(keys, p, strict=True)))}\n" for p in parts)
        _write(package.artifacts / ALL_PREDS, "".join(lines).encode())
        for instance in patched:
            folder = package.logs / instance.instance_id
            _write(
                folder / PATCH_FILE, instance.patch.encode("utf-8", "surrogateescape")
            )
            for name, path in evidence[instance.instance_id].items():
                if name == OUTPUT_FILE:
                    packed = gzip.compress(self._clean(path), mtime=0)
                    _write(folder / f"{name}.gz", packed)
                else:
                    _write(folder / name, self._clean(path))
        for name in (instance.instance_id for instance in self.run.instances):
            for path in (self.store.transcript(name), self.store.trajectory(name)):
                if not path.is_file():
                    raise UserError(
                        f"{path} is missing: a package needs the trajectory of every instance"
                    )
                _write(package.trajectories / f"{name}{path.suffix}", self._clean(path))

    def _clean(self, path: Path) -> bytes:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        return self.redact(text).encode("utf-8", "surrogateescape")

    def _write_entry(self, package: PackageFolder, lists: Lists) -> None:
        meta = self.meta
        rows = self.rows
        folder = package.entry
        readme = Readme(meta, self.run, rows, lists, self.split.value)
        metadata = meta.metadata(several_attempts=readme.several)
        text = yaml.safe_dump(
            metadata, sort_keys=False, allow_unicode=True, width=10_000
        )
        _write(folder / METADATA, text.encode())
        _write(package.readme, self.redact(readme.text()).encode())
        _write(folder / meta.logo_name, self.logo.read_bytes())
        results = {
            RESULTS_FILE: asdict(lists),
            BY_REPO_FILE: by_repo(rows, lists.resolved),
            BY_TIME_FILE: by_time(rows, lists.resolved),
        }
        for name, value in results.items():
            _write(
                folder / "results" / name, (json.dumps(value, indent=1) + "\n").encode()
            )


def _some(instances: Sequence[InstanceData]) -> str:
    names = some([instance.instance_id for instance in instances], 3)
    return f"{names}: {'is' if len(instances) == 1 else 'are'}"


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
