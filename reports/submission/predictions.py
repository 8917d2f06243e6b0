"""Check ``all_preds.jsonl``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.instances.instance import Instance
from bench.repos.mirrors import Mirrors, has_commit
from bench.repos.patches import applies_to, is_excluded, split_patch
from core.git import GitError
from reports.data.predictions import ALL_PREDS
from reports.submission.package import Kind, PackageFinding, PackageFolder, UnusableError

_KEYS = ("instance_id", "model_name_or_path", "model_patch")
_PLAIN_HEADER = re.compile(r"^\+\+\+ (?:b/)?([^\t\n]+)", re.MULTILINE)


@dataclass(frozen=True)
class PatchLine:
    """One prediction of the package; ``place`` is its file and line."""

    place: str
    instance_id: str
    model: str
    patch: str  # empty if there is none

    @property
    def generated(self) -> bool:
        """Whether there is a patch."""
        return bool(self.patch.strip())


def read_lines(artifacts: PackageFolder) -> tuple[list[PatchLine], list[PackageFinding]]:
    """Return the predictions, and the faults of the other lines."""
    try:
        text = artifacts.text(ALL_PREDS)
    except UnusableError as error:
        return [], [error.finding]
    lines, faults = [], []
    for number, part in enumerate(text.removesuffix("\n").split("\n"), 1):
        try:
            lines.append(_line(artifacts, f"{ALL_PREDS}:{number}", part))
        except UnusableError as error:
            faults.append(error.finding)
    return lines, faults


def _line(artifacts: PackageFolder, place: str, text: str) -> PatchLine:
    if not text.strip():
        raise artifacts.unusable(Kind.UNREADABLE, place, "is blank", "delete the line")
    data = artifacts.parsed(place, text)
    if not isinstance(data, dict) or not all(isinstance(data.get(k) or "", str) for k in _KEYS):
        problem = f"is not a prediction with the texts {', '.join(_KEYS)}"
        raise artifacts.unusable(Kind.UNREADABLE, place, problem, "write these three keys")
    name, model, patch = (str(data.get(key) or "") for key in _KEYS)
    try:
        (name + model + patch).encode("utf-8")
    except UnicodeEncodeError as error:
        problem = "contains half a character"
        raise artifacts.unusable(Kind.UNREADABLE, place, problem, "write it as UTF-8") from error
    return PatchLine(artifacts.place(place), name, model, patch)


def check_predictions(
    lines: Sequence[PatchLine], instances: Mapping[str, Instance], mirrors: Mirrors | None
) -> Iterator[PackageFinding]:
    """Yield the faults of predictions; without mirrors, patches are not applied."""
    yield from _ids(lines, instances)
    yield from _model(lines)
    for line in lines:
        yield from _tests(line)
        instance = instances.get(line.instance_id)
        if line.generated and instance and mirrors:
            yield from _applies(line, instance, mirrors)


def _ids(lines: Sequence[PatchLine], known: Mapping[str, Instance]) -> Iterator[PackageFinding]:
    first: dict[str, PatchLine] = {}
    for line in lines:
        if line.instance_id not in known:
            problem = f"{line.instance_id or 'an empty id'} is not in the dataset"
            yield PackageFinding(Kind.UNKNOWN_ID, line.place, problem, "delete the line")
        elif (other := first.setdefault(line.instance_id, line)) is not line:
            problem = f"2 predictions for {line.instance_id}: the other is at {other.place}"
            yield PackageFinding(
                Kind.DUPLICATE, line.place, problem, "keep the one that was evaluated"
            )


def _model(lines: Sequence[PatchLine]) -> Iterator[PackageFinding]:
    names = Counter(line.model for line in lines)
    usual = names.most_common(1)[0][0] if names else ""
    for line in lines:
        if line.model != usual or not line.model:
            problem = f"the model is named {line.model!r}, others {usual!r}"
            fix = "use one name in all predictions and evaluate again"
            yield PackageFinding(Kind.MODEL_NAME, line.place, problem, fix)


def _tests(line: PatchLine) -> Iterator[PackageFinding]:
    if not line.generated:
        return
    parts = [(part.path, part.new) for part in split_patch(line.patch.encode())]
    parts = parts or [(path, False) for path in _PLAIN_HEADER.findall(line.patch)]
    if not parts or any(not path.strip("/. ") for path, _ in parts):
        problem = "the patch names no file"
        yield PackageFinding(Kind.PATCH, line.place, problem, "use git's format")
    elif paths := [path for path, new in parts if is_excluded(path, new=new)]:
        problem = f"the patch edits {', '.join(paths[:3])}"
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
