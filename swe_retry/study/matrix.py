"""Choose among candidates by results of scripts of any harness: ``report.py select --matrix``.

A line of the file describes an instance; docs/selection.md has its fields.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, Field, ValidationError, model_validator

from swe_retry.attempts.evidence.facts import ClassFacts, InstanceFacts, ScriptFacts
from swe_retry.core.errors import UserError
from swe_retry.core.plaintext import Say
from swe_retry.core.untrusted import DamagedError, fault_of, object_of, read_bytes

Id = str | int
_MAX_CANDIDATES = 1000


class MatrixCandidate(BaseModel):
    """A candidate; ``equals`` names its class, and without one it is alone."""

    id: Id
    model: str = ""
    equals: Any = None
    failing_tests: Annotated[int, Field(ge=0)] | None = None
    patch_size: Annotated[int, Field(ge=0)] = 0

    @property
    def class_key(self) -> str:
        if self.equals is None:
            return json.dumps(["alone", self.id])
        equals = self.equals
        if isinstance(equals, list):
            equals = sorted({*map(str, equals), str(self.id)})
        return json.dumps(["class", equals], sort_keys=True)


class MatrixScript(BaseModel):
    """A script, who wrote it, and the candidates that pass it."""

    id: Id = ""
    author: Id | None = None
    passed_by: tuple[Id, ...] = ()


class MatrixInstance(BaseModel):
    """The candidates of an instance and the results of scripts on them."""

    instance_id: str
    candidates: Annotated[
        tuple[MatrixCandidate, ...], Field(min_length=1, max_length=_MAX_CANDIDATES)
    ]
    scripts: tuple[MatrixScript, ...] = ()

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        names = {candidate.id for candidate in self.candidates}
        if len(names) < len(self.candidates):
            raise ValueError("two candidates have the same id")
        named: set[Id | None] = set()
        for script in self.scripts:
            named.update(script.passed_by, [script.author])
        unknown = sorted(map(str, named - names - {None}))
        if unknown:
            raise ValueError(f"a script names {unknown[0]!r}, which is not a candidate")
        return self

    @property
    def classes(self) -> list[list[MatrixCandidate]]:
        members = defaultdict(list)
        for candidate in self.candidates:
            members[candidate.class_key].append(candidate)
        return list(members.values())

    def facts(self) -> InstanceFacts:
        classes = []
        position_of = {}
        for position, members in enumerate(self.classes):
            witnesses = Counter(member.model for member in members)
            failing = []
            for member in members:
                position_of[member.id] = position
                if member.failing_tests is not None:
                    failing.append(member.failing_tests)
            classes.append(ClassFacts(witnesses, min(failing, default=None)))
        scripts = []
        for script in self.scripts:
            passed = frozenset(position_of[name] for name in script.passed_by)
            author = None
            if script.author is not None:
                author = position_of[script.author]
            scripts.append(ScriptFacts(passed, author))
        return InstanceFacts(tuple(classes), tuple(scripts))


def read_matrix(path: Path) -> list[MatrixInstance]:
    """Return the instances of a file.

    Raises:
        UserError: it cannot be read; the message names the line.
    """
    instances = []
    position = f"--matrix {path}"
    try:
        for number, line in enumerate(read_bytes(path).splitlines(), 1):
            if line.strip():
                position = f"--matrix {path}, line {number}"
                instances.append(MatrixInstance.model_validate(object_of(line)))
    except OSError as error:
        raise UserError(f"{position}: {error.strerror}; correct it") from error
    except ValidationError as error:
        raise UserError(f"{position}: {fault_of(error)}; correct it") from error
    except DamagedError as error:
        raise UserError(f"{position}: {error}; correct it") from error
    if not instances:
        raise UserError(f"--matrix {path}: no instance there; give one on each line")
    return instances


def matrix_command(path: Path, right: float, say: Say) -> int:
    """Print a line with the choice for each instance; return the exit code."""
    for choice in choices(read_matrix(path), right):
        say(json.dumps(choice))
    return 0


def choices(
    instances: Sequence[MatrixInstance], right: float
) -> Iterator[dict[str, Any]]:
    """Yield the choice for each instance, with weights that are fitted to all of them."""
    from swe_retry.attempts.evidence.belief import best_class, weigh
    from swe_retry.attempts.evidence.fit import fit_run

    facts = [instance.facts() for instance in instances]
    fit = fit_run(facts, right)
    beliefs = weigh(facts, fit)
    for instance, of_instance, belief in zip(instances, facts, beliefs, strict=True):
        classes = instance.classes
        best = best_class(of_instance, belief, fit, range(len(classes)))
        weights = {}
        for members, weight in zip(classes, belief.classes, strict=True):
            weights.update({str(member.id): round(weight, 6) for member in members})
        chosen = min(classes[best], key=_order)
        yield {
            "instance_id": instance.instance_id,
            "chosen": chosen.id,
            "weight": weights[str(chosen.id)],
            "none": round(belief.none, 6),
            "weights": weights,
        }


def _order(candidate: MatrixCandidate) -> tuple[float, int]:
    """Return the sort key in a class; an unknown count of tests follows none failing."""
    failing: float | None = candidate.failing_tests
    if failing is None:
        failing = 0.5
    return failing, candidate.patch_size
