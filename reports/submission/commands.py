"""The commands ``report.py --submission`` and ``report.py --validate``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from bench.instances.dataset import Dataset, load_dataset
from core.errors import UserError
from core.plaintext import Say
from core.redaction import Redactor
from reports.cli.options import SubmissionOptions
from reports.data.rundata import read_run
from reports.submission.build import ARTIFACTS, ENTRY, Order, build, check_described
from reports.submission.entry import read_meta, research_notes
from reports.submission.hidden import mirrors_at_hand
from reports.submission.package import RESEARCH_NOTICE, PackageFolder, Split, locate
from reports.submission.validation import Against, validate
from runs.storage.store import RunStore


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
