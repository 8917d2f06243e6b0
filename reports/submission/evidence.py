"""Find the files that an evaluation wrote: swebench's report and the test output."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from reports.evaluation.evaluators.base import OUTPUT_FILE, PATCH_FILE, REPORT_FILE, RUN_LOG
from runs.storage.store import RunStore

COPIED = ("eval.sh", RUN_LOG)


@dataclass(frozen=True)
class Evidence:
    """The files of one instance's evaluation, None for missing ones.

    Attributes:
        script: the script that swebench ran in the container (``eval.sh``).
        run_log: swebench's own log (``run_instance.log``).
    """

    report: Path | None = None
    test_output: Path | None = None
    script: Path | None = None
    run_log: Path | None = None


@dataclass(frozen=True)
class EvidenceFinder:
    """Finds the files of a run's evaluations."""

    store: RunStore
    model: str = field(default="")

    def find(self, instance_id: str, patch: str) -> Evidence:
        """Return the files of the evaluation of ``patch``.

        swebench's own folder is preferred if it contains the same patch, because there may be
        files of earlier evaluations; otherwise the files of ``report.py`` in ``logs/<run>/``.
        """
        wanted = patch.encode("utf-8", "surrogateescape").strip()
        kept = self._folders.get(instance_id, ())
        same = [folder for folder in kept if _patch(folder) == wanted]
        # An evaluation that failed for infrastructure reasons has no report.
        for folder in sorted(same, key=lambda f: not (f / REPORT_FILE).is_file())[:1]:
            names = (REPORT_FILE, OUTPUT_FILE, *COPIED)
            return Evidence(*(_file(folder / name) for name in names))
        logs = self.store.logs
        log = f"{instance_id}.{self.model.replace('/', '__')}.eval.log"
        return Evidence(_file(logs / f"{instance_id}.{REPORT_FILE}"), _file(logs / log))

    @cached_property
    def _folders(self) -> dict[str, list[Path]]:
        """swebench's folders by instance; the parent folders differ between its versions."""
        found: dict[str, list[Path]] = {}
        for path in sorted((self.store.logs / "evaluation").glob(f"**/{PATCH_FILE}")):
            found.setdefault(path.parent.name, []).append(path.parent)
        return found


def _patch(folder: Path) -> bytes:
    return (folder / PATCH_FILE).read_bytes().strip()


def _file(path: Path) -> Path | None:
    return path if path.is_file() else None
