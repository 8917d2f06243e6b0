"""The problems of CanItEdit, read from the hub or a file, and checked.

F. Cassano et al., "Can It Edit? Evaluating the ability of large language models to follow code
editing instructions" (2023), arXiv:2312.12450.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from bench.instances.dataset import rows_of_hub, rows_of_path
from core.errors import UserError
from core.options import option, option_group

HUB_ID = "nuprl/CanItEdit"
_SPLIT = "test"
# A part of the names of files.
_NAME = re.compile(r"[A-Za-z0-9_][\w.-]{0,119}")


class InstructionKind(str, Enum):
    """How much an instruction says."""

    DESCRIPTIVE = "descriptive"
    LAZY = "lazy"

    @property
    def key(self) -> str:
        """The name of the instruction in rows and files."""
        return f"instruction_{self.value}"


class ChangeKind(str, Enum):
    CORRECTIVE = "corrective"
    ADAPTIVE = "adaptive"
    PERFECTIVE = "perfective"


MOST_CHARACTERS = 200_000
"""The longest program that is measured: distances take time quadratic in the length."""
Code = Annotated[str, Field(max_length=MOST_CHARACTERS)]


def _file_name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError("must be a plain file name: letters, digits, _, . and -")
    return text


class Checked(BaseModel):
    """A value of a file of others: types are checked, unknown keys are left out."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)


class Taxonomy(Checked):
    """What kind of problem it is; ``libraries`` are those that it needs, none for most."""

    change_kind: Annotated[ChangeKind, Field(strict=False)]
    libraries: Annotated[tuple[str, ...], Field(strict=False)]
    topic: str


class Problem(Checked):
    """A program to edit, two instructions that ask for the same edit, a solution, and tests.

    Attributes:
        full_name: id and name, the first part of the names of its files.
        after: the solution of the authors.
    """

    id: Annotated[int, Field(ge=0)]
    name: str
    full_name: Annotated[str, AfterValidator(_file_name)]
    before: Code
    after: Code
    tests: Code
    instruction_descriptive: str
    instruction_lazy: str
    taxonomy: Taxonomy

    def instruction(self, kind: InstructionKind) -> str:
        lazy = kind is InstructionKind.LAZY
        return self.instruction_lazy if lazy else self.instruction_descriptive

    def row(self) -> dict[str, Any]:
        return self.model_dump(mode="json")


def problem_of(row: object, where: str) -> Problem:
    try:
        return Problem.model_validate(row)
    except ValidationError as error:
        raise UserError(f"{where}: {words_of(error)}; correct the row") from error


def words_of(error: ValidationError) -> str:
    """Return the first mistake of ``error`` as one line without the value."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(map(str, first["loc"]))
    words = first["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    words = "is missing" if first["type"] == "missing" else words
    return f"{place or 'it'} {words[:1].lower()}{words[1:]}"


def problems_option(default: str, help: str) -> Any:  # noqa: ANN401 - as of core.options.option
    """Declare ``--problems`` of a command."""
    return option(default, help, "--problems")


def against_option(default: Any, help: str, given: Any = None) -> Any:  # noqa: ANN401
    """Declare ``--against`` of a command that compares."""
    return option(default, help, "--against", given=given)


@option_group
class ProblemSource:
    problems: str = problems_option(
        HUB_ID, "A .jsonl or .parquet with the rows, or an id on the hub."
    )


def load_problems(name: str = HUB_ID) -> tuple[Problem, ...]:
    """Return the problems of a ``.jsonl``, ``.json`` or ``.parquet`` file, or of the hub, by id."""
    path = Path(name).expanduser()
    if path.suffix in (".json", ".jsonl", ".parquet") or path.exists():
        rows = rows_of_path(path, _SPLIT)
    elif name.count("/") == 1:
        rows, _ = rows_of_hub(name, _SPLIT)
    else:
        raise UserError(f"there are no problems in {name}; give a .jsonl or .parquet, or {HUB_ID}")
    return checked_problems(rows, name)


def checked_problems(rows: Iterable[object], name: str) -> tuple[Problem, ...]:
    """Return the problems in rows, by id; ``name`` is where they are from."""
    found = [problem_of(row, f"{name}, row {number}") for number, row in enumerate(rows, 1)]
    if not found:
        raise UserError(f"{name} has no rows; give a file with problems, or {HUB_ID}")
    for key in ("id", "full_name"):
        values = [getattr(problem, key) for problem in found]
        if len({*values}) < len(values):
            double = next(value for n, value in enumerate(values) if value in values[:n])
            raise UserError(f"{name} has the problem {double} twice; leave one of them out")
    return tuple(sorted(found, key=lambda problem: problem.id))
