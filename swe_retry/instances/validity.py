"""Which instances a machine can judge: all that the harness reads of a validity file.

``report.py gold`` writes the file (``swe_retry.study.gold``). It also names tests, which
only reports may know: ``read_validity`` keeps one state for each instance and drops the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel

from swe_retry.core.errors import UserError
from swe_retry.core.plaintext import Say, quantity
from swe_retry.record.keys import SafeKey
from swe_retry.record.records import Recorded

VALIDITY_SCHEMA: Final = 1
VALIDITY_FIX = "write it again with report.py gold DATASET FILE, or give another file"


class Validity(StrEnum):
    """Whether the tests of an instance tell right patches from wrong ones on a machine.

    Members:
        VALID: the gold patch always resolves it, an empty patch never.
        INVALID: the gold patch never resolves it, or an empty patch does.
        FLAKY: the results of the same patch differ.
        NOT_EVALUATED: it was not evaluated as often as was asked for, or is not in the file.
    """

    VALID = "valid"
    INVALID = "invalid"
    FLAKY = "flaky"
    NOT_EVALUATED = "not_evaluated"


class _InstanceState(BaseModel):
    state: Validity


class _ValidityFile(Recorded):
    schema_version: Literal[1]
    instances: dict[SafeKey, _InstanceState]


def read_validity(path: Path) -> dict[str, Validity]:
    """Return the states in a validity file, by instance id."""
    file = _ValidityFile.of_file(path, "a validity file", VALIDITY_FIX)
    if file is None:
        raise UserError(f"there is no validity file {path}; {VALIDITY_FIX}")
    return {name: entry.state for name, entry in file.instances.items()}


def not_valid(path: Path, ids: Sequence[str]) -> dict[str, Validity]:
    """Return those of ``ids`` that a validity file does not call valid, with their states."""
    states = read_validity(path)
    if ids and states.keys().isdisjoint(ids):
        raise UserError(
            f"{path} is about other instances, not {ids[0]}; {VALIDITY_FIX}"
        )
    others: dict[str, Validity] = {}
    for name in ids:
        state = states.get(name, Validity.NOT_EVALUATED)
        if state is not Validity.VALID:
            others[name] = state
    return others


def states_in_words(states: Mapping[str, Validity]) -> str:
    """Return the states with their numbers: ``1 flaky, 2 invalid``."""
    names = [state.value.replace("_", " ") for state in states.values()]
    counts = Counter(names)
    return ", ".join(f"{number:,} {state}" for state, number in sorted(counts.items()))


def left_out_instances(
    path: Path | None,
    ids: Sequence[str],
    say: Say,
) -> dict[str, Validity]:
    """Return which of ``ids`` a run leaves out, with their states, and say so; none by default."""
    if path is None:
        return {}
    left_out = not_valid(path, ids)
    if left_out:
        count = quantity(len(left_out), "instance")
        say(
            f"left out: {count} that {path} does not call valid: {states_in_words(left_out)}"
        )
    if len(left_out) == len(ids):
        raise UserError(
            f"{path} calls none of the selected instances valid; select others"
        )
    return left_out
