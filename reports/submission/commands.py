"""The commands ``report.py --submission`` and ``report.py --validate``."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from bench.instances.adapters.base import Row
from bench.instances.dataset import Dataset, load_dataset
from core.errors import UserError
from core.parsing.untrusted import damage_at, read_object
from core.plaintext import Say, some
from core.redaction import Redactor
from reports.cli.options import SubmissionOptions
from reports.data.jsonvalues import mapping
from reports.data.predictions import ALL_PREDS
from reports.data.rundata import InstanceData, RunData, read_run
from reports.data.verdicts import OUTPUT_FILE, PATCH_FILE, REPORT_FILE, RUN_LOG, log_name
from reports.submission.entry import Meta, read_meta, research_notes
from reports.submission.hidden import mirrors_at_hand
from reports.submission.package import RESEARCH_NOTICE, PackageFolder, Split, locate
from reports.submission.readme import (
    BY_REPO_FILE,
    BY_TIME_FILE,
    Lists,
    Readme,
    by_repo,
    by_time,
    lists_of,
)
from reports.submission.validation import Against, validate
from runs.storage.store import RESULTS_FILE, RunStore


def submission_command(
    runs: Sequence[Path], folder: Path, options: SubmissionOptions, say: Say
) -> int:
    """Build the package of one run in ``folder``, validate it, and return the exit code."""
    if len(runs) != 1:
        raise UserError("--submission packages one run: combine several runs first")
    if options.meta is None or not options.split:
        raise UserError("--submission needs --split (lite, verified, …) and --meta meta.yaml")
    split, meta = Split.of(options.split), read_meta(options.meta)
    logo = options.meta.parent / meta.logo
    if not logo.is_file():
        raise UserError(f"--meta {options.meta}: the logo {logo} does not exist")
    if split.research_only:
        say(RESEARCH_NOTICE.format(split=split.value))
    redact = Redactor.of_environment(os.environ)
    store = RunStore.of_folder(runs[0])
    dataset = _dataset_of_run(store, split, options.dataset)
    run = read_run(store, dataset.rows)
    order = Order(split, meta, dataset.rows, logo, options.allow_partial, redact)
    lists = build(store, run, order, folder)
    most = max((len(instance.attempts) for instance in run.instances), default=0)
    tried = "one attempt each" if most < 2 else f"best of up to {most} attempts each"
    say(f"resolved       {len(lists.resolved)} of {len(dataset.rows)}, {tried}")
    say(f"artifacts      {folder / ARTIFACTS}: the content of {meta.artifacts}")
    say(f"entry          {folder / ENTRY}: add it to a fork of SWE-bench/experiments")
    return _validated(folder, dataset, options, redact, say)


def validate_command(folder: Path, options: SubmissionOptions, say: Say) -> int:
    """Print every fault of the package in ``folder``; return 1 if there is one, else 0."""
    if not folder.is_dir():
        raise UserError(f"--validate {folder} is not a folder: name the folder of a package")
    split = Split.of(options.split) if options.split else locate(PackageFolder.of(folder)).split
    if split is not None and split.research_only:
        say(RESEARCH_NOTICE.format(split=split.value))
    if split is None and not options.dataset:
        raise UserError(f"the split of {folder} is unknown: pass --split or --dataset")
    name = options.dataset or (split.dataset if split else "")
    dataset = load_dataset(name, "test")
    return _validated(folder, dataset, options, Redactor.of_environment(os.environ), say)


def _validated(
    folder: Path, dataset: Dataset, options: SubmissionOptions, redact: Redactor, say: Say
) -> int:
    for note in research_notes(locate(PackageFolder.of(folder))):
        say(note)
    mirrors = mirrors_at_hand(dataset.name, options.repos, options.cache)
    found = validate(folder, Against(dataset.rows, date.today(), mirrors, redact))
    for finding in found:
        say(finding.line())
    say(f"validated      {len(found)} faults, against {dataset.name}")
    return 1 if found else 0


def _dataset_of_run(store: RunStore, split: Split, given: str) -> Dataset:
    run = store.read_run() or {}
    check_described(store.folder, run)
    described = run.get("dataset") or {}
    name = str(given or described.get("name") or split.dataset)
    others = [s for s in Split if s is not split and name in (s.dataset, s.value)]
    if others:
        raise UserError(
            f"the run was made on {name}: submit it with --split {others[0].value}, not "
            f"{split.value}"
        )
    return load_dataset(name, str(described.get("split") or "test"))


COPIED = ("eval.sh", RUN_LOG)


@dataclass(frozen=True)
class Evidence:
    """The files of one instance's evaluation, None for missing ones."""

    report: Path | None = None
    test_output: Path | None = None
    script: Path | None = None  # eval.sh, which swebench ran in the container
    run_log: Path | None = None  # run_instance.log


@dataclass(frozen=True)
class EvidenceFinder:
    """Finds the files of a run's evaluations."""

    store: RunStore
    model: str = ""

    def find(self, instance_id: str, patch: str) -> Evidence:
        """Return the files of the evaluation of ``patch``.

        swebench's own folder is preferred if it contains the same patch, because there may be
        files of earlier evaluations; otherwise the files of ``report.py`` in ``logs/<run>/``.
        """
        wanted = patch.encode("utf-8", "surrogateescape").strip()
        kept = self._folders.get(instance_id, ())
        same = [f for f in kept if (f / PATCH_FILE).read_bytes().strip() == wanted]
        # An evaluation that failed for infrastructure reasons has no report.
        for folder in sorted(same, key=lambda f: not (f / REPORT_FILE).is_file())[:1]:
            names = (REPORT_FILE, OUTPUT_FILE, *COPIED)
            return Evidence(*(_file(folder / name) for name in names))
        logs, log = self.store.logs, log_name(instance_id, self.model)
        return Evidence(_file(logs / f"{instance_id}.{REPORT_FILE}"), _file(logs / log))

    @cached_property
    def _folders(self) -> dict[str, list[Path]]:
        """swebench's folders by instance; the parent folders differ between its versions."""
        found: dict[str, list[Path]] = {}
        for path in sorted((self.store.logs / "evaluation").glob(f"**/{PATCH_FILE}")):
            found.setdefault(path.parent.name, []).append(path.parent)
        return found


def _file(path: Path) -> Path | None:
    return path if path.is_file() else None


@dataclass(frozen=True)
class Order:
    """What to build."""

    split: Split
    meta: Meta
    rows: Sequence[Row]  # of all instances of the split, the denominator of the score
    logo: Path
    allow_partial: bool  # count instances without a prediction or a verdict as unresolved
    redact: Redactor  # of everything that is copied


@dataclass(frozen=True)
class EvaluatedPatch:
    """A prediction with a patch, and the files of its evaluation."""

    instance: InstanceData
    evidence: Evidence
    report: Mapping[str, Any] | None


def evaluated_patches(store: RunStore, run: RunData, order: Order) -> list[EvaluatedPatch]:
    """Return the predictions with a patch, each with the files of its official evaluation."""
    check_described(run.folder, run.described)
    without = [row for row in order.rows if not row.get("created_at") or not row.get("repo")]
    if without:
        raise UserError(
            f"the dataset lacks `created_at` or `repo`, as of {without[0]['instance_id']}, which "
            "results/ needs: pass the Hugging Face id of the split as --dataset"
        )
    _check_ids(run, order)
    patched = [instance for instance in run.instances if instance.patch.strip()]
    _check_official(patched)
    waiting = [i for i in patched if i.resolved is None]
    if waiting and not order.allow_partial:
        raise UserError(
            f"{_some(waiting)} not evaluated: evaluate the run with --evaluator docker, or pass "
            "--allow-partial to count them as unresolved"
        )
    finder = EvidenceFinder(store, run.model_name_or_path)
    return [_with_report(instance, finder) for instance in patched]


def check_described(folder: Path, described: Mapping[str, Any]) -> None:
    """Check that the run in ``folder`` has a ``run.json``."""
    if not described:
        raise UserError(
            f"{folder} has no run.json, so the leaderboard's checklist on the prompts cannot be "
            "answered: package runs of harness.py"
        )


def _check_ids(run: RunData, order: Order) -> None:
    ids = {str(row["instance_id"]) for row in order.rows}
    if strange := [i for i in run.instances if i.instance_id not in ids]:
        raise UserError(f"{_some(strange)} not in the dataset of --split {order.split.value}")
    missing = sorted(ids - {i.instance_id for i in run.instances})
    if missing and not order.allow_partial:
        raise UserError(
            f"{len(missing)} of the {len(ids)} instances of {order.split.value} have no "
            f"prediction, as {missing[0]}: finish the run, or pass --allow-partial to count them "
            "as unresolved"
        )


def _check_official(patched: Sequence[InstanceData]) -> None:
    with_verdict = [i for i in patched if i.resolved is not None]
    if others := [i for i in with_verdict if i.verdict is not None and not i.verdict.official]:
        evaluator = others[0].verdict and others[0].verdict.evaluator
        raise UserError(
            f"{_some(others)} evaluated by {evaluator}, which is not official: evaluate the run "
            "with --evaluator docker"
        )
    if not with_verdict:
        raise UserError("the run is not evaluated: use --evaluator docker first")


def _some(instances: Sequence[InstanceData]) -> str:
    names = some([instance.instance_id for instance in instances], 3)
    return f"{names}: {'is' if len(instances) == 1 else 'are'}"


def _with_report(instance: InstanceData, finder: EvidenceFinder) -> EvaluatedPatch:
    name = instance.instance_id
    if instance.resolved is None:
        return EvaluatedPatch(instance, Evidence(), None)
    evidence = finder.find(name, instance.patch)
    report: Mapping[str, Any] | None = None
    if evidence.report:
        report = mapping(read_object(evidence.report, "evaluate it again").get(name))
        if not isinstance(report.get("resolved"), bool):
            words = f"is not a report on {name}: `resolved` is neither true nor false"
            raise damage_at(evidence.report, (name, "resolved"), words, "evaluate it again")
    if bool(report and report["resolved"]) is not instance.resolved:
        raise UserError(
            f"{name}: the verdict says {'' if instance.resolved else 'not '}resolved, but "
            f"{evidence.report or 'no report'} does not; evaluate it again"
        )
    return EvaluatedPatch(instance, evidence, report)


ARTIFACTS = "artifacts"
ENTRY = "entry"


def build(store: RunStore, run: RunData, order: Order, folder: Path) -> Lists:
    """Write the package of an officially evaluated run into the new folder ``folder``.

    The artifact repository is ``folder/artifacts`` and the entry is below ``folder/entry``. The
    same run always gives the same bytes. An incomplete package is removed.
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
    store: RunStore
    run: RunData
    order: Order
    root: Path

    def write(self, found: Sequence[EvaluatedPatch], lists: Lists) -> None:
        artifacts = self.root / ARTIFACTS
        _write(artifacts / ALL_PREDS, self._predictions().encode())
        for one in found:
            self._logs(artifacts / "logs", one)
        for instance in self.run.instances:
            self._trajectory(artifacts / "trajs", instance.instance_id)
        meta = self.order.meta
        name = f"{meta.date:%Y%m%d}_{meta.folder}"
        self._entry(self.root / ENTRY / "evaluation" / self.order.split.value / name, lists)

    def _predictions(self) -> str:
        label = self.run.model_name_or_path
        keys = ("instance_id", "model_name_or_path", "model_patch")
        parts = sorted((i.instance_id, label, i.patch) for i in self.run.instances)
        return "".join(f"{json.dumps(dict(zip(keys, p, strict=True)))}\n" for p in parts)

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
        meta, rows, split = self.order.meta, self.order.rows, self.order.split.value
        readme = Readme(meta, self.run, rows, lists, folder.name, split)
        metadata = meta.metadata(several_attempts=readme.several).model_dump()
        text = yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True, width=10_000)
        _write(folder / "metadata.yaml", text.encode())
        _write(folder / "README.md", self.order.redact(readme.text()).encode())
        _write(folder / meta.logo_name, self.order.logo.read_bytes())
        results = {
            RESULTS_FILE: lists.as_json(),
            BY_REPO_FILE: by_repo(rows, lists.resolved),
            BY_TIME_FILE: by_time(rows, lists.resolved),
        }
        for name, value in results.items():
            _write(folder / "results" / name, (json.dumps(value, indent=1) + "\n").encode())


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
