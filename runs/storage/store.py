"""The files of a run: every path, read and write under ``predictions/`` and ``logs/``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    InstanceOf,
    ValidationError,
)

from core.atomic import write_json_atomic, write_text_atomic
from core.errors import DamagedFileError, UserError
from core.parsing.untrusted import damage_at, invalid, read_object
from core.redaction import Redactor
from runs.keys import OWN_FILES, RUN_FILE, SafeKey, is_safe_key, shown

# Only reports may know them; the older layout has them in the prediction file.
_EVALUATION_KEYS = ("gold_files", "resolved")


def _encodable(text: str) -> str:
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise ValueError("it contains an unpaired surrogate") from None
    return text


# Patches hold bytes that are not UTF-8 as surrogates, which pydantic's own texts do not accept.
_PatchText = Annotated[InstanceOf[str], AfterValidator(_encodable)]


# Other harnesses write empty values of any type for what is missing.
_OrEmpty = BeforeValidator(lambda value: value or None)
_OrFlag = BeforeValidator(lambda value: None if isinstance(value, bool) else value)


class _ResultFile(BaseModel):
    """The values of a prediction that readers need; other wrong values count as missing."""

    model_config = ConfigDict(strict=True)

    model_patch: Annotated[_PatchText | None, _OrEmpty] = None
    model_name_or_path: Annotated[_PatchText | None, _OrEmpty] = None
    cost: Annotated[float | None, _OrFlag, _OrEmpty] = None


class _PredictionFile(_ResultFile):
    instance_id: str
    all_results: Annotated[list[_ResultFile] | None, _OrEmpty] = None


class _UnfinishedFile(BaseModel):
    model_config = ConfigDict(strict=True)

    status: str
    attempts: list[dict[str, Any]] = []


class DatasetFacts(BaseModel):
    """What ``run.json`` says of the dataset."""

    model_config = ConfigDict(extra="allow", strict=True)

    name: str | None = None
    split: str | None = None
    sha256: str | None = None
    revision: str | None = None


class RunDescription(BaseModel):
    """The types of ``run.json``, which other programs write too; docs/predictions.md."""

    model_config = ConfigDict(extra="allow", strict=True)

    dataset: DatasetFacts = DatasetFacts()
    config: dict[str, Any] = {}
    versions: dict[str, Any] = {}
    options: dict[str, Any] = {}
    images: dict[str, Any] = {}
    prices: dict[str, Any] = {}
    only_valid: dict[str, Any] = {}
    models_returned: dict[str, list[str]] = {}
    starts: list[dict[str, Any]] = []
    combined: list[dict[str, Any]] = []
    selected: list[SafeKey] = []


def without_evaluation(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a prediction without what only reports may know (the May 2024 layout has it)."""
    kept = {key: value for key, value in data.items() if key not in _EVALUATION_KEYS}
    if isinstance(kept.get("all_results"), list):
        kept["all_results"] = [
            without_evaluation(result)
            for result in kept["all_results"]
            if isinstance(result, dict)
        ]
    return kept


def _check(
    path: Path, data: object, model: type[BaseModel], what: str, fix: str
) -> None:
    try:
        model.model_validate(data)
    except ValidationError as error:
        raise invalid(path, error, what, fix) from error


_FIX_PREDICTION = "fix it, or delete it to redo the instance"
_FIX_TRAJECTORY = "fix it or move it away"
_ID = ("instance_id",)
_FIX_RUN = "fix it, or choose another --run"
READ_WITH = "read_with"
"""The key in ``run.json`` that names the command for a run of another benchmark."""
_KINDS = ("prediction", "trajectory", "transcript", "unfinished", "log")


@dataclass(frozen=True)
class RunStore:
    """The files of one run.

    Attributes:
        out: the folder that holds ``predictions/`` and ``logs/``.
        reader: the command that reads the run; empty for ``harness.py`` and ``report.py``.
    """

    out: Path
    run: str
    redact: Redactor = field(default_factory=Redactor)
    reader: str = ""

    @classmethod
    def of_folder(cls, folder: Path, reader: str = "") -> RunStore:
        """Return the store of an existing run; a UserError if another command reads it."""
        folder = folder.expanduser().resolve()
        if not folder.is_dir():
            raise UserError(
                f"there is no run {folder}; give a folder under predictions/"
            )
        out = (
            folder.parent.parent
            if folder.parent.name == "predictions"
            else folder.parent
        )
        return _LooseStore(out, folder.name, reader=reader, place=folder).checked()

    def checked(self) -> RunStore:
        """Return this store; a UserError if another command reads the run."""
        with suppress(DamagedFileError, OSError):  # reported where the file is needed
            self.read_run()
        return self

    @property
    def folder(self) -> Path:
        return self.out / "predictions" / self.run

    @property
    def run_file(self) -> Path:
        return self.folder / RUN_FILE

    @property
    def logs(self) -> Path:
        return self.out / "logs" / self.run

    def prediction(self, instance_id: str) -> Path:
        return self.folder / f"{instance_id}.json"

    def name_of(self, prediction: Path) -> str:
        """Return the instance of a prediction, by its path alone."""
        return prediction.stem

    def trajectory(self, instance_id: str) -> Path:
        return self.folder / "trajectories" / f"{instance_id}.json"

    @property
    def journals(self) -> Path:
        return self.logs / "journals"

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger.jsonl"

    @property
    def redo(self) -> Path:
        """The state of the last ``--redo``."""
        return self.logs / "redo.json"

    @property
    def log_file(self) -> Path:
        return self.folder / "harness.log"

    def unfinished(self, instance_id: str) -> Path:
        return self.logs / f"{instance_id}.unfinished.json"

    def transcript(self, instance_id: str) -> Path:
        return self.prediction(instance_id).with_suffix(".md")

    def verdict(self, instance_id: str) -> Path:
        """Return the path of the verdict on an instance, which only ``report.py`` reads."""
        return self.folder / "verdicts" / f"{instance_id}.json"

    def save_instance(
        self,
        instance_id: str,
        prediction: Mapping[str, Any],
        trajectory: Mapping[str, Any] | None,
        transcript: str | None,
    ) -> None:
        """Write a finished instance; the prediction comes last: where it is, the rest is too."""
        if trajectory is not None:
            write_json_atomic(self.trajectory(instance_id), self.redact.of(trajectory))
        if transcript is not None:
            write_text_atomic(self.transcript(instance_id), self.redact(transcript))
        write_json_atomic(self.prediction(instance_id), self.redact.of(prediction))
        self.unfinished(instance_id).unlink(missing_ok=True)

    def save_unfinished(self, instance_id: str, trajectory: Mapping[str, Any]) -> None:
        """Write the trajectory of an instance that has to be redone: it gets no prediction."""
        write_json_atomic(self.unfinished(instance_id), self.redact.of(trajectory))

    def result(self, instance_id: str) -> dict[str, Any] | None:
        """Return an instance's prediction, else its unfinished trajectory, else None."""
        if self.prediction(instance_id).exists():
            return self.read_prediction(self.prediction(instance_id))
        try:
            return self.read_unfinished(instance_id)
        except (FileNotFoundError, UserError):
            return None

    def read_unfinished(self, instance_id: str) -> dict[str, Any]:
        """Return the trajectory of an instance that has to be redone (FileNotFoundError: none)."""
        path, fix = self.unfinished(instance_id), "delete it"
        data = read_object(path, fix)
        _check(path, data, _UnfinishedFile, "an unfinished instance", fix)
        if (name := data.get("instance_id", instance_id)) != instance_id:
            raise damage_at(path, ("instance_id",), f"is about {shown(name)}", fix)
        return data

    def read_trajectory(self, instance_id: str) -> dict[str, Any]:
        """Return an instance's trajectory (docs/trajectory.md), empty where there is none."""
        path = self.trajectory(instance_id)
        try:
            data = read_object(path, _FIX_TRAJECTORY)
        except FileNotFoundError:
            return {}
        if (name := data.get("instance_id", instance_id)) != instance_id:
            words = f"is the trajectory of {shown(name)}, and not of {instance_id}"
            raise damage_at(path, _ID, words, _FIX_TRAJECTORY)
        return data

    def begin(self, instance_id: str) -> None:
        """Remove the results of an earlier start before an instance is worked on again."""
        if self.prediction(instance_id).exists():
            self.put_aside(instance_id)
        self.unfinished(instance_id).unlink(missing_ok=True)

    def put_aside(self, instance_id: str) -> None:
        """Move the files of an instance that is redone to ``replaced/``, the prediction first."""
        files = (
            self.prediction(instance_id),
            self.trajectory(instance_id),
            self.transcript(instance_id),
            self.unfinished(instance_id),
            self.logs / f"{instance_id}.log",
        )
        replaced = self.folder / "replaced"
        place = next(
            p for n in count(1) if not (p := replaced / f"{instance_id}.{n}").exists()
        )
        place.mkdir(parents=True)
        for kind, path in zip(_KINDS, files, strict=True):
            if path.exists():
                path.replace(place / f"{kind}{path.suffix}")

    def read_prediction(self, path: Path) -> dict[str, Any]:
        """Return a prediction of any layout without what only reports may know."""
        return without_evaluation(self.read_as_written(path))

    def read_as_written(self, path: Path) -> dict[str, Any]:
        """Return a prediction with what only reports may know.

        Raises:
            UserError: the file is not JSON, or not a prediction of its instance.
        """
        try:
            data = read_object(path, _FIX_PREDICTION)
        except FileNotFoundError as error:
            raise DamagedFileError(path, "is missing", _FIX_PREDICTION) from error
        _check(path, data, _PredictionFile, "a prediction", _FIX_PREDICTION)
        self._check_name(path, data["instance_id"])
        return data

    def _check_name(self, path: Path, name: str) -> None:
        # With another name, two files may be about one instance.
        if name == path.stem:
            return
        if not is_safe_key(name):
            words = f"is not a prediction: {shown(name)} cannot be an id"
            raise damage_at(path, _ID, words, _FIX_PREDICTION)
        if (other := self.prediction(name)).exists():
            words = f"and {other} are both predictions of {name}"
            raise damage_at(path, _ID, words, "keep the one that is meant")
        words = f"is the prediction of {name}"
        raise damage_at(
            path, _ID, words, f"call it {other.name}, or fix its `instance_id`"
        )

    def has_results(self) -> bool:
        """Return whether there are results, with which another configuration must not be mixed."""
        paid = self.ledger.exists() and self.ledger.stat().st_size > 0
        return paid or any(self.prediction_paths())

    def prediction_paths(self) -> Iterator[Path]:
        """Yield the prediction files, by instance id."""
        names = sorted(self.folder.glob("*.json"))
        yield from (path for path in names if path.name not in OWN_FILES)

    def read_run(self) -> dict[str, Any] | None:
        """Return ``run.json``, None when there is none (a new run, or another harness's)."""
        path = self.run_file
        if not path.exists():
            return None
        data = read_object(path, _FIX_RUN)
        _check(path, data, RunDescription, "a run's description", _FIX_RUN)
        if (reader := data.get(READ_WITH) or "") not in ("", self.reader):
            raise UserError(
                f"{self.folder} is a run of another benchmark: read it with {shown(reader)}"
            )
        return data

    def save_run(self, description: Mapping[str, Any]) -> None:
        write_json_atomic(self.run_file, self.redact.of(description))

    def update_run(self, **values: object) -> None:
        """Replace these values of ``run.json``."""
        self.save_run({**(self.read_run() or {}), **values})


@dataclass(frozen=True)
class _LooseStore(RunStore):
    """A run whose folder need not lie in a folder named ``predictions``."""

    place: Path = Path()

    @property
    def folder(self) -> Path:
        return self.place
