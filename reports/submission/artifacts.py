"""Check ``all_preds.jsonl``, and ``trajs/``: all attempts, the choice, no hidden knowledge."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictStr,
    ValidationError,
)

from bench.instances.instance import Evaluation, Instance
from bench.repos.mirrors import Mirrors, has_commit
from bench.repos.patches import applies_to, is_excluded, split_patch
from core.git import GitError
from reports.data.jsonvalues import mapping
from reports.data.predictions import ALL_PREDS, predicted_patch
from reports.submission.hidden import (
    TrajectoryTexts,
    base_lookup,
    hidden_of,
    texts_in,
    traces,
    trajectory_of_json,
)
from reports.submission.package import Kind, PackageFinding, PackageFolder, PathType, UnusableError

Halves = Mapping[str, tuple[Instance, Evaluation]]
# Words of which every trajectory of several attempts contains one, in any harness.
_ATTEMPTS = re.compile(r"attempt|candidate|rollout|sample|trial|\btry\b", re.IGNORECASE)
_CHOICE = re.compile(r"choice|cho[os]|select|winner|best|pick", re.IGNORECASE)
# Shorter texts may be in any file by chance.
_SHORTEST_KNOWN = 16


@dataclass(frozen=True)
class Expected:
    halves: Halves
    mirrors: Mirrors | None
    attempts: str  # the tag of the metadata, ``1`` or ``2+``; empty if unknown


@dataclass(frozen=True)
class File:
    place: str
    text: str
    data: Any = None

    @property
    def ours(self) -> bool:
        """Whether it has the layout of docs/trajectory.md."""
        return isinstance(self.data, dict) and isinstance(self.data.get("attempts"), list)


def check_trajectories(
    artifacts: PackageFolder, lines: Sequence[PatchLine], expected: Expected
) -> Iterator[PackageFinding]:
    trajs = artifacts.below("trajs")
    if trajs.sort() is not PathType.FOLDER:
        yield trajs.fault(Kind.MISSING, "", "is missing", "add the trajectories")
        return
    names: dict[str, list[str]] = {}
    for name in trajs.names():
        # Ids and extensions may contain dots.
        parts = name.split(".")
        stems = (".".join(parts[:n]) for n in range(len(parts) - 1, 0, -1))
        owner = next((stem for stem in stems if stem in expected.halves), None)
        if trajs.sort(name) is PathType.FOLDER:
            problem, fix = "is a folder", "put all trajectories directly into trajs/"
            yield trajs.fault(Kind.TRAJECTORY, name, problem, fix)
        elif owner is None:
            problem = "does not start with an id of the dataset"
            fix = "rename it to <instance_id>.<extension> or delete it"
            yield trajs.fault(Kind.UNKNOWN_ID, name, problem, fix)
        else:
            names.setdefault(owner, []).append(name)
    for line in {line.instance_id: line for line in lines}.values():
        if line.instance_id not in expected.halves:
            continue
        if not names.get(line.instance_id):
            name, fix = f"{line.instance_id}.*", "add the trajectory of the run"
            yield trajs.fault(Kind.TRAJECTORY, name, "is missing", fix)
            continue
        files, faults = _read(trajs, names[line.instance_id])
        yield from faults
        yield from _choice(files, line, expected.attempts)
        yield from _traces(files, line, expected)


def _read(trajs: PackageFolder, names: Sequence[str]) -> tuple[list[File], list[PackageFinding]]:
    files, faults = [], []
    for name in names:
        try:
            text = trajs.text(name)
            if not text.strip():
                raise trajs.unusable(Kind.TRAJECTORY, name, "is empty", "add the run's trajectory")
            suffix, data = PurePosixPath(name).suffix, None
            if suffix in (".json", ".traj"):
                with nullcontext() if suffix == ".json" else suppress(UnusableError):
                    data = trajs.parsed(name, text)  # a ``.traj`` may be a text, too
            files.append(File(trajs.place(name), text, data))
        except UnusableError as error:
            faults.append(error.finding)
    return files, faults


def _traces(files: Sequence[File], line: PatchLine, expected: Expected) -> Iterator[PackageFinding]:
    instance, evaluation = expected.halves[line.instance_id]
    fields = hidden_of(instance, evaluation)
    base = base_lookup(instance, expected.mirrors)
    for file, trajectory in _understood(files):
        for what, example in traces(trajectory, fields, line.patch, base):
            problem = f"shows {what}: {example[:80]!r}"
            fix = "find out how it got there; an attempt with hidden knowledge does not count"
            yield PackageFinding(Kind.TRACE, file.place, problem, fix)


def _understood(files: Sequence[File]) -> Iterator[tuple[File, TrajectoryTexts]]:
    """Yield files with their content; of a text only what the JSON file does not have."""
    known = sorted({t.rstrip() for f in files for t in texts_in(f.data)}, key=len, reverse=True)
    parsed = [(file, trajectory_of_json(file.data)) for file in files if file.data is not None]
    ours = any(file.ours for file in files)
    written = "" if ours else "\n".join(trajectory.written for _, trajectory in parsed)
    yield from parsed
    for file in files:
        if file.data is None:
            rest = file.text
            for text in known:
                if len(text) >= _SHORTEST_KNOWN:
                    rest = rest.replace(text, "")
            yield file, TrajectoryTexts(written=written, rest=rest)


def _choice(files: Sequence[File], line: PatchLine, tag: str) -> Iterator[PackageFinding]:
    ours = [file for file in files if file.ours]
    for file in ours:
        yield from _our_attempts(file, line, tag)
        transcripts = [other for other in files if other.data is None]
        if not transcripts:
            place, fix = f"{PurePosixPath(file.place).with_suffix('.md')}", "copy that of the run"
            yield PackageFinding(Kind.TRAJECTORY, place, "is missing", fix)
        for other in transcripts:
            reason, copy = file.data.get("reason"), "copy the transcript of the run"
            for number in range(1, len(file.data["attempts"]) + 1):
                if f"\n## Attempt {number}: " not in other.text:
                    problem = f"does not show attempt {number}"
                    yield PackageFinding(Kind.ATTEMPTS, other.place, problem, copy)
            if isinstance(reason, str) and reason not in other.text:
                problem = "does not show the choice"
                yield PackageFinding(Kind.ATTEMPTS, other.place, problem, copy)
    if files and not ours and tag == "2+":
        text = "\n".join(file.text for file in files)
        if not _ATTEMPTS.search(text) or not _CHOICE.search(text):
            problem = "does not show all attempts and how one was chosen"
            fix = "add the other attempts and the reason for the choice"
            yield PackageFinding(Kind.ATTEMPTS, files[0].place, problem, fix)


def _our_attempts(file: File, line: PatchLine, tag: str) -> Iterator[PackageFinding]:
    name = file.data.get("instance_id", line.instance_id)
    if name != line.instance_id:
        problem = f"is the trajectory of {name!a}, but is named {line.instance_id}"
        place = f"{file.place}: instance_id"
        yield PackageFinding(Kind.TRAJECTORY, place, problem, "name it by its instance")
    attempts = [a for a in file.data["attempts"] if isinstance(a, dict)]
    numbers = [attempt.get("attempt") for attempt in attempts]
    winner, fix = file.data.get("winner"), "copy the trajectory of the run"
    if numbers != list(range(1, len(file.data["attempts"]) + 1)):
        shown = ", ".join(str(n) if type(n) is int else "?" for n in numbers)
        place = f"{file.place}: attempts"
        yield PackageFinding(Kind.ATTEMPTS, place, f"has the attempts {shown}", fix)
    # An attempt that ended before the first call has neither.
    if not all(a.get("messages") for a in attempts if a.get("calls")):
        yield PackageFinding(Kind.ATTEMPTS, file.place, "an attempt has calls but no messages", fix)
    if not isinstance(file.data.get("reason"), str) or not file.data["reason"].strip():
        words = "does not say why the winner was chosen"
        yield PackageFinding(Kind.ATTEMPTS, f"{file.place}: reason", words, fix)
    if tag == "1" and len(attempts) > 1:
        problem = f"has {len(attempts)} attempts, but the metadata say 1"
        yield PackageFinding(
            Kind.ATTEMPTS, file.place, problem, 'set tags: system: attempts to "2+"'
        )
    if line.generated and _patch_of(attempts, winner) != line.patch.strip():
        problem = f"its winner (attempt {winner}) does not have the predicted patch"
        yield PackageFinding(Kind.ATTEMPTS, f"{file.place}: winner", problem, "predict the winner")


def _patch_of(attempts: Sequence[Mapping[str, Any]], number: object) -> str | None:
    for attempt in attempts:
        recorded = mapping(attempt.get("recorded"))
        patch = recorded.get("model_patch")
        if attempt.get("attempt") == number and isinstance(patch, str):
            # JSON may contain half a character (a lone surrogate).
            writable = patch.encode("utf-8", "replace").decode()
            return predicted_patch({**recorded, "model_patch": writable}).patch.strip()
    return None


_KEYS = ("instance_id", "model_name_or_path", "model_patch")
_PLAIN_HEADER = re.compile(r"^\+\+\+ (?:b/)?([^\t\n]+)", re.MULTILINE)


def _encodable(value: str) -> str:
    value.encode("utf-8")  # JSON may hold half a character
    return value


_Key = Annotated[StrictStr, BeforeValidator(lambda value: value or ""), AfterValidator(_encodable)]


class PatchLine(BaseModel):
    """One prediction of the package; ``place`` is its file and line."""

    model_config = ConfigDict(frozen=True)

    place: str
    instance_id: _Key = ""
    model: _Key = Field("", validation_alias="model_name_or_path")
    patch: _Key = Field("", validation_alias="model_patch")

    @property
    def generated(self) -> bool:
        return bool(self.patch.strip())


def read_lines(artifacts: PackageFolder) -> tuple[list[PatchLine], list[PackageFinding]]:
    try:
        text = artifacts.text(ALL_PREDS)
    except UnusableError as error:
        return [], [error.finding]
    lines, faults = [], []
    for number, part in enumerate(text.removesuffix("\n").split("\n"), 1):
        name = f"{ALL_PREDS}:{number}"
        try:
            if not part.strip():
                raise artifacts.unusable(Kind.UNREADABLE, name, "is blank", "delete the line")
            data = artifacts.parsed(name, part)
            lines.append(PatchLine.model_validate({**data, "place": artifacts.place(name)}))
        except UnusableError as error:
            faults.append(error.finding)
        except (ValidationError, TypeError):
            problem = f"is not a prediction with the texts {', '.join(_KEYS)}"
            fault = artifacts.fault(Kind.UNREADABLE, name, problem, "write these three keys")
            faults.append(fault)
    return lines, faults


def check_predictions(
    lines: Sequence[PatchLine], instances: Mapping[str, Instance], mirrors: Mirrors | None
) -> Iterator[PackageFinding]:
    """Yield the faults of predictions; without mirrors, patches are not applied."""
    first: dict[str, PatchLine] = {}
    for line in lines:
        if line.instance_id not in instances:
            problem = f"{line.instance_id or 'an empty id'} is not in the dataset"
            yield PackageFinding(Kind.UNKNOWN_ID, line.place, problem, "delete the line")
        elif (other := first.setdefault(line.instance_id, line)) is not line:
            problem = f"2 predictions for {line.instance_id}: the other is at {other.place}"
            fix = "keep the one that was evaluated"
            yield PackageFinding(Kind.DUPLICATE, line.place, problem, fix)
    usual = next(iter(Counter(line.model for line in lines).most_common(1)), ("", 0))[0]
    for line in lines:
        if line.model != usual or not line.model:
            problem = f"the model is named {line.model!r}, others {usual!r}"
            fix = "use one name in all predictions and evaluate again"
            yield PackageFinding(Kind.MODEL_NAME, line.place, problem, fix)
    for line in lines:
        yield from _tests(line)
        instance = instances.get(line.instance_id)
        if line.generated and instance and mirrors:
            yield from _applies(line, instance, mirrors)


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
