"""Changes that plant one fault in a package."""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reports.submission.package import Kind
from tests.reports.evaluated_run import change_json
from tests.reports.submission.packages import ID, Change, Package, append

Plant = Callable[[Package], object]
Fault = tuple[Plant, Kind, str]


def edit_patch(package: Package, text: str) -> None:
    """Append to all copies of one patch, so that only the patch itself has a fault."""

    def recorded(data: dict[str, Any]) -> None:
        winner = next(a for a in data["attempts"] if a["attempt"] == data["winner"])
        winner["recorded"]["model_patch"] += text

    package.change_prediction(lambda row: row.update(model_patch=row["model_patch"] + text))
    append(package.logs / "patch.diff", text)
    change_json(package.trajectory, recorded)


def second_line(package: Package) -> None:
    path = package.artifacts / "all_preds.jsonl"
    append(path, path.read_text().splitlines()[0] + "\n")


def second_entry(package: Package) -> None:
    shutil.copytree(package.entry, package.entry.with_name("20260201_again"))


def link(package: Package) -> None:
    (package.artifacts / f"trajs/{ID}.md").unlink()
    (package.artifacts / f"trajs/{ID}.md").symlink_to("/etc/passwd")


def link_to_folder(package: Package) -> None:
    shutil.rmtree(package.artifacts / "logs")
    (package.artifacts / "logs").symlink_to("/etc")


def pipe(package: Package) -> None:
    (package.artifacts / "all_preds.jsonl").unlink()
    os.mkfifo(package.artifacts / "all_preds.jsonl")


def huge(package: Package) -> None:
    with (package.artifacts / "trajs" / f"{ID}.md").open("r+") as stream:
        stream.truncate(10**9)


def bomb(package: Package) -> None:
    data = gzip.compress(b"\0" * 20_000_000)
    (package.logs / "test_output.txt.gz").write_bytes(data)


def log_with(text: bytes) -> Callable[[Package], None]:
    def plant(package: Package) -> None:
        (package.logs / "test_output.txt.gz").write_bytes(gzip.compress(text))

    return plant


def rename_entry(name: str, split: str = "lite") -> Callable[[Package], None]:
    def plant(package: Package) -> None:
        place = package.root / "entry/evaluation" / split / name
        place.parent.mkdir(exist_ok=True)
        package.entry.rename(place)

    return plant


def in_results(name: str, change: Any) -> Callable[[Package], None]:
    return lambda package: change_json(package.entry / "results" / name, change)


def in_trajectory(change: Change) -> Callable[[Package], None]:
    return lambda package: change_json(package.trajectory, change)


def in_metadata(change: Change) -> Callable[[Package], None]:
    return lambda package: package.change_metadata(change)


def in_prediction(change: Change) -> Callable[[Package], None]:
    return lambda package: package.change_prediction(change)


def delete(place: Callable[[Package], Path]) -> Callable[[Package], None]:
    def plant(package: Package) -> None:
        path = place(package)
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return plant


def in_file(place: Callable[[Package], Path], content: bytes) -> Callable[[Package], None]:
    def plant(package: Package) -> None:
        place(package).parent.mkdir(parents=True, exist_ok=True)
        place(package).write_bytes(content)

    return plant


def unsay(text: str) -> Callable[[Package], None]:
    def plant(package: Package) -> None:
        path = package.entry / "README.md"
        assert text in path.read_text()
        path.write_text(path.read_text().replace(text, ""))

    return plant
