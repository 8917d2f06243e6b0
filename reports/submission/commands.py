"""The commands ``report.py --submission`` and ``report.py --validate``."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from bench.instances.dataset import Dataset, load_dataset
from core.errors import UserError
from core.plaintext import one_line
from core.redaction import Redactor
from reports.cli.options import SubmissionOptions
from reports.data.jsonvalues import mapping
from reports.data.predictions import ALL_PREDS, IMPORTED
from reports.data.provenance import Groups, provenance
from reports.data.rundata import RunData, read_run
from reports.evaluation.evaluators.base import PATCH_FILE, REPORT_FILE
from reports.statistics.methods.intervals import wilson
from reports.submission.entry import research_notes
from reports.submission.hidden import mirrors_at_hand
from reports.submission.meta import Meta, read_meta
from reports.submission.order import (
    COPIED,
    EvaluatedPatch,
    Order,
    check_described,
    evaluated_patches,
)
from reports.submission.package import RESEARCH_NOTICE, PackageFolder, Split, locate
from reports.submission.summary import (
    BY_REPO_FILE,
    BY_TIME_FILE,
    Lists,
    Shares,
    by_repo,
    by_time,
    lists_of,
    summary_lines,
)
from reports.submission.validation import Against, validate
from runs.storage.layouts import RESULTS_FILE
from runs.storage.store import RunStore

Say = Callable[[str], None]


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
        self._predictions(artifacts / ALL_PREDS)
        for one in found:
            self._logs(artifacts / "logs", one)
        for instance in self.run.instances:
            self._trajectory(artifacts / "trajs", instance.instance_id)
        meta = self.order.meta
        name = f"{meta.date:%Y%m%d}_{meta.folder}"
        self._entry(self.root / ENTRY / "evaluation" / self.order.split.value / name, lists)

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
        facts, meta = self._facts(folder.name, lists), self.order.meta
        metadata = meta.metadata(several_attempts=facts.several).model_dump()
        text = yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True, width=10_000)
        _write(folder / "metadata.yaml", text.encode())
        _write(folder / "README.md", self.order.redact(readme(meta, facts)).encode())
        _write(folder / meta.logo_name, self.order.logo.read_bytes())
        results = folder / "results"
        _write_json(results / RESULTS_FILE, lists.as_json())
        _write_json(results / BY_REPO_FILE, facts.repos)
        _write_json(results / BY_TIME_FILE, facts.years)

    def _facts(self, name: str, lists: Lists) -> Facts:
        rows = self.order.rows
        origins = {instance.origin for instance in self.run.instances}
        return Facts(
            name=name,
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


_BUILTIN = "builtin"
_GROUPS = ("run", "times", IMPORTED, "versions", "dataset", "prices", "models", "evaluation")
# The parameters that are needed to repeat the run and contain no local path.
_PARAMETERS = (
    "tries", "temperatures", "environment", "tests", "require_tests", "all_attempts",
    "max_reflections", "matching", "on_failed_edit", "map_tokens", "max_output_tokens",
    "test_timeout", "baseline_timeout",
)  # fmt: skip


@dataclass(frozen=True)
class Facts:
    """The content of the README."""

    name: str  # of the entry's folder
    split: str
    total: int  # the number of instances of the split, the denominator of the score
    attempts: int  # the largest number on one instance
    several_runs: bool  # predictions were chosen from several runs
    lists: Lists
    repos: Shares
    years: Shares
    described: Mapping[str, Any]  # run.json
    others_evaluated: bool  # attempts that are not predicted have verdicts, too
    provenance: Groups
    marked: tuple[str, ...]  # ids of predictions that edit test configuration

    @property
    def several(self) -> bool:
        """Whether the score is best@k instead of that of single attempts."""
        return self.attempts > 1 or self.several_runs


def readme(meta: Meta, facts: Facts) -> str:
    return "\n".join([*_head(meta), *_score(facts), *_checklist(meta, facts), *_record(facts)])


def _head(meta: Meta) -> Iterator[str]:
    yield f"# {meta.name}\n"
    yield f"- Site: {meta.site}"
    yield f"- Report: {meta.report}"
    yield f"- Authors: {', '.join(meta.authors)}"
    yield f"- First author: {meta.authors[0]}, {meta.first_author_site}"
    if meta.affiliations:
        yield f"- Affiliations: {', '.join(meta.affiliations)}"
    yield f"- Predictions, logs and trajectories: {meta.artifacts}\n"


def _score(facts: Facts) -> Iterator[str]:
    resolved = len(facts.lists.resolved)
    yield f"## Results on {facts.split}\n"
    interval = wilson(resolved, facts.total)
    share = f"{100 * resolved / facts.total:.2f}%" if facts.total else "-"
    yield (
        f"Resolved {resolved} of {facts.total} instances ({share}; 95 % "
        f"Wilson interval {100 * interval.low:.1f} to {100 * interval.high:.1f})."
    )
    yield (
        f"Without a patch: {len(facts.lists.no_generation)}; without an evaluation's report: "
        f"{len(facts.lists.no_logs)}. Both count as unresolved.\n"
    )
    yield "```"
    yield from summary_lines(facts.name, facts.split, facts.lists, facts.repos, facts.years)
    yield "```\n"
    if facts.marked:
        ids = ", ".join(map(one_line, facts.marked))
        yield f"Predictions that edit test configuration: {ids}.\n"


def _checklist(meta: Meta, facts: Facts) -> Iterator[str]:
    yield "## Checklist\n"
    if IMPORTED in facts.described:
        yield from _of_others(meta, facts)
        return
    yield f"- [x] Is a pass@1 submission: one prediction per instance. {_attempts_row(facts)}"
    yield (
        "- [x] Does not use SWE-bench test knowledge (`PASS_TO_PASS`, `FAIL_TO_PASS`). The harness "
        "keeps the gold patch, the test patch and both lists from everything that works on an "
        "instance; tests that were run, if any, are those of the base commit, chosen by the names "
        "and imports of the files that an attempt edited."
    )
    yield "- [x] Does not use the `hints` field of SWE-bench."
    yield f"- [x] {_web(meta)}"
    agent = mapping(facts.described.get("config")).get("agent")
    # A command's template may contain secrets; its kind is enough here.
    if agent not in (None, _BUILTIN) and (kind := str(agent).split(":", 1)[0]):
        yield (
            f"\nThe attempts were made by another agent than the harness's own ({kind}): the "
            "harness gave it the issue and a checkout of one commit, and cannot speak for more."
        )
    yield ""


def _of_others(meta: Meta, facts: Facts) -> Iterator[str]:
    layout = str(mapping(facts.described[IMPORTED]).get("layout", ""))
    yield "- [ ] Is a pass@1 submission: one prediction per instance."
    yield "- [ ] Does not use SWE-bench test knowledge (`PASS_TO_PASS`, `FAIL_TO_PASS`)."
    yield "- [ ] Does not use the `hints` field of SWE-bench."
    yield f"- [ ] {_web(meta)}"
    yield (
        f"\nThe run was made by another harness ({one_line(layout)}) and imported; its authors "
        "have to check these boxes.\n"
    )


def _attempts_row(facts: Facts) -> str:
    if not facts.several:
        return "One attempt was made on each."
    runs = " and several runs were combined" if facts.several_runs else ""
    done = "evaluated"
    if facts.others_evaluated:
        done = "submitted; others were evaluated after the choice, for pass@k"
    return (
        f"It is best@k with one prediction: up to {facts.attempts} attempts were made on an "
        f"instance{runs}; the harness chose one of them by its edits, its lint and the tests of "
        "the base commit, without any knowledge of the evaluation, and only that one was "
        f'{done} (`attempts: "2+"`).'
    )


def _web(meta: Meta) -> str:
    if not meta.web_browsing:
        return "Does not have web browsing."
    return f"Can browse the web, and could not look solutions up: {meta.web_measures.strip()}"


def _record(facts: Facts) -> Iterator[str]:
    yield "## How it was made\n"
    for group, pairs in facts.provenance.items():
        # The groups of a combination end with the name of the run.
        kind = group.partition(" of the run ")[0]
        for name, value in pairs:
            if kind in _GROUPS or (kind == "parameters" and name in _PARAMETERS):
                yield f"- {one_line(group)}: {one_line(name)}: {one_line(value)}"
    yield "- evaluation: swebench, in its own images\n"
