"""What a run of ``generate`` writes about a job: the file of completions, and a record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import DamagedFileError
from core.money import as_number, dollars_or_none, total
from core.plaintext import counted
from exercises.canitedit.generation.job import CompletionJob, Generated
from exercises.canitedit.results import Completion, ProblemFile, file_name, write_file
from runs.calls.coordinator import CallCoordinator
from runs.jobs import Finished
from runs.progress.statuses import InstanceStatus
from runs.storage.store import RunStore

_COUNTS = ("completions", "truncated", "empty", "unchanged", "not_applied", "refused")
_SHOWN = {"not_applied": "not applied"}


@dataclass(frozen=True)
class CompletionSaver:
    """Saves the results of one start of a run.

    Attributes:
        folders: of the models' files, by key of a job.
        say: prints a line for the user.
    """

    store: RunStore
    folders: dict[str, str]
    say: Callable[[str], None]

    def __call__(self, finished: Finished[Generated], coordinator: CallCoordinator) -> None:
        """Write the file of a complete job, then its record, which says that it is done.

        Raises:
            OSError: the result cannot be written.
        """
        made = finished.value
        if made is None or not made.content.completions:
            self._keep_unfinished(finished)
            return
        path: Path | None = None
        if finished.status is InstanceStatus.PLAUSIBLE:
            folder = self.store.folder / self.folders[finished.key]
            folder.mkdir(parents=True, exist_ok=True)
            path = write_file(folder, self._redacted(made.content))
        coordinator.ledger.sync()
        self.store.save_instance(finished.key, self._record(finished, made, path), None, None)

    def _redacted(self, content: ProblemFile) -> ProblemFile:
        """Return the file without secrets that a model might repeat."""
        redact = self.store.redact.of
        made = (redact(one.model_dump(mode="json")) for one in content.completions)
        completions = tuple(map(Completion.model_validate, made))
        return ProblemFile(content.problem, content.kind, content.sampling, completions)

    def _record(
        self, finished: Finished[Generated], made: Generated, path: Path | None
    ) -> dict[str, Any]:
        content = made.content
        cost = total(dollars_or_none(one.cost) for one in content.completions)
        return {
            "instance_id": finished.key,
            "status": finished.status.value,
            "reason": finished.reason,
            "folder": self.folders[finished.key],
            "file": path.name if path else None,
            **_counted(content, len(made.refusals)),
            "refusals": sorted({*made.refusals}),
            "cost": as_number(cost),
        }

    def _keep_unfinished(self, finished: Finished[Generated]) -> None:
        content: dict[str, Any] = {
            "instance_id": finished.key,
            "status": finished.status.value,
            "reason": finished.reason,
            "attempts": [],
        }
        try:
            self.store.save_unfinished(finished.key, content)
        except OSError as error:  # a full disk must not hide what went wrong first
            self.say(f"{finished.key}: cannot save why it ended: {error}")


def _counted(content: ProblemFile, refused: int) -> dict[str, int]:
    made, before = content.completions, content.problem.before.rstrip("\n")
    return {
        "completions": len(made),
        "truncated": sum(bool(one.truncated) for one in made),
        "empty": sum(not one.program.strip() for one in made),
        "unchanged": sum(one.program.rstrip("\n") == before for one in made),
        "not_applied": sum(one.applied is False for one in made),
        "refused": refused,
    }


def completion_file(store: RunStore, job: CompletionJob, *, evaluated: bool = False) -> Path:
    """Return the path of the completions of a job, or of their evaluation."""
    return store.folder / job.folder / file_name(job.problem, job.kind, evaluated=evaluated)


def reopen(store: RunStore, jobs: Iterable[CompletionJob]) -> None:
    """Make jobs whose files were removed jobs to do; what they cost stands in their journals."""
    for job in jobs:
        record = store.prediction(job.key)
        with suppress(DamagedFileError):
            if record.exists() and not completion_file(store, job).exists():
                done = store.read_prediction(record).get("status")
                if done == InstanceStatus.PLAUSIBLE.value:
                    record.unlink()


def folder_lines(store: RunStore, jobs: Sequence[CompletionJob]) -> Iterator[str]:
    """Yield a line for each model's folder: what is in it so far."""
    for folder in dict.fromkeys(job.folder for job in jobs):
        mine = [job for job in jobs if job.folder == folder]
        found = [record for job in mine if (record := _complete(store, job))]
        sums = {name: sum(int(one.get(name) or 0) for one in found) for name in _COUNTS}
        first, *others = _COUNTS
        parts = [counted(sums[first], "completion")]
        parts += [f"{sums[name]:,} {_SHOWN.get(name, name)}" for name in others if sums[name]]
        files = f"{len(found)} of {counted(len(mine), 'file')}"
        yield f"{store.folder / folder}: {files}, {', '.join(parts)}"


def _complete(store: RunStore, job: CompletionJob) -> dict[str, Any] | None:
    with suppress(DamagedFileError, FileNotFoundError):
        record = store.read_prediction(store.prediction(job.key))
        return record if record.get("file") else None
    return None
