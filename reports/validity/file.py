"""The validity file: its content, its JSON schema, reading and writing.

The harness reads the states alone (``bench/instances/validity.py``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from bench.instances.dataset import DatasetIdentity
from bench.instances.validity import VALIDITY_FIX, Validity, read_validity
from core.atomic import write_json_atomic
from core.errors import UserError
from core.parsing.untrusted import damage_at, read_object
from reports.validity.trials import PatchKind, Trial, judged

DEFAULT_FILE = "validity.json"


@dataclass(frozen=True)
class InstanceTrials:
    """What is known of one instance.

    Attributes:
        state: what the trials show; see ``reports.validity.trials.judged``.
        reason: why it is not valid; empty if it is valid, or not evaluated yet.
        flaky_tests: deciding tests whose result changed between trials of one patch.
        seconds: the mean of all trials; None without any.
        image: of the last trial, as ``NAME@DIGEST``; empty if the tests ran in none.
        versions: of the programs that made the trials.
        gold, empty: the trials of each patch.
    """

    state: Validity = Validity.NOT_EVALUATED
    reason: str = ""
    flaky_tests: tuple[str, ...] = ()
    seconds: float | None = None
    image: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    gold: tuple[Trial, ...] = ()
    empty: tuple[Trial, ...] = ()

    def of(self, kind: PatchKind) -> tuple[Trial, ...]:
        """Return the trials of a patch."""
        return self.gold if kind is PatchKind.GOLD else self.empty

    def added(self, kind: PatchKind, trial: Trial, repeat: int) -> InstanceTrials:
        """Return this with one more trial, judged again."""
        trials = (*self.of(kind), trial)
        gold = kind is PatchKind.GOLD
        return (replace(self, gold=trials) if gold else replace(self, empty=trials)).judged(repeat)

    def judged(self, repeat: int) -> InstanceTrials:
        """Return this with the state that its trials show where ``repeat`` of each are needed."""
        found = judged(self.gold, self.empty, repeat)
        times = [trial.seconds for trial in (*self.gold, *self.empty)]
        return replace(
            self,
            state=found.state,
            reason=found.reason,
            flaky_tests=found.flaky_tests,
            seconds=round(sum(times) / len(times), 2) if times else None,
        )


@dataclass(frozen=True)
class ValidityFile:
    """Whether one machine and evaluator can judge the instances of a dataset.

    Attributes:
        schema_version: of this format.
        evaluator: that made the trials.
        repeat: trials of each patch that a state other than ``not_evaluated`` needs.
        started: the time in UTC.
        instances: by id; those without a trial are not evaluated.
    """

    schema_version: int
    dataset: DatasetIdentity
    evaluator: str
    repeat: int
    started: str
    instances: Mapping[str, InstanceTrials]


def write_validity(path: Path, content: ValidityFile) -> None:
    """Write the file atomically."""
    write_json_atomic(path, _adapter().dump_python(content, mode="json"))


def read_trials(path: Path) -> ValidityFile | None:
    """Read the whole file; None if there is none.

    Raises:
        UserError: it is damaged or another kind of file.
    """
    if not path.exists():
        return None
    read_validity(path)
    try:
        return _adapter().validate_python(read_object(path, VALIDITY_FIX))
    except ValidationError as error:
        first = error.errors()[0]
        keys = tuple(first["loc"])
        words = f"is broken: `{'.'.join(map(str, keys))}`: {first['msg']}"
        raise damage_at(path, keys, words, VALIDITY_FIX) from error


def check_same(path: Path, known: ValidityFile, dataset: DatasetIdentity, evaluator: str) -> None:
    """Refuse to continue a file of another dataset or evaluator.

    Raises:
        UserError: naming what differs.
    """
    about = known.dataset
    fix = "give another file with --validity"
    if (about.name, about.split) != (dataset.name, dataset.split):
        words = f"{about.name} ({about.split}), not {dataset.name} ({dataset.split})"
        raise UserError(f"{path} is about {words}; {fix}")
    if about.sha256 != dataset.sha256:
        raise UserError(f"the rows of {about.name} changed since {path} was written; {fix}")
    if known.evaluator != evaluator:
        raise UserError(f"{path} was made with --evaluator {known.evaluator}; give it, or {fix}")


def validity_schema() -> dict[str, Any]:
    """Return the JSON schema of the file (docs/validity.schema.json)."""
    return _adapter().json_schema(mode="serialization")


def _adapter() -> TypeAdapter[ValidityFile]:
    return TypeAdapter(ValidityFile)


if __name__ == "__main__":
    print(json.dumps(validity_schema(), indent=1))
