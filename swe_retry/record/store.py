"""The files of a run: every path, read and write under ``predictions/`` and ``logs/``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from swe_retry.core.atomic import write_json_atomic, write_text_atomic
from swe_retry.core.errors import DamagedFileError, UserError
from swe_retry.core.jsontypes import JsonMapping, JsonObject
from swe_retry.core.plaintext import did_you_mean
from swe_retry.core.redaction import Redactor
from swe_retry.core.untrusted import damage_at, invalid, read_object
from swe_retry.record.description import Run
from swe_retry.record.keys import (
    OWN_FILES,
    RUN_FILE,
    is_safe_key,
    is_safe_name,
    quoted_name,
)
from swe_retry.record.result import InstanceResult
from swe_retry.record.versions import TOP

_FIX_PREDICTION = "fix it, or delete it to redo the instance"
_FIX_TRAJECTORY = "fix it or move it away"
_ID = ("instance_id",)
_FIX_RUN = "fix it, or choose another --run"


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
            names = [path.name for path in (TOP / "predictions").glob("*/")]
            hint = did_you_mean(folder.name, names)
            raise UserError(
                f"there is no run {folder}; give a folder under predictions/{hint}"
            )
        out = folder.parent
        if folder.parent.name == "predictions":
            out = folder.parent.parent
        return _LooseStore(out, folder.name, reader=reader, place=folder).check()

    @classmethod
    def find(cls, run: str, out: Path) -> RunStore:
        """Return the store of a run by its name below ``out``, else by its folder."""
        store = cls(out.expanduser().resolve(), run)
        folder = Path(run).expanduser()
        if is_safe_name(run) and (store.folder.is_dir() or not folder.is_dir()):
            return store
        return cls.of_folder(folder)

    def missing(self) -> UserError:
        """Return the error that there is no such run."""
        names = [path.name for path in self.folder.parent.glob("*/")]
        hint = did_you_mean(self.run, names)
        return UserError(
            f"there is no run {self.folder}; check its name and --out{hint}"
        )

    def check(self) -> RunStore:
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

    def unfinished_path(self, instance_id: str) -> Path:
        return self.logs / f"{instance_id}.unfinished.json"

    def transcript(self, instance_id: str) -> Path:
        return self.prediction(instance_id).with_suffix(".md")

    def verdict(self, instance_id: str) -> Path:
        """Return the path of the verdict on an instance, which only ``report.py`` reads."""
        return self.folder / "verdicts" / f"{instance_id}.json"

    def save_instance(
        self,
        instance_id: str,
        prediction: JsonMapping,
        trajectory: JsonMapping | None,
        transcript: str | None,
    ) -> None:
        """Write a finished instance; the prediction comes last: where it is, the rest is too."""
        if trajectory is not None:
            write_json_atomic(self.trajectory(instance_id), self.redact.of(trajectory))
        if transcript is not None:
            write_text_atomic(self.transcript(instance_id), self.redact(transcript))
        write_json_atomic(self.prediction(instance_id), self.redact.of(prediction))
        self.unfinished_path(instance_id).unlink(missing_ok=True)

    def save_unfinished(self, result: InstanceResult) -> None:
        """Write an instance that has to be redone: it gets no prediction."""
        content = self.redact.of(result.trajectory())
        write_json_atomic(self.unfinished_path(result.instance_id), content)

    def result(self, instance_id: str) -> InstanceResult | None:
        """Return an instance's prediction, else its unfinished trajectory, else None."""
        if self.prediction(instance_id).exists():
            return self.read_prediction(self.prediction(instance_id))
        try:
            return self.read_unfinished(instance_id)
        except (FileNotFoundError, UserError):
            return None

    def read_unfinished(self, instance_id: str) -> InstanceResult:
        """Return an instance that has to be redone (FileNotFoundError: there is none)."""
        path = self.unfinished_path(instance_id)
        fix = "delete it"
        values = {"instance_id": instance_id, **read_object(path, fix)}
        if "status" in values:
            values.setdefault("attempts", [])
        try:
            result = InstanceResult.of_trajectory(values)
        except ValidationError as error:
            raise invalid(path, error, "an unfinished instance", fix) from error
        if result.instance_id != instance_id:
            raise damage_at(
                path,
                _ID,
                f"is about {quoted_name(result.instance_id)}",
                fix,
            )
        return result

    def read_trajectory(self, instance_id: str) -> InstanceResult | None:
        """Return an instance's trajectory (docs/trajectory.md), None where there is none."""
        path = self.trajectory(instance_id)
        if not path.exists():
            return None
        return read_trajectory_file(path, instance_id)

    def begin(self, instance_id: str) -> None:
        """Remove the results of an earlier start before an instance is worked on again."""
        if self.prediction(instance_id).exists():
            self.put_aside(instance_id)
        self.unfinished_path(instance_id).unlink(missing_ok=True)

    def put_aside(self, instance_id: str) -> None:
        """Move the files of an instance that is redone to ``replaced/``, the prediction first."""
        files = {
            "prediction": self.prediction(instance_id),
            "trajectory": self.trajectory(instance_id),
            "transcript": self.transcript(instance_id),
            "unfinished": self.unfinished_path(instance_id),
            "log": self.logs / f"{instance_id}.log",
        }
        replaced = self.folder / "replaced"
        folder = next(
            p for n in count(1) if not (p := replaced / f"{instance_id}.{n}").exists()
        )
        folder.mkdir(parents=True)
        for kind, path in files.items():
            if path.exists():
                path.replace(folder / f"{kind}{path.suffix}")

    def read_prediction(self, path: Path) -> InstanceResult:
        """Return a prediction of any layout without what only reports may know.

        Raises:
            UserError: the file is not JSON, or not a prediction of its instance.
        """
        return read_as(InstanceResult, path, self.raw_prediction(path))

    def read_result(self, instance_id: str) -> InstanceResult:
        """Return an instance's prediction with its conversations; raises as the parts."""
        path = self.prediction(instance_id)
        trajectory = self.read_trajectory(instance_id)
        return read_as(InstanceResult, path, self.raw_prediction(path), trajectory)

    def raw_prediction(self, path: Path) -> JsonObject:
        """Return the JSON of a prediction, with what only reports may know."""
        try:
            data = read_object(path, _FIX_PREDICTION)
        except FileNotFoundError as error:
            raise DamagedFileError(path, "is missing", _FIX_PREDICTION) from error
        if not isinstance(data.get("instance_id"), str):
            read_as(InstanceResult, path, data)  # names the fault
        self._check_name(path, data["instance_id"])
        return data

    def _check_name(self, path: Path, name: str) -> None:
        # With another name, two files may be about one instance.
        if name == path.stem:
            return
        if not is_safe_key(name):
            problem = f"is not a prediction: {quoted_name(name)} cannot be an id"
            raise damage_at(path, _ID, problem, _FIX_PREDICTION)
        if (other := self.prediction(name)).exists():
            problem = f"and {other} are both predictions of {name}"
            raise damage_at(path, _ID, problem, "keep the one that is meant")
        problem = f"is the prediction of {name}"
        raise damage_at(
            path,
            _ID,
            problem,
            f"call it {other.name}, or fix its `instance_id`",
        )

    def has_results(self) -> bool:
        """Return whether there are results, with which another configuration must not be mixed."""
        paid = self.ledger.exists() and self.ledger.stat().st_size > 0
        return paid or any(self.prediction_paths())

    def prediction_paths(self) -> Iterator[Path]:
        """Yield the prediction files, by instance id."""
        names = sorted(self.folder.glob("*.json"))
        yield from (path for path in names if path.name not in OWN_FILES)

    def read_run(self) -> Run:
        """Return ``run.json``, empty when there is none (a new run, or another harness's)."""
        path = self.run_file
        if not path.exists():
            return Run()
        data = read_object(path, _FIX_RUN)
        try:
            run = Run.model_validate(data)
        except ValidationError as error:
            raise invalid(path, error, "a run's description", _FIX_RUN) from error
        if _benchmark_of(run.read_with) not in ("", _benchmark_of(self.reader)):
            reader = quoted_name(run.read_with)
            raise UserError(
                f"{self.folder} is a run of another benchmark: read it with {reader}"
            )
        return run

    def recorded_setting(self, name: str) -> Any:  # noqa: ANN401 - as it was given
        """Return a setting that a run recorded; None where it is not known."""
        with suppress(DamagedFileError, FileNotFoundError):
            run = Run.model_validate(read_object(self.run_file, _FIX_RUN))
            return run.setting(name)
        return None

    def save_run(self, run: Run) -> None:
        write_json_atomic(self.run_file, self.redact.of(run.as_json()))

    def update_run(self, **values: object) -> None:
        """Replace these values of ``run.json``."""
        self.save_run(self.read_run().but(**values))


R = TypeVar("R", bound=InstanceResult)


def read_as(
    kind: type[R],
    path: Path,
    raw: JsonMapping,
    trajectory: InstanceResult | None = None,
    models: Sequence[str] = (),
) -> R:
    """Return the content of the prediction at ``path``; see ``InstanceResult.of_prediction``."""
    try:
        return kind.of_prediction(raw, trajectory, models)
    except ValidationError as error:
        raise invalid(path, error, "a prediction", _FIX_PREDICTION) from error


def read_trajectory_file(path: Path, instance_id: str) -> InstanceResult:
    """Return the content of a trajectory; older ones do not name their instance.

    Raises:
        UserError: it is not a trajectory, or that of another instance.
    """
    values = {"instance_id": instance_id, **read_object(path, _FIX_TRAJECTORY)}
    try:
        result = InstanceResult.of_trajectory(values)
    except ValidationError as error:
        raise invalid(path, error, "a trajectory", _FIX_TRAJECTORY) from error
    if result.instance_id != instance_id:
        other = quoted_name(result.instance_id)
        problem = f"is the trajectory of {other}, and not of {instance_id}"
        raise damage_at(path, _ID, problem, _FIX_TRAJECTORY)
    return result


@dataclass(frozen=True)
class _LooseStore(RunStore):
    """A run whose folder need not lie in a folder named ``predictions``."""

    place: Path = Path()

    @property
    def folder(self) -> Path:
        return self.place


def _benchmark_of(reader: str) -> str:
    """Return the last words of the command that reads a run; its package may have moved since."""
    return reader.rpartition(".")[2]
