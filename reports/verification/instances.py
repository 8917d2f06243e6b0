"""Compare the files of an instance with what follows from its trajectory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

from agent.formats import get_format
from agent.named import is_outside
from agent.prompts import prompts_hash
from bench.attempts.candidates import CandidateChoice, InstanceStatus, choose
from bench.attempts.evidence import choose_by_evidence
from bench.attempts.records import AttemptRecord
from bench.attempts.solving import Solved, explained
from bench.attempts.transcript import transcript
from bench.instances.instance import Instance
from core.errors import UserError
from core.parsing.untrusted import Keys
from llm.chat import TRAITS, Message, Reply, Traits, request_sha256
from llm.registry import traits
from llm.settings import ModelSettings
from reports.data.jsonvalues import mapping, objects, text
from reports.verification.difference import (
    Difference,
    all_differences,
    first_difference,
    first_line,
)
from runs.evidence import Evidence, evidence_of
from runs.modelsource import ReplayedModels, replay_folder
from runs.options import folder_sha256
from runs.patches import submittable_patch
from runs.storage.store import RunStore

Trajectory = Mapping[str, Any]


@dataclass(frozen=True)
class InstanceCheck:
    """Checks the files of the instances of one run; ``described`` is its ``run.json``."""

    store: RunStore
    described: Mapping[str, Any]

    @property
    def _ours(self) -> bool:
        return "versions" in self.described

    def differences(self, path: Path) -> Iterator[Difference]:
        """Yield what differs for the instance whose prediction is at ``path``."""
        written = self.store.read_as_written(path)
        place = self.store.trajectory(written["instance_id"])
        trajectory = self.store.read_trajectory(written["instance_id"])
        if not trajectory:
            if self._ours:
                yield Difference(place, "is missing")
            return
        try:
            if self._ours or ("winner" in trajectory and "versions" in trajectory):
                yield from self._derived(path, written, trajectory)
            elif words := _wrong_results(written, trajectory):
                yield Difference(path, words)
        except (
            ArithmeticError,
            AttributeError,
            LookupError,
            TypeError,
            ValueError,
        ) as error:
            words = f"does not have the layout of docs/trajectory.md: {error!r}"
            yield Difference(place, words, unreadable=True)

    def _derived(
        self, path: Path, written: Mapping[str, Any], trajectory: Trajectory
    ) -> Iterator[Difference]:
        place = self.store.trajectory(written["instance_id"])
        if "instance_id" not in trajectory:
            yield Difference(place, "instance_id is missing")
        records = [AttemptRecord.of_trajectory(raw) for raw in trajectory["attempts"]]
        origin = list(_wrong_origin(self.described, trajectory)) if self._ours else []
        yield from (Difference(place, words) for words in origin)
        config = {} if origin else trajectory["config"]
        for number, (raw, record) in enumerate(
            zip(trajectory["attempts"], records, strict=True), 1
        ):
            wrongs = (
                _wrong(raw, record, number),
                self._of_model(config, raw, record),
                self._of_recording(written["instance_id"], record),
            )
            for wrong in chain(*wrongs):
                yield Difference(place, f"attempt {number}: {wrong}")
        require_tests = bool(trajectory["config"]["require_tests"])
        evidence = evidence_of(trajectory)
        writers = [
            AttemptRecord.of_trajectory(raw) for raw in trajectory.get("writers", ())
        ]
        for writer in writers:
            replied = pairwise(writer.messages)
            asked = [[one] for one, reply in replied if reply.role == "assistant"]
            hashes = [call.request_sha256 for call in writer.calls]
            if hashes != [request_sha256(one) for one in asked]:
                yield Difference(
                    place, f"scripts of {writer.model}: messages do not fit the calls"
                )
        again = chosen_again(
            records, trajectory["winner"], evidence, require_tests=require_tests
        )
        expected = {
            "winner": again.winner.attempt if again.winner else None,
            "status": again.status.value,
            "reason": again.reason,
        }
        chosen = {key: trajectory[key] for key in expected}
        chosen["reason"] = chosen["reason"].replace(*_REWORDED)
        if words := first_difference(chosen, expected):
            yield Difference(place, f"the choice from the recorded outcomes: {words}")
        winner = next(
            (r.candidate for r in records if r.attempt == trajectory["winner"]), None
        )
        choice = CandidateChoice(
            winner, InstanceStatus(trajectory["status"]), trajectory["reason"]
        )
        # The files contain only the name and the title of an instance.
        title = str(trajectory.get("title", ""))
        instance = Instance(written["instance_id"], "", "", title, "", "")
        solved = Solved(instance, tuple(records), choice, evidence, tuple(writers))
        made = solved.as_prediction(str(written.get("model_name_or_path")))
        if words := first_difference(written, made):
            yield Difference(path, words)
        page = self.store.transcript(written["instance_id"])
        if not page.is_file():
            yield Difference(page, "is missing")
            return
        # Transcripts are written with lone surrogates as escapes.
        again_page = transcript(solved).encode("utf-8", "backslashreplace").decode()
        yield from first_line(
            page, page.read_bytes().decode("utf-8", "replace"), again_page
        )

    @cached_property
    def _recordings(self) -> ReplayedModels | None:
        """The recordings that the run replayed, if they are at hand and unchanged."""
        parts = (mapping(self.described.get(key)) for key in ("options", "config"))
        for place in (
            Path(text(part.get("replay"))) for part in parts if part.get("replay")
        ):
            same = mapping(self.described.get("deciding")).get("replay_sha256")
            with suppress(OSError, UserError):
                if folder_sha256(place) == same:
                    return ReplayedModels(replay_folder(place), {})
        return None

    def _of_recording(self, name: str, record: AttemptRecord) -> Iterator[str]:
        recorded = (
            self._recordings.attempts(name).get(record.attempt)
            if self._recordings
            else None
        )
        if recorded is None or record.traits is None:
            return
        # A reply to another request than the recorded one has no hash of its exchange.
        known = [_without_hashes(call) for call in recorded.calls]
        for number, call in enumerate(record.calls, 1):
            if _without_hashes(call) not in known:
                yield f"call {number} is not one of the replayed recording"
        traits = recorded.traits or Traits()
        yield from all_differences(asdict(record.traits), asdict(traits), ("traits",))

    def _of_model(
        self, config: Mapping[str, Any], raw: Mapping[str, Any], record: AttemptRecord
    ) -> Iterator[str]:
        models = config.get("models")
        if not models or config.get("candidates_of"):
            return
        model = models[(record.attempt - 1) % len(models)]
        expected: dict[str, Any] = {"try": (record.attempt - 1) // len(models) + 1}
        if config.get("replay") is None:
            expected |= {"model": model["name"], "edit_format": model["edit_format"]}
            if raw["traits"] is not None:
                settings = ModelSettings(**model["settings"])
                expected["traits"] = TRAITS.dump_python(traits(settings), mode="json")
        yield from all_differences({key: raw.get(key) for key in expected}, expected)
        same = (
            mapping(self.described.get("deciding")).get("prompts_sha256")
            == prompts_hash()
        )
        if not same or not record.messages or not raw["traits"]:
            return
        rules = _one_fence(get_format(record.edit_format).instructions("```"))
        first, *others = (_one_fence(message.content) for message in record.messages)
        found = rules in first, any(rules in other for other in others)
        reminder = raw["traits"]["reminder"]
        if reminder != "none" and found != _REMINDED.get(reminder):
            name = record.edit_format
            yield f"messages are not those of the format {name} with the reminder {reminder}"


def _without_hashes(reply: Reply) -> Reply:
    return replace(reply, exchange_sha256=None, request_sha256="")


# In reasons of version 0.12, and of this version.
_REWORDED = ("no test could speak", "no test could run")

# Whether the rules of a format are in the first message, and whether in a later one.
_REMINDED = {"system": (True, False), "user": (False, True), "both": (True, True)}


def _wrong(raw: Mapping[str, Any], record: AttemptRecord, number: int) -> Iterator[str]:
    if words := wrong_request(record):
        yield f"messages do not fit the calls: {words}"
    dropped = list(submittable_patch(record.model_patch).dropped)
    if is_outside(record.edit_format):  # its tree had files that are in no patch
        dropped = [
            *record.dropped_files[: len(record.dropped_files) - len(dropped)],
            *dropped,
        ]
    again = {"attempt": number, "dropped_files": dropped}
    yield from all_differences(raw, {**record.as_trajectory(), **again})
    if record.candidate.untested and record.candidate.test is not None:
        yield "untested says why the test outcome is unknown, but it is known"


def _wrong_origin(
    described: Mapping[str, Any], trajectory: Trajectory
) -> Iterator[str]:
    """Yield where versions and configuration of a trajectory are not those of its run.

    A later start may have other versions, and other values of options that decide no results.
    """
    starts = objects(described.get("starts"))
    known = [described.get("versions"), *(start.get("versions") for start in starts)]
    if trajectory["versions"] not in known:
        yield from all_differences(trajectory["versions"], known[0], ("versions",))
    recorded = mapping(described.get("config"))
    free = {"models"} | recorded.keys() - mapping(described.get("deciding"))
    kept = recorded.keys() - (free if len(starts) > 1 else set())
    found, expected = (
        {key: part[key] for key in kept if key in part}
        for part in (trajectory["config"], recorded)
    )
    yield from islice(all_differences(found, expected, ("config",)), 1)


def _one_fence(text: str) -> str:
    return re.sub("`{3,}", "```", text)


def _wrong_results(written: Mapping[str, Any], trajectory: Trajectory) -> str | None:
    said = {
        raw.get("attempt"): raw.get("recorded", {}) for raw in trajectory["attempts"]
    }
    places: list[tuple[Keys, Any, Mapping[str, Any]]] = [
        (("all_results", number), result, said.get(result.get("attempt"), {}))
        for number, result in enumerate(objects(written.get("all_results")))
    ]
    if "winner" in trajectory:
        winner = said.get(trajectory["winner"], {"model_patch": ""})
        patch = {key: part for key, part in winner.items() if key == "model_patch"}
        places.append(((), written, patch))
    for keys, found, recorded in places:
        # A combination numbers the attempts of its runs again.
        shared = (found.keys() & recorded.keys()) - {"attempt", "try"}
        one, other = (
            {key: part[key] for key in sorted(shared)} for part in (found, recorded)
        )
        if words := first_difference(one, other, keys):
            return words
    return None


def chosen_again(
    records: Sequence[AttemptRecord],
    winner: int | None,
    evidence: Evidence | None,
    *,
    require_tests: bool,
) -> CandidateChoice:
    """Return the choice among ``records``, given the trajectory's ``winner``.

    For attempts with failed edits the trajectory does not record whether the patch applied; such a
    candidate is excluded if that explains the winner.
    """
    candidates = [record.candidate for record in records]
    while True:
        if evidence is None:
            choice = choose(candidates, require_tests=require_tests)
        else:
            choice = choose_by_evidence(
                candidates, evidence, require_tests=require_tests
            )
        best = choice.winner
        if best is None or best.attempt == winner or best.edit is not False:
            return explained(choice, records)
        candidates = [replace(c, applies=False) if c == best else c for c in candidates]


def wrong_request(record: AttemptRecord) -> str:
    """Return which call of ``record`` does not match its messages; empty if all match."""
    if not record.calls or is_outside(record.edit_format):
        return ""
    last = record.calls[-1].content
    if record.messages and not record.messages[-1].content.endswith(last):
        return f"the last message is not the reply of call {len(record.calls)}"
    requests = list(_requests(record))
    hashes = {request_sha256(request) for request in requests}
    shown = [
        message.content for message in record.messages if message.role == "assistant"
    ]
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


def _requests(record: AttemptRecord) -> Iterator[Sequence[Message]]:
    """Yield possible requests: all messages before a reply, with or without a truncated reply."""
    for number, message in enumerate(record.messages):
        if message.role != "assistant":
            continue
        yield record.messages[:number]
        for call in record.calls:
            start = message.content.removesuffix(call.content)
            if start and start != message.content:
                yield [*record.messages[:number], Message("assistant", start)]
