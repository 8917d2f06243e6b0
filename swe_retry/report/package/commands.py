"""The command ``report.py package``: build a package for the leaderboard."""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from swe_retry.core.errors import InfrastructureError, UserError
from swe_retry.core.jsontypes import value_at
from swe_retry.core.plaintext import Say, did_you_mean, some
from swe_retry.core.redaction import Redactor
from swe_retry.core.untrusted import damage_at, read_object
from swe_retry.instances.adapters.adapter import Row
from swe_retry.instances.dataset import Dataset, load_dataset
from swe_retry.record.keys import RESULTS_FILE
from swe_retry.record.store import RunStore
from swe_retry.report.package.meta import METADATA, Meta, read_meta
from swe_retry.report.package.readme import Submission, readme, results_of
from swe_retry.report.package.validation import PackageFolder, validate
from swe_retry.repositories.mirrors import Mirrors, mirrors_of
from swe_retry.repositories.names import ALIASES, DEFAULT_SPLIT, DatasetName
from swe_retry.results.predictions import all_preds
from swe_retry.results.read import read_run
from swe_retry.results.rundata import InstanceData, RunData
from swe_retry.results.verdicts import (
    OUTPUT_FILE,
    PATCH_FILE,
    REPORT_FILE,
    RUN_LOG,
    eval_log,
    eval_report,
)
from swe_retry.runner.settings import FolderSettings

SPLITS = {
    "lite": ALIASES["lite"],
    "verified": ALIASES["verified"],
    "test": ALIASES["full"],
    "multilingual": ALIASES["multilingual"],
    "multimodal": ALIASES["multimodal"],
}
"""The data sets of the folders below ``evaluation/`` of the leaderboard's repository."""
_RESEARCH_SPLITS = ("verified", "multilingual")
# The day of this rule in the leaderboard's README.
_RESEARCH_RULE_DAY = date(2025, 11, 18)
_RESEARCH_NOTICE = (
    f"note: since {_RESEARCH_RULE_DAY} {{split}} accepts only academic and research submissions: "
    "open methods with an arXiv preprint or technical report, and at least one author at an "
    "academic institution or an established research lab; others are closed (the rule does not "
    "apply to multimodal and lite)"
)
_AFFILIATION = re.compile(
    r"affiliat|universit|institut|research|college|\blab\b", re.IGNORECASE
)
_COPIED = (REPORT_FILE, OUTPUT_FILE, "eval.sh", RUN_LOG)
_MAX_NAMES = 3
_FIX = "evaluate it again"
SwebenchFolders = Mapping[str, Sequence[Path]]
"""The folders of swebench's logs by instance; their parents differ by version."""
PackageFiles = Iterator[tuple[Path, bytes]]
"""The files of a package with their content."""


def package_command(
    path: Path,
    folder: Path,
    say: Say,
    *,
    split: str,
    meta_file: Path,
    folders: FolderSettings,
    dataset_name: str,
    allow_partial: bool = False,
) -> int:
    """Build the package of a run in ``folder``, validate it, and return the exit code.

    It is 1 if the package has a fault. The same run gives the same bytes.

    Args:
        split: of the leaderboard.
        folders: have the mirrors.
        dataset_name: that of the split, perhaps with a revision; empty for the newest.
        allow_partial: count instances without a prediction or a verdict as unresolved.
    """
    split = _split_of(split)
    meta = read_meta(meta_file)
    if split in _RESEARCH_SPLITS:
        say(_RESEARCH_NOTICE.format(split=split))
    redact = Redactor.of_environment()
    store = RunStore.of_folder(path)
    dataset = _load_dataset(store, split, dataset_name)
    run = read_run(store, dataset.rows)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists already: delete it or name another folder")
    _check_instances(run, dataset.rows, split, allow_partial)
    _check_verdicts(run, allow_partial)
    evidence = {}
    reported = {}
    logs = swebench_folders(store.logs / "evaluation")
    for instance in run.instances:
        if instance.patch.strip():
            files = _evidence_of(instance, store, logs)
            evidence[instance.instance_id] = files
            if REPORT_FILE in files:
                reported[instance.instance_id] = instance.resolved is True
    results = results_of(dataset.rows, evidence, reported)
    submission = Submission(meta, split, run, dataset.rows, results)
    logo = meta_file.parent / meta.logo
    entry = f"{split}/{meta.entry_name}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as scratch:
        package = PackageFolder(Path(scratch, "package"), entry)
        _write(_artifacts(package, run, store, evidence, redact))
        _write(_entry(package, submission, logo, redact))
        package.root.replace(folder)
    package = PackageFolder(folder, entry)
    resolved = len(results[RESULTS_FILE]["resolved"])
    attempts = "one attempt each"
    if submission.max_attempts > 1:
        attempts = f"best of up to {submission.max_attempts} attempts each"
    say(f"resolved       {resolved} of {len(dataset.rows)}, {attempts}")
    say(f"artifacts      {package.artifacts}: the content of {meta.artifacts}")
    fork = "add it to a fork of SWE-bench/experiments"
    say(f"entry          {folder / 'entry'}: {fork}")
    for note in _research_notes(package, meta, split):
        say(note)
    mirrors = mirrors_of(dataset.name, folders.cache, None)
    if folders.repos:
        mirrors = Mirrors(folders.repos)
    faults = validate(package, dataset.rows, meta, mirrors, redact)
    for fault in faults:
        say(fault)
    say(f"validated      {len(faults)} faults, against {dataset.name}")
    return int(bool(faults))


def _split_of(name: str) -> str:
    """Return the name of a split; a UserError if the leaderboard has none of this name."""
    if name == "full":
        return "test"
    if name not in SPLITS:
        names = ", ".join(SPLITS)
        raise UserError(
            f"--split {name!r} is not a split of the leaderboard: {names}"
            + did_you_mean(name, SPLITS)
        )
    return name


def _load_dataset(store: RunStore, split: str, name: str) -> Dataset:
    """Return the rows of a split: its ids are those that a package must and may have."""
    if not store.run_file.exists():
        raise UserError(
            f"{store.folder} has no run.json, so the leaderboard's checklist on the prompts cannot "
            "be answered: package runs of harness.py"
        )
    made_on = name or store.read_run().dataset.name
    for other, dataset in SPLITS.items():
        if other != split and made_on in (other, dataset):
            raise UserError(
                f"the run was made on {made_on}: submit it with --split {other}, not {split}"
            )
    expected = SPLITS[split]
    parsed = DatasetName.parse(name or expected)
    if expected not in (parsed.hub_id, parsed.name):
        raise UserError(
            f"--dataset {name} is not the dataset of --split {split}, whose ids a package must "
            f"have: leave it out, or give {expected}"
        )
    try:
        return load_dataset(name or expected, DEFAULT_SPLIT)
    except InfrastructureError as error:
        raise UserError(
            f"the ids of --split {split} are those of {name or expected}, which cannot be loaded: "
            "run this where the hub is reached, or copy its cache (HF_HOME)"
        ) from error


def _research_notes(package: PackageFolder, meta: Meta, split: str) -> Iterator[str]:
    """Yield notes, not faults: the maintainers decide about the rule."""
    if split not in _RESEARCH_SPLITS or meta.date < _RESEARCH_RULE_DAY:
        return
    if not meta.os_system:
        yield f"note: {METADATA} says os_system: false, and {split} asks for open methods"
    if not _AFFILIATION.search(package.readme.read_text("utf-8")):
        yield f"note: {package.readme.name} names no affiliation, and {split} asks for one"


def _check_instances(
    run: RunData,
    rows: Sequence[Row],
    split: str,
    allow_partial: bool,
) -> None:
    missing = set()
    for row in rows:
        missing.add(str(row["instance_id"]))
        if not row.get("created_at") or not row.get("repo"):
            raise UserError(
                f"the dataset lacks `created_at` or `repo`, as of {row['instance_id']}, "
                "which results/ needs: pass the Hugging Face id of the split as --dataset"
            )
    count = len(missing)
    strange = []
    for instance in run.instances:
        if instance.instance_id not in missing:
            strange.append(instance)
        missing.discard(instance.instance_id)
    if strange:
        raise UserError(f"{_names(strange)} not in the dataset of --split {split}")
    if missing and not allow_partial:
        raise UserError(
            f"{len(missing)} of the {count} instances of {split} have no prediction, as "
            f"{min(missing)}: finish the run, or pass --allow-partial to count them as unresolved"
        )


def _check_verdicts(run: RunData, allow_partial: bool) -> None:
    official = []
    unofficial = []
    waiting = []
    for instance in run.instances:
        if not instance.patch.strip():
            continue
        if instance.resolved is None:
            waiting.append(instance)
        elif instance.verdict and instance.verdict.official:
            official.append(instance)
        else:
            unofficial.append(instance)
    if unofficial:
        verdict = unofficial[0].verdict
        evaluator = verdict and verdict.evaluator
        raise UserError(
            f"{_names(unofficial)} evaluated by {evaluator}, which is not official: evaluate the "
            "run with --evaluator docker"
        )
    if not official:
        raise UserError("the run is not evaluated: use --evaluator docker first")
    if waiting and not allow_partial:
        raise UserError(
            f"{_names(waiting)} not evaluated: evaluate the run with --evaluator docker, or "
            "pass --allow-partial to count them as unresolved"
        )


def _names(instances: Sequence[InstanceData]) -> str:
    """Return the names as the subject of a sentence, with its verb."""
    names = some([instance.instance_id for instance in instances], _MAX_NAMES)
    if len(instances) == 1:
        return f"{names}: is"
    return f"{names}: are"


def _evidence_of(
    instance: InstanceData,
    store: RunStore,
    logs: SwebenchFolders,
) -> dict[str, Path]:
    """Return the files of an evaluation, whose report must agree with the verdict."""
    if instance.resolved is None:
        return {}
    name = instance.instance_id
    files = _evaluation_files(instance, store, logs)
    path = files.get(REPORT_FILE)
    resolved = False
    if path:
        resolved = value_at(read_object(path, _FIX), name, "resolved")
        if not isinstance(resolved, bool):
            problem = f"is not a report on {name}: `resolved` is neither true nor false"
            raise damage_at(path, (name, "resolved"), problem, _FIX)
    if resolved is not instance.resolved:
        verdict = "resolved" if instance.resolved else "not resolved"
        source = path or "no report"
        raise UserError(
            f"{name}: the verdict says {verdict}, but {source} does not; {_FIX}"
        )
    return files


def swebench_folders(root: Path) -> SwebenchFolders:
    folders = defaultdict(list)
    for path in sorted(root.glob(f"**/{PATCH_FILE}")):
        folders[path.parent.name].append(path.parent)
    return folders


def folders_about(patch: str, folders: Iterable[Path]) -> list[Path]:
    """Return the folders of the evaluations of ``patch``, and not of earlier ones."""
    expected = patch.encode("utf-8", "surrogateescape").strip()
    of_patch = []
    for folder in folders:
        with suppress(OSError):
            if (folder / PATCH_FILE).read_bytes().strip() == expected:
                of_patch.append(folder)
    return of_patch


def _evaluation_files(
    instance: InstanceData,
    store: RunStore,
    logs: SwebenchFolders,
) -> dict[str, Path]:
    """Return the files by their names in a package; swebench's own come first."""
    prediction = instance.to_evaluate()
    files = {
        REPORT_FILE: eval_report(store, prediction),
        OUTPUT_FILE: eval_log(store, prediction),
    }
    # An evaluation that failed for infrastructure reasons has no report.
    folders = folders_about(instance.patch, logs.get(instance.instance_id, ()))
    folders.sort(key=lambda folder: not (folder / REPORT_FILE).is_file())
    if folders:
        files = {file: folders[0] / file for file in _COPIED}
    return {file: path for file, path in files.items() if path.is_file()}


def _artifacts(
    package: PackageFolder,
    run: RunData,
    store: RunStore,
    evidence: Mapping[str, Mapping[str, Path]],
    redact: Redactor,
) -> PackageFiles:
    predictions = list(map(InstanceData.to_evaluate, run.instances))
    yield package.predictions, all_preds(predictions).encode()
    for instance in run.instances:
        name = instance.instance_id
        if name in evidence:
            patch = instance.patch.encode("utf-8", "surrogateescape")
            yield package.logs / name / PATCH_FILE, patch
        for file, path in evidence.get(name, {}).items():
            data = _redacted_bytes(path, redact)
            if file == OUTPUT_FILE:
                file = f"{file}.gz"
                data = gzip.compress(data, mtime=0)
            yield package.logs / name / file, data
        for path in (store.transcript(name), store.trajectory(name)):
            if not path.is_file():
                raise UserError(
                    f"{path} is missing: a package needs the trajectory of every instance"
                )
            target = package.trajectories / f"{name}{path.suffix}"
            yield target, _redacted_bytes(path, redact)


def _redacted_bytes(path: Path, redact: Redactor) -> bytes:
    text = path.read_bytes().decode("utf-8", "surrogateescape")
    return redact(text).encode("utf-8", "surrogateescape")


def _entry(
    package: PackageFolder,
    submission: Submission,
    logo: Path,
    redact: Redactor,
) -> PackageFiles:
    meta = submission.meta
    metadata = yaml.safe_dump(
        meta.metadata(several_attempts=submission.has_choice),
        sort_keys=False,
        allow_unicode=True,
        width=10_000,
    )
    yield package.entry / METADATA, metadata.encode()
    yield package.readme, redact(readme(submission)).encode()
    yield package.entry / meta.logo_name, logo.read_bytes()
    for name, result in submission.results.items():
        text = json.dumps(result, indent=1) + "\n"
        yield package.entry / "results" / name, text.encode()


def _write(files: PackageFiles) -> None:
    for path, data in files:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
