"""Check ``trajs/``: every prediction, all attempts, the choice, and no hidden knowledge."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from bench.instances.instance import Evaluation, Instance
from bench.repos.mirrors import Mirrors
from reports.data.jsonvalues import mapping
from reports.data.predictions import predicted_patch
from reports.submission.hidden import (
    TrajectoryTexts,
    base_lookup,
    hidden_of,
    texts_in,
    traces,
    trajectory_of_json,
)
from reports.submission.package import Kind, PackageFinding, PackageFolder, PathType, UnusableError
from reports.submission.predictions import PatchLine

Halves = Mapping[str, tuple[Instance, Evaluation]]
# Words of which every trajectory of several attempts contains one, in any harness.
_ATTEMPTS = re.compile(r"attempt|candidate|rollout|sample|trial|\btry\b", re.IGNORECASE)
_CHOICE = re.compile(r"choice|cho[os]|select|winner|best|pick", re.IGNORECASE)
# Shorter texts may be in any file by chance.
_SHORTEST_KNOWN = 16


@dataclass(frozen=True)
class Expected:
    """The data that trajectories are compared with."""

    halves: Halves
    mirrors: Mirrors | None
    attempts: str  # the tag of the metadata, ``1`` or ``2+``; empty if unknown


@dataclass(frozen=True)
class File:
    """One file of a trajectory; ``data`` is None if it is not JSON."""

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
    """Yield the faults of the trajectories of all predictions."""
    trajs = artifacts.below("trajs")
    if trajs.sort() is not PathType.FOLDER:
        yield trajs.fault(Kind.MISSING, "", "is missing", "add the trajectories")
        return
    names, faults = _by_instance(trajs, expected.halves)
    yield from faults
    for line in {line.instance_id: line for line in lines}.values():
        if line.instance_id not in expected.halves:
            continue
        if not names.get(line.instance_id):
            name, fix = f"{line.instance_id}.*", "add the trajectory of the run"
            yield trajs.fault(Kind.TRAJECTORY, name, "is missing", fix)
            continue
        files, faults = _read(trajs, names[line.instance_id])
        yield from faults
        yield from _one(files, line, expected)


def _by_instance(
    trajs: PackageFolder, known: Halves
) -> tuple[dict[str, list[str]], list[PackageFinding]]:
    names: dict[str, list[str]] = {}
    faults = []
    for name in trajs.names():
        owner = _owner(name, known)
        if trajs.sort(name) is PathType.FOLDER:
            problem, fix = "is a folder", "put all trajectories directly into trajs/"
            faults.append(trajs.fault(Kind.TRAJECTORY, name, problem, fix))
        elif owner is None:
            problem = "does not start with an id of the dataset"
            fix = "rename it to <instance_id>.<extension> or delete it"
            faults.append(trajs.fault(Kind.UNKNOWN_ID, name, problem, fix))
        else:
            names.setdefault(owner, []).append(name)
    return names, faults


def _owner(name: str, known: Halves) -> str | None:
    """Return the id in a file's name; ids and extensions may contain dots."""
    stem = name
    while "." in stem:
        stem = stem.rpartition(".")[0]
        if stem in known:
            return stem
    return None


def _read(trajs: PackageFolder, names: Sequence[str]) -> tuple[list[File], list[PackageFinding]]:
    files, faults = [], []
    for name in names:
        try:
            text = trajs.text(name)
            if not text.strip():
                raise trajs.unusable(Kind.TRAJECTORY, name, "is empty", "add the run's trajectory")
            files.append(File(trajs.place(name), text, _data(trajs, name, text)))
        except UnusableError as error:
            faults.append(error.finding)
    return files, faults


def _data(trajs: PackageFolder, name: str, text: str) -> Any:  # noqa: ANN401 - any JSON value
    suffix = PurePosixPath(name).suffix
    if suffix == ".json":
        return trajs.parsed(name, text)
    try:
        return trajs.parsed(name, text) if suffix == ".traj" else None
    except UnusableError:
        return None  # a text file


def _one(files: Sequence[File], line: PatchLine, expected: Expected) -> Iterator[PackageFinding]:
    yield from _choice(files, line, expected.attempts)
    instance, evaluation = expected.halves[line.instance_id]
    fields = hidden_of(instance, evaluation)
    base = base_lookup(instance, expected.mirrors)
    for file, trajectory in _understood(files):
        for what, example in traces(trajectory, fields, line.patch, base):
            problem = f"shows {what}: {example[:80]!r}"
            fix = "find out how it got there; an attempt with hidden knowledge does not count"
            yield PackageFinding(Kind.TRACE, file.place, problem, fix)


def _understood(files: Sequence[File]) -> Iterator[tuple[File, TrajectoryTexts]]:
    """Yield each file with its content.

    A text file repeats the content of the JSON file; only its additional text counts.
    """
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
            yield from _transcript(other, file.data)
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


def _transcript(file: File, data: Mapping[str, Any]) -> Iterator[PackageFinding]:
    for number in range(1, len(data["attempts"]) + 1):
        if f"\n## Attempt {number}: " not in file.text:
            problem = f"does not show attempt {number}"
            yield PackageFinding(
                Kind.ATTEMPTS, file.place, problem, "copy the transcript of the run"
            )
    reason = data.get("reason")
    if isinstance(reason, str) and reason not in file.text:
        problem = "does not show the choice"
        yield PackageFinding(Kind.ATTEMPTS, file.place, problem, "copy the transcript of the run")
