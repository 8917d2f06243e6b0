"""Check ``all_preds.jsonl``, and ``trajs/`` for hidden knowledge."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from bench.instances.instance import Evaluation, Instance
from bench.repos.mirrors import Mirrors, has_commit
from bench.repos.patches import applies_to
from core.git import GitError
from reports.data.predictions import ALL_PREDS
from reports.submission.hidden import base_lookup, hidden_of, texts_of, traces
from reports.submission.package import PackageFolder, fault_line
from runs.patches import is_excluded, split_patch
from runs.storage.store import read_trajectory_file

Halves = Mapping[str, tuple[Instance, Evaluation]]
PackagePredictions = Sequence[Mapping[str, str]]
"""The predictions of a package."""


def read_lines(package: PackageFolder) -> PackagePredictions:
    text = (package.artifacts / ALL_PREDS).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def check_predictions(
    package: PackageFolder, lines: PackagePredictions, halves: Halves, mirrors: Mirrors
) -> Iterator[str]:
    """Yield the faults of patches; one is applied only where a mirror has the base commit."""
    path = (package.artifacts / ALL_PREDS).relative_to(package.root)
    for number, line in enumerate(lines, 1):
        patch = line["model_patch"]
        if not patch.strip():
            continue
        place = f"{path}:{number}"
        instance, _ = halves[line["instance_id"]]
        yield from _encoding(place, line["instance_id"], patch)
        yield from _tests(place, patch)
        yield from _applies(place, instance, patch, mirrors)


def _encoding(place: str, instance_id: str, patch: str) -> Iterator[str]:
    try:
        patch.encode("utf-8")
    except UnicodeEncodeError:
        problem = f"the patch of {instance_id} is not UTF-8"
        fix = "predict a patch without such lines, and evaluate again"
        yield fault_line("unreadable", place, problem, fix)


_PLAIN_HEADER = re.compile(r"^\+\+\+ (?:b/)?([^\t\n]+)", re.MULTILINE)


def _tests(place: str, patch: str) -> Iterator[str]:
    data = patch.encode("utf-8", "surrogateescape")
    parts = [(part.path, part.new) for part in split_patch(data)]
    if not parts:
        parts = [(path, False) for path in _PLAIN_HEADER.findall(patch)]
    if not parts or any(not path.strip("/. ") for path, _ in parts):
        yield fault_line("patch", place, "the patch names no file", "use git's format")
        return
    excluded = [path for path, new in parts if is_excluded(path, new=new)]
    if excluded:
        problem = f"the patch edits {', '.join(excluded[:3])}"
        fix = "remove tests, test configuration and build output, and evaluate again"
        yield fault_line("test edit", place, problem, fix)


def _applies(
    place: str, instance: Instance, patch: str, mirrors: Mirrors
) -> Iterator[str]:
    mirror = mirrors.find(instance.repo)
    if mirror is None or not has_commit(mirror, instance.base_commit):
        return
    try:
        fits = applies_to(mirror, instance.base_commit, patch)
    except GitError:
        return  # the mirror's fault, not the package's
    if not fits:
        problem = f"the patch does not apply to {instance.base_commit[:12]} of {instance.repo}"
        yield fault_line("patch", place, problem, "predict a patch that applies")


def check_trajectories(
    package: PackageFolder, lines: PackagePredictions, halves: Halves, mirrors: Mirrors
) -> Iterator[str]:
    """Yield each hidden field of an instance that its trajectory shows to a model."""
    for line in lines:
        path = package.trajectories / f"{line['instance_id']}.json"
        instance, evaluation = halves[line["instance_id"]]
        trajectory = texts_of(read_trajectory_file(path, instance.instance_id))
        fields = hidden_of(instance, evaluation)
        base = base_lookup(instance, mirrors)
        for what, example in traces(trajectory, fields, line["model_patch"], base):
            problem = f"shows {what}: {example[:80]!r}"
            fix = "find out how it got there; an attempt with hidden knowledge does not count"
            yield package.fault("trace", path, problem, fix)
