"""Find the artifacts and the entry of a package, whichever harness wrote it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from reports.data.predictions import ALL_PREDS
from reports.submission.checks.findings import Kind, PackageFinding
from reports.submission.reading import Folder, Sort
from reports.submission.splits import Split, entry_date

_DEEPEST = 6
_DATA = ("logs", "trajs", "results", ".git")


@dataclass(frozen=True)
class Places:
    """The folders of a package; they are the same folder in the older layout.

    Attributes:
        artifacts: contains ``all_preds.jsonl``, ``logs`` and ``trajs``.
        entry: contains ``metadata.yaml`` and ``results``.
        faults: folders that are missing or found twice.
    """

    artifacts: Folder | None
    entry: Folder | None
    faults: tuple[PackageFinding, ...]

    @property
    def split(self) -> Split | None:
        """The split, named by the entry's parent folder."""
        try:
            return Split(self.entry.path.parent.name) if self.entry else None
        except ValueError:
            return None


def locate(root: Folder) -> Places:
    """Return the folders of the package in ``root``."""
    folders = list(_folders(root, _DEEPEST))
    artifacts = [f for f in folders if _has(f, ALL_PREDS)]
    artifacts = artifacts or [f for f in folders if _has(f, "trajs") or _has(f, "logs")]
    entries = [f for f in folders if _has(f, "metadata.yaml") or _has(f, "results")]
    entries = entries or [f for f in folders if entry_date(f.path.name)]
    faults = [
        *_faults(artifacts, f"{ALL_PREDS}, logs/ and trajs/", "the artifacts"),
        *_faults(entries, "metadata.yaml and results/", "the entry"),
    ]
    return Places(next(iter(artifacts), None), next(iter(entries), None), tuple(faults))


def _faults(found: list[Folder], content: str, half: str) -> Iterator[PackageFinding]:
    if not found:
        problem = f"no folder contains {content}"
        yield PackageFinding(Kind.MISSING, ".", problem, f"add {half} to the package")
    for other in found[1:]:
        problem = f"{half} are here and in {found[0].place()}"
        yield PackageFinding(
            Kind.DUPLICATE, other.place(), problem, "keep one of them in the package"
        )


def _has(folder: Folder, name: str) -> bool:
    return folder.sort(name) is not Sort.NOTHING


def _folders(folder: Folder, depth: int) -> Iterator[Folder]:
    yield folder
    for name in folder.names() if depth else ():
        if name not in _DATA and folder.sort(name) is Sort.FOLDER:
            yield from _folders(folder.below(name), depth - 1)
