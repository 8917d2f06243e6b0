"""The data of a run, read once from its files of any version."""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from swe_retry.attempts.own_settings import PATCH, PATCH_HEADING, SUMMARY
from swe_retry.core.money import total
from swe_retry.llm.chat import Reply
from swe_retry.record.description import Run
from swe_retry.record.jsonlines import DamagedLine
from swe_retry.record.records import Attempt, Outcome, Texts, Values, Word
from swe_retry.record.result import InstanceResult
from swe_retry.results.predictions import Prediction
from swe_retry.results.verdicts import Verdict
from swe_retry.runner.calls.ledger import LedgerLine, at_most, recorded_cost


class InstanceData(InstanceResult):
    """One predicted instance with what only reports may know.

    Attributes:
        resolved_said: by the prediction file itself, which the older layout and imports have.
        gold_files: of the gold patch; empty if unknown.
        year: of the issue's pull request.
        image: for its tests, even if none ran in it.
        map_files: in the repository maps that models were shown; None if unknown.
        verdict: on the prediction.
        verdicts: on the patches of other attempts, by their numbers.
    """

    in_predictions: ClassVar = InstanceResult.in_predictions | {
        "resolved",
        "gold_files",
    }

    resolved_said: Annotated[Outcome, Field(alias="resolved")] = None
    gold_files: Texts = ()
    repo: Word = ""
    year: int | None = None
    image: Word = ""
    map_files: tuple[str, ...] | None = None
    verdict: Verdict | None = None
    verdicts: Mapping[int, Verdict] = Field(default_factory=dict)

    @property
    def paid(self) -> Decimal | None:
        """The dollars that are known to be due; None when unknown."""
        return self.cost

    @property
    def resolved(self) -> bool | None:
        """None if it was not evaluated; False for an empty patch."""
        if self.verdict is None:
            return None
        return self.verdict.outcome

    @property
    def may_resolve(self) -> bool:
        return bool(self.patch.strip()) or not self.patch_known

    @property
    def model(self) -> str:
        """The model of the chosen attempt, with its agent; empty if unknown."""
        if self.chosen is None:
            return ""
        return self.chosen.label

    @property
    def origin(self) -> str:
        """In a combined run, the run that it comes from; else empty."""
        if self.chosen and self.chosen.origin:
            return self.chosen.origin.run
        return ""

    @property
    def script_calls(self) -> tuple[Reply, ...]:
        """The calls for scripts; in 0.12 for summaries too."""
        calls: tuple[Reply, ...] = ()
        for writer in self.writers:
            calls += writer.calls or ()
        return calls

    def prediction(self) -> Values:
        prediction = super().prediction()
        if self.resolved_said is not None:
            prediction["resolved"] = self.resolved_said
        if self.gold_files:
            prediction["gold_files"] = list(self.gold_files)
        return prediction

    def to_evaluate(self, label: str = "") -> Prediction:
        """Return what an evaluator gets; ``label`` stands for a missing name of the model."""
        return Prediction(
            instance_id=self.instance_id,
            model_name_or_path=self.model_name_or_path or label,
            patch=self.patch,
            dropped=self.submittable.dropped,
            resolved=self.resolved_said,
            patch_known=self.patch_known,
        )

    def resolved_by(self, attempt: Attempt) -> bool | None:
        """Return whether one of its attempts resolves it; None without a verdict.

        If the verdict on the prediction is official, unofficial ones on attempts do not count.
        """
        if attempt is self.chosen and not attempt.patch_known:
            return self.resolved
        if not attempt.patch_known:
            return None
        if not attempt.patch.strip():
            return False
        if attempt.patch == self.patch:
            return self.resolved
        verdict = self.verdicts.get(attempt.attempt)
        official = self.verdict is not None and self.verdict.official
        if verdict is None or (official and not verdict.official):
            return None
        return verdict.outcome


@dataclass(frozen=True)
class RunData:
    """A run.

    Attributes:
        models: in the order of their turns, with their agents; empty if unknown.
        unfinished: instances that were started and have no prediction.
        ledger: every call that cost something; empty for runs without a ledger.
        damaged: lines of the ledger that could not be read.
    """

    name: str
    folder: Path
    model_name_or_path: str
    described: Run
    instances: tuple[InstanceData, ...]
    selected: tuple[str, ...]
    models: tuple[str, ...]
    unfinished: tuple[InstanceResult, ...] = ()
    ledger: tuple[LedgerLine, ...] = field(
        default=(),
        repr=False,
    )
    damaged: tuple[DamagedLine, ...] = ()

    @property
    def attempts(self) -> list[Attempt]:
        return [attempt for instance in self.instances for attempt in instance.attempts]

    @property
    def outcomes(self) -> Counter[bool | None]:
        """How many instances are resolved, are not, and were not evaluated."""
        return Counter(instance.resolved for instance in self.instances)

    @property
    def resolved_count(self) -> int:
        return self.outcomes[True]

    @property
    def plausible_count(self) -> int | None:
        """The number of plausible instances; None if a harness does not say."""
        outcomes = Counter(instance.plausible for instance in self.instances)
        if None in outcomes:
            return None
        return outcomes[True]

    @property
    def is_evaluated(self) -> bool:
        """Whether a patch has a verdict, or where none has a patch, an empty prediction."""
        patched = [instance for instance in self.instances if instance.may_resolve]
        deciding = patched or self.instances
        return any(instance.resolved is not None for instance in deciding)

    @property
    def not_predicted(self) -> set[str]:
        """The ids of the selected instances that have no prediction."""
        predicted = {instance.instance_id for instance in self.instances}
        return set(self.selected) - predicted

    @cached_property
    def own_summary(self) -> str:
        """What a run on one's own repository says, in Markdown without the patch; else empty."""
        path = self.folder / SUMMARY
        if not self.described.is_own or not path.is_file():
            return ""
        text = path.read_text("utf-8", "replace")
        return text.partition(f"\n{PATCH_HEADING}\n")[0]

    @property
    def apply_command(self) -> str:
        """The command that applies the patch for one's own repository; empty without one."""
        patch = self.folder.resolve() / PATCH
        return f"git apply {shlex.quote(str(patch))}" if patch.is_file() else ""

    @property
    def continue_command(self) -> str:
        """The command that goes on with the run; empty where nothing is left or another made it."""
        if not self.not_predicted or not self.described.is_ours:
            return ""
        return continue_command(self.folder)

    @property
    def is_replay(self) -> bool:
        """Whether all its dollars are those of recorded replies, so that nothing was paid."""
        return bool(self.cost) and recorded_cost(self.ledger) == self.cost

    @property
    def costs(self) -> list[Decimal | None]:
        """Dollars: the lines of the ledger, or else the instances."""
        return [call.paid for call in self.ledger or self.instances]

    @property
    def cost(self) -> Decimal | None:
        """Dollars of the whole run; None if unknown."""
        return total(self.costs)

    @property
    def cost_at_most(self) -> Decimal | None:
        """Dollars with calls that may not have been billed; None if unknown."""
        if self.ledger:
            return at_most(self.ledger)
        return total(instance.cost for instance in self.instances)

    def part(self, instances: Iterable[InstanceData]) -> RunData:
        """Return the run with these instances alone."""
        return replace(self, instances=tuple(instances), ledger=())


def continue_command(folder: Path) -> str:
    return f"python harness.py --continue {shlex.quote(str(folder))}"


def verdicts_on_patches(instances: Iterable[InstanceData]) -> list[Verdict]:
    """Return the verdicts of evaluators that came to one; an empty prediction needs none."""
    verdicts = []
    for instance in instances:
        verdict = instance.verdict
        if verdict and verdict.conclusive and instance.may_resolve:
            verdicts.append(verdict)
    return verdicts


def repository_of(instance_id: str) -> str:
    """Return the repository in an id: ``owner/name`` for ``owner__name-123``."""
    return instance_id.rpartition("-")[0].replace("__", "/", 1) or instance_id


def rounds(run: RunData) -> tuple[tuple[Prediction, ...], ...]:
    """Return other attempts' patches; evaluators take one per instance at a time."""
    predictions = defaultdict(list)
    for instance in run.instances:
        patches = dict.fromkeys(attempt.patch for attempt in instance.attempts)
        patches.pop(instance.patch, None)
        label = run.model_name_or_path
        for number, patch in enumerate(filter(str.strip, patches)):
            other = Prediction(instance.instance_id, label, patch, chosen=False)
            predictions[number].append(other)
    return tuple(map(tuple, predictions.values()))
