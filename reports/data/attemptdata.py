"""The attempts of an instance, read from its prediction file and its trajectory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from bench.attempts.candidates import NEVER_PLAUSIBLE, PLAUSIBLE, Candidate, attempt_status
from bench.repos.patches import patch_paths
from llm.chat import Usage
from reports.data.jsonvalues import (
    dollars,
    flag,
    mapping,
    number,
    objects,
    text,
    texts,
    usage,
    whole,
    writable,
)
from reports.data.predictions import IMPORTED, predicted_patch
from reports.evaluation.evaluators.base import Verdict


@dataclass(frozen=True)
class CallData:
    """One call of a model.

    Attributes:
        usage: tokens; None if the provider did not report them.
        cost: dollars; None if the price is unknown.
        seconds: wall-clock time without retries.
        model: the name that the provider returned.
    """

    usage: Usage | None
    cost: Decimal | None
    seconds: float
    model: str = ""


@dataclass(frozen=True)
class AttemptTotals:
    """Calls and tokens of an attempt of another harness; None if its files do not hold them."""

    calls: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None


@dataclass(frozen=True)
class AttemptData:
    """One attempt.

    Attributes:
        attempt: its number over the whole instance, from 1.
        try_: its number among the attempts of its model, from 1.
        model: empty if unknown.
        edit_format: None without a trajectory.
        status: a value of ``AttemptStatus``; in the older layout derived from the outcomes.
        edit, lint, test: outcomes; None if unknown.
        reflections: messages after the first; None if unknown.
        calls: empty without a trajectory.
        cost: dollars; None if unknown.
        seconds: wall-clock time; None if unknown.
        patch: the raw patch, with edits to tests.
        submittable_patch: the patch without excluded files.
        verdict: on ``submittable_patch``, if it is not predicted and was evaluated as well.
        edits_test_configuration: whether the patch changes how existing tests run.
        totals: stand for ``calls`` in attempts of other harnesses.
        patch_known: False if the files of another harness hold no patch.
        outcomes_known: False in attempts of other harnesses, of which none is known as plausible.
    """

    attempt: int
    try_: int
    model: str
    edit_format: str | None
    status: str
    edit: bool | None
    lint: bool | None
    test: bool | None
    reflections: int | None
    calls: tuple[CallData, ...]
    cost: Decimal | None
    seconds: float | None
    patch: str
    submittable_patch: str
    added_files: tuple[str, ...]
    edited_files: tuple[str, ...]
    dropped_files: tuple[str, ...]
    error: str
    verdict: Verdict | None = None
    edits_test_configuration: bool = False
    totals: AttemptTotals | None = None
    patch_known: bool = True
    outcomes_known: bool = True

    @property
    def candidate(self) -> Candidate:
        """The attempt as the harness ranks it; its patch is assumed to apply."""
        outcomes = self.edit, self.lint, self.test
        status = next((s for s in NEVER_PLAUSIBLE if s.value == self.status), None)
        marked = self.edits_test_configuration
        return Candidate(self.attempt, self.submittable_patch, True, *outcomes, status, marked)

    @property
    def plausible(self) -> bool:
        """Whether its status means plausible."""
        return self.status in PLAUSIBLE


def attempts_of(
    results: Sequence[Mapping[str, Any]], trajectory: Mapping[str, Any]
) -> tuple[AttemptData, ...]:
    """Return an instance's attempts, sorted by number.

    Args:
        results: the attempts of the prediction file, each with attempt, try and model.
        trajectory: adds the values that the prediction file lacks; empty if there is none.
    """
    by_number = {result["attempt"]: result for result in results}
    for entry in objects(trajectory.get("attempts")):
        if attempt := whole(entry.get("attempt")):
            # The prediction names the model; a recording may use an alias of it.
            known = {**mapping(entry.get("recorded")), **entry}
            by_number[attempt] = {**known, **by_number.get(attempt, {})}
    return tuple(_attempt(attempt, by_number[attempt]) for attempt in sorted(by_number))


def _attempt(attempt: int, data: Mapping[str, Any]) -> AttemptData:
    patch = writable(data.get("model_patch"))
    fit = predicted_patch({**data, "model_patch": patch})
    edit, lint, test = (flag(data.get(f"{name}_outcome")) for name in ("edit", "lint", "test"))
    derived = attempt_status(Candidate(attempt, fit.patch, True, edit, lint, test)).value
    return AttemptData(
        attempt=attempt,
        try_=whole(data.get("try")) or 1,
        model=text(data.get("model")),
        edit_format=text(data.get("edit_format")) or None,
        status=text(data.get("status")) or derived,
        edit=edit,
        lint=lint,
        test=test,
        reflections=whole(data.get("reflections")),
        calls=tuple(map(_call, objects(data.get("calls")))),
        cost=dollars(data.get("cost")),
        seconds=number(data.get("seconds")),
        patch=patch,
        submittable_patch=fit.patch,
        added_files=texts(data.get("added_files")),
        edited_files=texts(data.get("edited_files")) or patch_paths(patch),
        dropped_files=texts(data.get("dropped_files")) or fit.dropped,
        error=text(data.get("error")),
        edits_test_configuration=data.get("edits_test_configuration") is True,
        totals=_totals(data),
        patch_known=data.get("patch_known") is not False,
        outcomes_known=data.get("outcomes_known") is not False,
    )


def _totals(data: Mapping[str, Any]) -> AttemptTotals | None:
    """Return the totals of an attempt of another harness; all unknown without a trajectory."""
    if data.get(IMPORTED) is not True:
        return None
    kept = mapping(data.get("totals"))
    return AttemptTotals(**{key: whole(kept.get(key)) for key in vars(AttemptTotals())})


def _call(data: Mapping[str, Any]) -> CallData:
    return CallData(
        usage=usage(data.get("usage")),
        cost=dollars(data.get("cost")),
        seconds=number(data.get("seconds")) or 0.0,
        model=text(data.get("model")),
    )


def map_files(trajectory: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the files of all repository maps that models were shown; None if unknown.

    The first user message holds the map before the issue. Each file begins a line and ends with a
    colon (``agent.repomap.rendering``).
    """
    openings = [_opening(attempt) for attempt in objects(trajectory.get("attempts"))]
    known = [opening for opening in openings if opening is not None]
    if not known:
        return None
    return tuple(dict.fromkeys(path for opening in known for path in _headings(opening)))


def _opening(attempt: Mapping[str, Any]) -> str | None:
    messages = objects(attempt.get("messages"))
    return next((text(m.get("content")) for m in messages if m.get("role") == "user"), None)


def _headings(opening: str) -> Iterable[str]:
    lines = opening.partition("\n<issue>\n")[0].splitlines()
    return (line[:-1] for line in lines if line.endswith(":") and not line.startswith(" "))
