"""From dataset names to rows: bundled sets, files, saved folders and task repositories."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from swe_retry.core.errors import UserError
from swe_retry.core.hashing import sha256_of
from swe_retry.core.plaintext import did_you_mean
from swe_retry.instances.adapters.adapter import Row
from swe_retry.instances.hub import rows_of_hub
from swe_retry.instances.instance import Instance
from swe_retry.instances.split import instance_id_of, split_row
from swe_retry.repositories.names import ALIASES, BUNDLED, DatasetName

# Left out of ``run.json`` where they are empty: few datasets have them.
_RARE_FIELDS = ("config", "neutral_ids")
_SUFFIXES = (".json", ".jsonl", ".parquet")
_SUPPORTED = (
    "supported are .json (a list of rows), .jsonl (a row a line), .parquet, a folder saved by "
    "`datasets`, and a task repository"
)


@dataclass(frozen=True)
class DatasetIdentity:
    """The dataset of a run, without its rows.

    Attributes:
        name: a hub id, a path or ``demo``.
        sha256: hash of the rows in any order.
        revision: the hub's commit; empty if there is none or it is unknown.
        neutral_ids: the harness's ids are not the set's own.
    """

    name: str
    split: str
    sha256: str
    revision: str = ""
    config: str = ""
    neutral_ids: bool = False

    def as_json(self) -> dict[str, Any]:
        values = {}
        for key, value in asdict(self).items():
            if value or key not in _RARE_FIELDS:
                values[key] = value
        return values


@dataclass(frozen=True)
class Dataset:
    """All rows of one split."""

    name: str
    split: str
    rows: tuple[Row, ...]
    revision: str = ""
    config: str = ""

    def identity(self) -> DatasetIdentity:
        """Return what a run records of the dataset; this hashes all rows."""
        lines = []
        for row in self.rows:
            lines.append(json.dumps(row, sort_keys=True, default=str))
        return DatasetIdentity(
            name=self.name,
            split=self.split,
            sha256=sha256_of("\n".join(sorted(lines))),
            revision=self.revision,
            config=self.config,
            neutral_ids=bool(self.official_ids),
        )

    def instances(self) -> tuple[Instance, ...]:
        """Return the harness's halves of the rows; the other halves are dropped here."""
        return tuple(split_row(row)[0] for row in self.rows)

    @cached_property
    def by_id(self) -> Mapping[str, Row]:
        """The rows by the id under which the harness knows them."""
        return {instance_id_of(row): row for row in self.rows}

    @cached_property
    def by_any_id(self) -> Mapping[str, Row]:
        """The rows by the harness's ids, and by the sets' own, which other harnesses use."""
        rows = {}
        for name, official in self.official_ids.items():
            rows[official] = self.by_id[name]
        rows.update(self.by_id)
        return rows

    def statements(self, ids: Iterable[str]) -> dict[str, str]:
        """Return the problem statements of those of ``ids`` that the dataset has."""
        statements = {}
        for name in ids:
            if name in self.by_id:
                instance = split_row(self.by_id[name])[0]
                statements[instance.instance_id] = instance.problem_statement
        return statements

    @cached_property
    def official_ids(self) -> Mapping[str, str]:
        """The sets' own ids by the harness's, where they differ and the rows have them."""
        official_ids = {}
        for name, row in self.by_id.items():
            official = str(row.get("instance_id") or name)
            if official != name:
                official_ids[name] = official
        return official_ids


def load_dataset(name: str, split: str, config: str = "") -> Dataset:
    """Load the rows of one split of ``NAME`` or ``NAME@REVISION``.

    Raises:
        UserError: there is no such dataset, or it cannot be read.
        InfrastructureError: the hub cannot be reached.
    """
    dataset_name = DatasetName.parse(name)
    path = _local_path(name)
    if path:
        if config:
            raise UserError(
                f"instances.config {config}: the dataset {name} is not on the hub"
            )
        if name not in BUNDLED:
            name = str(path.resolve())
        rows = rows_of_path(path, split)
        return Dataset(name, split, _check_rows(name, rows))
    hub_id = dataset_name.hub_id
    if not hub_id:
        names = [*ALIASES, *BUNDLED]
        raise UserError(
            f"unknown dataset {name!r}: give {', '.join(names)}, a hub id, a file or a "
            f"folder; {_SUPPORTED}{did_you_mean(name, names)}"
        )
    split = dataset_name.split(split)
    rows, revision = rows_of_hub(hub_id, split, dataset_name.revision, config)
    return Dataset(hub_id, split, _check_rows(hub_id, rows), revision, config)


def needs_hub(name: str) -> bool:
    """Return whether a dataset comes from the hub, or from its cache."""
    return _local_path(name) is None and bool(DatasetName.parse(name).hub_id)


def _local_path(name: str) -> Path | None:
    if name in BUNDLED:
        return BUNDLED[name].path
    path = Path(name).expanduser()
    if path.suffix in _SUFFIXES or path.exists():
        return path
    return None


def _check_rows(name: str, rows: Iterable[Row]) -> tuple[Row, ...]:
    all_rows = tuple(rows)
    if not all_rows:
        raise UserError(
            f"the dataset {name} has no rows in this split; give another one"
        )
    for number, row in enumerate(all_rows, 1):
        if not isinstance(row, Mapping):
            raise UserError(
                f"the dataset {name}: row {number} is not an object with keys"
            )
    counts = Counter(map(instance_id_of, all_rows))
    for instance_id, count in counts.items():
        if count > 1:
            raise UserError(f"the dataset {name} has the instance {instance_id} twice")
    return all_rows


def rows_of_path(path: Path, split: str) -> Iterable[Row]:
    """Return the rows of one split of a file or a folder, unchecked.

    Raises:
        UserError: it does not exist, or cannot be read.
    """
    if not path.exists():
        raise UserError(f"the dataset file {path} does not exist")
    try:
        if path.is_dir():
            return _rows_of_folder(path, split)
        if path.suffix not in _SUFFIXES:
            raise UserError(
                f"the dataset {path}: {path.suffix or 'no'} file; {_SUPPORTED}"
            )
        if not path.stat().st_size:
            raise UserError(f"the dataset {path} is empty; give a file with rows")
        if path.suffix == ".parquet":
            from datasets import Dataset as HubDataset

            return _rows_of_split(HubDataset.from_parquet(str(path)), split)
        text = path.read_text(encoding="utf-8-sig")
    except (ValueError, OSError) as error:
        raise UserError(f"the dataset {path} cannot be read: {error}") from error
    read = _read_json_list
    if path.suffix == ".jsonl":
        read = _read_json_lines
    rows = read(path, text)
    if not rows:
        raise UserError(f"the dataset {path} is empty; give a file with rows")
    return _rows_of_split(rows, split)


def _read_json_list(path: Path, text: str) -> list[Row]:
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"the dataset {path} is not JSON: {error}") from error
    if isinstance(rows, dict):
        rows = list(rows.values())
    if not isinstance(rows, list):
        raise UserError(f"the dataset {path} is not a list of rows; {_SUPPORTED}")
    return rows


def _read_json_lines(path: Path, text: str) -> list[Row]:
    rows = []
    # Only "\n" ends a line of JSONL: issue texts hold U+2028 and form feeds.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            rows.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            position = f"line {number}, column {getattr(error, 'colno', 1)}"
            problem = getattr(error, "msg", error)
            raise UserError(
                f"the dataset {path}, {position}: {problem}; fix that line"
            ) from error
    return rows


def _rows_of_split(rows: Iterable[Row], split: str) -> Iterable[Row]:
    selected = []
    for row in rows:
        # What is no object is refused later.
        if not isinstance(row, Mapping) or row.get("split", split) == split:
            selected.append(row)
    return selected


def _rows_of_folder(path: Path, split: str) -> Iterable[Row]:
    if (path / "tasks").is_dir():
        from swebench.task.repo import load_task_repo

        try:
            rows: Sequence[Row] = load_task_repo(path)
        except (yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
            problem = " ".join(str(error).split())
            raise UserError(
                f"the task repository {path} cannot be read: {problem}"
            ) from error
        return _rows_of_split(rows, split)
    from datasets import DatasetDict, load_from_disk

    folder = path / split
    if not (folder / "dataset_info.json").exists():
        folder = path
    try:
        saved = load_from_disk(str(folder))
    except FileNotFoundError as error:
        raise UserError(
            f"{path} is neither a task repository (no tasks/) nor a folder saved by `datasets`"
        ) from error
    if isinstance(saved, DatasetDict):
        if split not in saved:
            raise UserError(f"{path} has no split {split!r}; it has {', '.join(saved)}")
        saved = saved[split]
    return list(saved)
