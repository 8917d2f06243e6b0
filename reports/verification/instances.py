"""Compare the files of an instance with what follows from its trajectory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

from agent.formats import get_format
from agent.prompts import prompts_hash
from bench.attempts import (
    CandidateChoice,
    choose_by_evidence,
    explain_choice,
    transcript,
)
from core.errors import UserError
from core.money import as_number, total
from core.parsing.untrusted import read_object
from llm.chat import TRAITS, Message, Reminder, Reply, Traits, request_sha256
from llm.registry import traits
from llm.settings import ModelSettings
from reports.verification.difference import (
    Difference,
    all_differences,
    first_difference,
    first_line,
)
from runs.description import Run
from runs.evidence import Evidence
from runs.modelsource import ReplayedModels, recorded_calls, replay_folder
from runs.options import folder_sha256
from runs.records import (
    PLAUSIBLE,
    Attempt,
    AttemptStatus,
    InstanceResult,
    Values,
    flat_trajectory,
    status_by,
)
from runs.storage.store import RunStore
from runs.storage.versions import HARNESS_VERSION


@dataclass(frozen=True)
class InstanceCheck:
    """Checks the files of the instances of one run; ``run`` is its ``run.json``."""

    store: RunStore
    run: Run
    unchecked: set[str] = field(default_factory=set)

    def _compared(
        self, found: Mapping[str, Any], expected: Mapping[str, Any]
    ) -> Iterator[str]:
        """Yield the differences of a file from what the models write.

        What another version did not write, or this one does not, is noted as not checked.
        """
        if self.run.versions.get("harness") != HARNESS_VERSION:
            expected = without_keys(found, expected, self.unchecked)
            found = without_keys(expected, found, self.unchecked)
        yield from all_differences(found, expected)

    def differences(self, path: Path) -> Iterator[Difference]:
        """Yield what differs for the instance whose prediction is at ``path``."""
        raw = self.store.raw_prediction(path)
        result = self.store.read_trajectory(path.stem)
        if result is None:
            if self.run.is_ours:
                yield Difference(self.store.trajectory(path.stem), "is missing")
            return
        if self.run.is_ours or result.versions is not None:
            yield from self._derived(path, raw, result)
            return
        problem = unequal_attempts(InstanceResult.of_prediction(raw), result)
        if problem:
            yield Difference(path, problem)

    def _derived(
        self, path: Path, raw: Mapping[str, Any], result: InstanceResult
    ) -> Iterator[Difference]:
        place = self.store.trajectory(path.stem)
        for words in self._of_trajectory(read_object(place, ""), result):
            yield Difference(place, words)
        expected = result.but(
            model_name_or_path=str(raw.get("model_name_or_path")),
            cost=total(one.cost for one in (*result.attempts, *result.writers)),
        )
        for words in islice(self._compared(raw, expected.prediction()), 1):
            yield Difference(path, words)
        page = self.store.transcript(path.stem)
        if not page.is_file():
            yield Difference(page, "is missing")
            return
        # Transcripts are written with lone surrogates as escapes.
        again_page = transcript(expected).encode("utf-8", "backslashreplace").decode()
        yield from first_line(
            page, page.read_bytes().decode("utf-8", "replace"), again_page
        )

    def _of_trajectory(
        self, raw: Mapping[str, Any], result: InstanceResult
    ) -> Iterator[str]:
        yield from self._compared(flat_trajectory(raw), result.trajectory())
        origin = list(self._wrong_origin(result)) if self.run.is_ours else []
        yield from origin
        config = {} if origin else result.config or {}
        for number, attempt in enumerate(result.attempts, 1):
            wrongs = (
                _wrong(attempt, number),
                self._of_model(config, attempt),
                self._of_recording(result.instance_id, attempt),
            )
            for wrong in chain(*wrongs):
                yield f"attempt {number}: {wrong}"
        for writer in result.writers:
            requests = [
                [asked]
                for asked, reply in pairwise(writer.messages or ())
                if reply.role == "assistant"
            ]
            hashes = [call.request_sha256 for call in writer.calls or ()]
            if hashes != list(map(request_sha256, requests)):
                yield f"scripts of {writer.model}: messages do not fit the calls"
        winner = raw.get("winner")
        again = chosen_again(
            result.attempts,
            winner,
            result.evidence,
            require_tests=bool((result.config or {}).get("require_tests")),
        )
        found = {
            "winner": winner,
            "status": str(result.status),
            "reason": result.reason.replace(*_REWORDED),
        }
        chosen = {
            "winner": again.winner.attempt if again.winner else None,
            "status": str(again.status),
            "reason": again.reason,
        }
        if words := first_difference(found, chosen):
            yield f"the choice from the recorded outcomes: {words}"

    def _wrong_origin(self, result: InstanceResult) -> Iterator[str]:
        """Yield where versions and configuration of a trajectory are not those of its run.

        A later start may have other versions, and other values of options that decide no results.
        """
        run = self.run
        known = [run.versions, *(start.versions for start in run.starts)]
        if result.versions not in known:
            yield from all_differences(result.versions, known[0], ("versions",))
        recorded = run.config
        names = set(recorded)
        if len(run.starts) > 1:
            names -= {"models"} | recorded.keys() - (run.deciding or {}).keys()
        config = result.config or {}
        found = {name: config[name] for name in names if name in config}
        expected = {name: recorded[name] for name in names}
        yield from islice(all_differences(found, expected, ("config",)), 1)

    @cached_property
    def _recordings(self) -> ReplayedModels | None:
        """The recordings that the run replayed, if they are at hand and unchanged."""
        replayed = (self.run.options.get("replay"), self.run.configuration.replay)
        expected = (self.run.deciding or {}).get("replay_sha256")
        for folder in replayed:
            if not isinstance(folder, str) or not folder:
                continue
            with suppress(OSError, UserError):
                if folder_sha256(Path(folder)) == expected:
                    return ReplayedModels(replay_folder(Path(folder)), {})
        return None

    def _of_recording(self, name: str, attempt: Attempt) -> Iterator[str]:
        if self._recordings is None or attempt.traits is None:
            return
        recorded = self._recordings.attempts(name).get(attempt.attempt)
        if recorded is None:
            return
        # A reply to another request than the recorded one has no hash of its exchange.
        known = list(map(_without_hashes, recorded_calls(recorded)))
        for number, call in enumerate(attempt.calls or (), 1):
            if _without_hashes(call) not in known:
                yield f"call {number} is not one of the replayed recording"
        expected = TRAITS.dump_python(recorded.traits or Traits(), mode="json")
        found = TRAITS.dump_python(attempt.traits, mode="json")
        yield from all_differences(found, expected, ("traits",))

    def _of_model(self, config: Mapping[str, Any], attempt: Attempt) -> Iterator[str]:
        models = config.get("models")
        if not models or config.get("candidates_of"):
            return
        model = models[(attempt.attempt - 1) % len(models)]
        expected: Values = {"try": (attempt.attempt - 1) // len(models) + 1}
        if config.get("replay") is None:
            expected |= {"model": model["name"], "edit_format": model["edit_format"]}
            if attempt.traits is not None:
                settings = ModelSettings(**model["settings"])
                expected["traits"] = TRAITS.dump_python(traits(settings), mode="json")
        values = attempt.as_json()
        found = {name: values[name] for name in expected}
        yield from all_differences(found, expected)
        same_prompts = (self.run.deciding or {}).get("prompts_sha256") == prompts_hash()
        if not same_prompts or not attempt.messages or not attempt.traits:
            return
        name = attempt.edit_format or ""
        rules = _one_fence(get_format(name).instructions("```"))
        first, *others = (_one_fence(message.content) for message in attempt.messages)
        places = rules in first, any(rules in other for other in others)
        reminder = attempt.traits.reminder
        if reminder is not Reminder.NONE and places != _REMINDED[reminder]:
            yield (
                f"messages are not those of the format {name} with the reminder "
                f"{reminder.value}"
            )


def _without_hashes(reply: Reply) -> Reply:
    return replace(reply, exchange_sha256=None, request_sha256="")


# In reasons of version 0.12, and of this version.
_REWORDED = ("no test could speak", "no test could run")

# Whether the rules of a format are in the first message, and whether in a later one.
_REMINDED = {
    Reminder.SYSTEM: (True, False),
    Reminder.USER: (False, True),
    Reminder.BOTH: (True, True),
}


_BY_OUTCOMES = PLAUSIBLE | {
    AttemptStatus.EDIT_FAILED,
    AttemptStatus.LINT_FAILED,
    AttemptStatus.TESTS_FAILED,
}


def without_keys(found: Any, expected: Any, lacking: set[str]) -> Any:  # noqa: ANN401
    """Return ``expected`` without the keys that ``found`` lacks, which are added to ``lacking``."""
    if isinstance(found, Mapping) and isinstance(expected, Mapping):
        lacking.update(expected.keys() - found.keys())
        return {
            key: without_keys(found[key], expected[key], lacking)
            for key in expected
            if key in found
        }
    if isinstance(found, list) and isinstance(expected, list):
        pairs = zip(found, expected, strict=False)
        compared = [without_keys(*pair, lacking) for pair in pairs]
        return compared + expected[len(found) :]
    return expected


def _wrong(attempt: Attempt, number: int) -> Iterator[str]:
    if words := wrong_request(attempt):
        yield f"messages do not fit the calls: {words}"
    dropped = attempt.submittable.dropped
    if not attempt.is_ours:  # its tree had files that are in no patch
        others = len(attempt.dropped_files) - len(dropped)
        dropped = (*attempt.dropped_files[:others], *dropped)
    expected = {
        "attempt": number,
        "dropped_files": list(dropped),
        "cost": as_number(total(call.cost for call in attempt.calls or ())),
    }
    if attempt.status in _BY_OUTCOMES:
        expected["status"] = str(status_by(attempt))
    values = attempt.as_json()
    yield from all_differences({name: values[name] for name in expected}, expected)
    if attempt.untested and attempt.test_outcome is not None:
        yield "untested says why the test outcome is unknown, but it is known"


def _one_fence(text: str) -> str:
    return re.sub("`{3,}", "```", text)


def unequal_attempts(
    prediction: InstanceResult, trajectory: InstanceResult
) -> str | None:
    """Return where the two files of an instance contradict each other, None if nowhere.

    Only what both have is compared: other harnesses leave values out.
    """
    others = {attempt.attempt: attempt for attempt in trajectory.attempts}
    for position, attempt in enumerate(prediction.attempts):
        other = others.get(attempt.attempt)
        if other is None:
            continue
        both = attempt.model_fields_set & other.model_fields_set
        # A combination numbers the attempts of its runs again.
        names = sorted(both - {"attempt", "try_"})
        found = {name: getattr(attempt, name) for name in names}
        expected = {name: getattr(other, name) for name in names}
        if words := first_difference(found, expected, ("all_results", position)):
            return words
    found = {"model_patch": prediction.model_patch}
    return first_difference(found, {"model_patch": trajectory.model_patch})


def chosen_again(
    attempts: Sequence[Attempt],
    winner: int | None,
    evidence: Evidence | None,
    *,
    require_tests: bool,
) -> CandidateChoice:
    """Return the choice among ``attempts``, given the trajectory's ``winner``.

    Files before 0.13 do not say of attempts with failed edits whether the patch applied; such a
    candidate is excluded if that explains the winner.
    """
    candidates = list(attempts)
    while True:
        choice = choose_by_evidence(candidates, evidence, require_tests=require_tests)
        best = choice.winner
        if best is None or best.attempt == winner or best.edit_outcome is not False:
            return explain_choice(choice, attempts)
        if "applies" in best.model_fields_set:
            return explain_choice(choice, attempts)
        candidates[candidates.index(best)] = best.but(applies=False)


def wrong_request(record: Attempt) -> str:
    """Return which call of ``record`` does not match its messages; empty if all match."""
    if not record.calls or not record.is_ours:
        return ""
    messages = record.messages or ()
    last = record.calls[-1].content
    if messages and not messages[-1].content.endswith(last):
        return f"the last message is not the reply of call {len(record.calls)}"
    requests = list(_requests(record))
    hashes = {request_sha256(request) for request in requests}
    shown = [message.content for message in messages if message.role == "assistant"]
    replied, found = (
        "".join(call.content for call in record.calls),
        "".join(shown),
    )
    # The oldest rounds were left out if the messages do not begin with the first request.
    whole = (
        bool(requests) and request_sha256(requests[0]) == record.calls[0].request_sha256
    )
    if not replied.endswith(found) or (whole and replied != found):
        return "the messages do not hold the replies of the calls"
    every = len(shown) >= len(record.calls)
    checked = list(enumerate(record.calls, 1))[0 if every else -1 :]
    for number, call in checked:
        if call.request_sha256 not in hashes:
            return f"the request hash of call {number} is not that of its messages"
    return ""


def _requests(record: Attempt) -> Iterator[Sequence[Message]]:
    """Yield possible requests: all messages before a reply, with or without a truncated reply."""
    messages = record.messages or ()
    for number, message in enumerate(messages):
        if message.role != "assistant":
            continue
        yield messages[:number]
        for call in record.calls or ():
            start = message.content.removesuffix(call.content)
            if start and start != message.content:
                yield [*messages[:number], Message("assistant", start)]
