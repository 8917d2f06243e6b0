"""Check ``all_preds.jsonl``, and ``trajs/`` for hidden knowledge."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.instances.instance import Evaluation, Instance
from bench.repos.mirrors import Mirrors, has_commit
from bench.repos.patches import applies_to, is_excluded, split_patch
from core.git import GitError
from core.parsing.untrusted import read_object
from reports.data.predictions import ALL_PREDS
from reports.submission.hidden import base_lookup, hidden_of, traces, trajectory_of_json
from reports.submission.package import Kind, PackageFinding, PackageFolder

Halves = Mapping[str, tuple[Instance, Evaluation]]


@dataclass(frozen=True)
class PatchLine:
    """One prediction of the package; ``place`` is its file and line."""

    place: str
    instance_id: str
    patch: str


def read_lines(package: PackageFolder) -> list[PatchLine]:
    path = package.artifacts / ALL_PREDS
    place = path.relative_to(package.root)
    lines = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        row = json.loads(line)
        lines.append(PatchLine(f"{place}:{number}", row["instance_id"], row["model_patch"]))
    return lines


def check_predictions(
    lines: Sequence[PatchLine], halves: Halves, mirrors: Mirrors
) -> Iterator[PackageFinding]:
    """Yield the faults of patches; one is applied only where a mirror has the base commit."""
    for line in lines:
        if not line.patch.strip():
            continue
        instance, _ = halves[line.instance_id]
        yield from _encoding(line)
        yield from _tests(line)
        yield from _applies(line, instance, mirrors)


def _encoding(line: PatchLine) -> Iterator[PackageFinding]:
    try:
        line.patch.encode("utf-8")
    except UnicodeEncodeError:
        problem = f"the patch of {line.instance_id} is not UTF-8"
        fix = "predict a patch without such lines, and evaluate again"
        yield PackageFinding(Kind.UNREADABLE, line.place, problem, fix)


_PLAIN_HEADER = re.compile(r"^\+\+\+ (?:b/)?([^\t\n]+)", re.MULTILINE)


def _tests(line: PatchLine) -> Iterator[PackageFinding]:
    data = line.patch.encode("utf-8", "surrogateescape")
    parts = [(part.path, part.new) for part in split_patch(data)]
    if not parts:
        parts = [(path, False) for path in _PLAIN_HEADER.findall(line.patch)]
    if not parts or any(not path.strip("/. ") for path, _ in parts):
        problem = "the patch names no file"
        yield PackageFinding(Kind.PATCH, line.place, problem, "use git's format")
        return
    excluded = [path for path, new in parts if is_excluded(path, new=new)]
    if excluded:
        problem = f"the patch edits {', '.join(excluded[:3])}"
        fix = "remove tests, test configuration and build output, and evaluate again"
        yield PackageFinding(Kind.TEST_EDIT, line.place, problem, fix)


def _applies(line: PatchLine, instance: Instance, mirrors: Mirrors) -> Iterator[PackageFinding]:
    mirror = mirrors.find(instance.repo)
    if mirror is None or not has_commit(mirror, instance.base_commit):
        return
    try:
        fits = applies_to(mirror, instance.base_commit, line.patch)
    except GitError:
        return  # the mirror's fault, not the package's
    if not fits:
        problem = f"the patch does not apply to {instance.base_commit[:12]} of {instance.repo}"
        yield PackageFinding(Kind.PATCH, line.place, problem, "predict a patch that applies")


def check_trajectories(
    package: PackageFolder, lines: Sequence[PatchLine], halves: Halves, mirrors: Mirrors
) -> Iterator[PackageFinding]:
    """Yield each hidden field of an instance that its trajectory shows to a model."""
    for line in lines:
        path = package.trajectories / f"{line.instance_id}.json"
        instance, evaluation = halves[line.instance_id]
        trajectory = trajectory_of_json(read_object(path, "redo the instance"))
        fields = hidden_of(instance, evaluation)
        base = base_lookup(instance, mirrors)
        for what, example in traces(trajectory, fields, line.patch, base):
            problem = f"shows {what}: {example[:80]!r}"
            fix = "find out how it got there; an attempt with hidden knowledge does not count"
            yield package.fault(Kind.TRACE, path, problem, fix)
