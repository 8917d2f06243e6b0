"""From dataset names to rows: aliases, hub ids, files, saved folders and task repositories."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from bench.instances.adapters.base import Row
from bench.instances.instance import Instance, instance_id_of, split_row
from bench.instances.names import ALIASES, BUNDLED, DatasetName
from core.errors import InfrastructureError, UserError

_HELD_REVISION = re.compile(r"^hf://datasets/[^@]+@([0-9a-f]{40})/")
_COMMIT = re.compile(r"[0-9a-f]{7,40}")
_TIMEOUT = 10.0


# Left out of ``run.json`` where they are empty: few datasets have them.
_RARE = ("config", "neutral_ids")
_FILES = (".json", ".jsonl", ".parquet")
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
        plain = asdict(self)
        return {key: plain[key] for key in plain if plain[key] or key not in _RARE}


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
        lines = sorted(
            json.dumps(row, sort_keys=True, default=str) for row in self.rows
        )
        data = "\n".join(lines).encode("utf-8", "surrogatepass")
        sha256 = hashlib.sha256(data).hexdigest()
        return DatasetIdentity(
            self.name,
            self.split,
            sha256,
            self.revision,
            self.config,
            bool(self.official_ids),
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
        own = {
            official: self.by_id[name] for name, official in self.official_ids.items()
        }
        return {**own, **self.by_id}

    def statements(self, ids: Iterable[str]) -> dict[str, str]:
        """Return the problem statements of those of ``ids`` that the dataset has."""
        held = [self.by_id[name] for name in ids if name in self.by_id]
        instances = [split_row(row)[0] for row in held]
        return {one.instance_id: one.problem_statement for one in instances}

    @cached_property
    def official_ids(self) -> Mapping[str, str]:
        """The sets' own ids by the harness's, where they differ and the rows have them."""
        named = (
            (name, str(row.get("instance_id") or name))
            for name, row in self.by_id.items()
        )
        return {name: own for name, own in named if own != name}


def load_dataset(name: str, split: str, config: str = "") -> Dataset:
    """Load the rows of one split of ``NAME`` or ``NAME@REVISION``.

    Raises:
        UserError: there is no such dataset, or it cannot be read.
        InfrastructureError: the hub cannot be reached.
    """
    asked = DatasetName.parse(name)
    bundled = BUNDLED.get(name)
    path = bundled.path if bundled else Path(name).expanduser()
    if path.suffix in _FILES or path.exists():
        if config:
            raise UserError(
                f"instances.config {config}: the dataset {name} is not on the hub"
            )
        resolved = name if bundled else str(path.resolve())
        return Dataset(resolved, split, _checked(resolved, rows_of_path(path, split)))
    if not asked.hub_id:
        raise UserError(
            f"unknown dataset {name!r}: give {', '.join([*ALIASES, *BUNDLED])}, a hub id, a "
            f"file or a folder; {_SUPPORTED}"
        )
    split = asked.split(split)
    rows, revision = rows_of_hub(asked.hub_id, split, asked.revision, config)
    return Dataset(asked.hub_id, split, _checked(asked.hub_id, rows), revision, config)


def _checked(name: str, rows: Iterable[Row]) -> tuple[Row, ...]:
    checked = tuple(rows)
    if not checked:
        raise UserError(
            f"the dataset {name} has no rows in this split; give another one"
        )
    for number, row in enumerate(checked, 1):
        if not isinstance(row, Mapping):
            raise UserError(
                f"the dataset {name}: row {number} is not an object with keys"
            )
    ids = [instance_id_of(row) for row in checked]
    if len(set(ids)) != len(ids):
        double = next(i for i in ids if ids.count(i) > 1)
        raise UserError(f"the dataset {name} has the instance {double} twice")
    return checked


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
        if path.suffix not in _FILES:
            raise UserError(
                f"the dataset {path}: {path.suffix or 'no'} file; {_SUPPORTED}"
            )
        if not path.stat().st_size:
            raise UserError(f"the dataset {path} is empty; give a file with rows")
        if path.suffix == ".parquet":
            from datasets import Dataset as HubDataset

            return _of_split(HubDataset.from_parquet(str(path)), split)
        text = path.read_text(encoding="utf-8-sig")
    except (ValueError, OSError) as error:
        raise UserError(f"the dataset {path} cannot be read: {error}") from error
    if path.suffix == ".jsonl":
        rows = _json_lines(path, text)
    else:
        try:
            rows = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UserError(f"the dataset {path} is not JSON: {error}") from error
        rows = list(rows.values()) if isinstance(rows, dict) else rows
        if not isinstance(rows, list):
            raise UserError(f"the dataset {path} is not a list of rows; {_SUPPORTED}")
    if not rows:
        raise UserError(f"the dataset {path} is empty; give a file with rows")
    return _of_split(rows, split)


def _json_lines(path: Path, text: str) -> list[Row]:
    rows = []
    # Only "\n" ends a line of JSONL: issue texts hold U+2028 and form feeds.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            rows.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            place = f"line {number}, column {getattr(error, 'colno', 1)}"
            words = getattr(error, "msg", error)
            raise UserError(
                f"the dataset {path}, {place}: {words}; fix that line"
            ) from error
    return rows


def _of_split(rows: Iterable[Row], split: str) -> Iterable[Row]:
    return [
        r for r in rows if not isinstance(r, Mapping) or r.get("split", split) == split
    ]


def _rows_of_folder(path: Path, split: str) -> Iterable[Row]:
    if (path / "tasks").is_dir():
        from swebench.task.repo import load_task_repo

        try:
            rows: Sequence[Row] = load_task_repo(path)
        except (yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
            words = " ".join(str(error).split())
            raise UserError(
                f"the task repository {path} cannot be read: {words}"
            ) from error
        return _of_split(rows, split)
    from datasets import DatasetDict, load_from_disk

    folder = path / split if (path / split / "dataset_info.json").exists() else path
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


def rows_of_hub(
    name: str, split: str, revision: str = "", config: str = ""
) -> tuple[Iterable[Row], str]:
    """Return the rows of one split, and the hub's commit; empty where it is not known.

    Raises:
        UserError: there is no such dataset, split, revision or configuration.
        InfrastructureError: the hub cannot be reached, or the cache has another revision.
    """
    # Without a network the library retries for 23 s and warns each time.
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")
    os.environ.setdefault("DATASETS_VERBOSITY", "error")
    from datasets import load_dataset as load_from_hub
    from datasets.exceptions import DatasetNotFoundError

    try:
        with _offline_if_unreachable(name):
            found = load_from_hub(
                name, config or None, split=split, revision=revision or None
            )
            held = revision_of(found.info.download_checksums or ())
            # Offline, the library takes what its cache has.
            if _COMMIT.fullmatch(revision) and held and not held.startswith(revision):
                raise InfrastructureError(
                    f"cannot load {name}@{revision}: the hub is not reached, and the local cache "
                    f"has the revision {held}"
                )
            return list(found), held
    except DatasetNotFoundError as error:
        raise UserError(
            f"the hub has no dataset {name} that you may read: {error}"
        ) from error
    except ValueError as error:
        wanted = f"split {split!r}" + (
            f" in the configuration {config!r}" if config else ""
        )
        raise UserError(f"the dataset {name} has no {wanted}: {error}") from error
    except InfrastructureError:
        raise
    except Exception as error:  # the client raises errors of many libraries
        raise InfrastructureError(
            f"cannot load {name} from the hub: {error}"
        ) from error


@contextmanager
def _offline_if_unreachable(name: str) -> Iterator[None]:
    """Ask the hub once; if it does not answer, let the libraries use their cache only."""
    unreachable = _hub_unreachable(name)
    if not unreachable:
        yield
        return
    import datasets.config
    import huggingface_hub.constants

    places: tuple[Any, ...] = (huggingface_hub.constants, datasets.config)
    before = [place.HF_HUB_OFFLINE for place in places]
    for place in places:
        place.HF_HUB_OFFLINE = True
    try:
        yield
    except Exception as error:
        raise InfrastructureError(
            f"cannot load {name} from the hub: {unreachable}; nor is it in the local cache"
        ) from error
    finally:
        for place, value in zip(places, before, strict=True):
            place.HF_HUB_OFFLINE = value


def _hub_unreachable(name: str) -> str:
    import httpx
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    try:
        HfApi().dataset_info(name, timeout=_TIMEOUT)
    except HfHubHTTPError as error:
        status = error.response.status_code
        return f"it answers HTTP {status}" if status >= 500 else ""
    except (httpx.TransportError, OfflineModeIsEnabled, OSError) as error:
        return str(error) or type(error).__name__
    return ""


def revision_of(sources: Iterable[str]) -> str:
    """Return the hub's commit in the addresses of a dataset's files; empty if there is not one.

    The library writes them as ``hf://datasets/OWNER/NAME@COMMIT/FILE``.
    """
    commits = {
        match[1] for source in sources if (match := _HELD_REVISION.search(source))
    }
    return commits.pop() if len(commits) == 1 else ""
